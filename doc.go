// Package weir is a stateful stream processing engine: a job reads sources that
// can be read again, keeps state per key, and survives any crash as if it had not
// happened.
//
// A job is a function that puts operators together. Verbs make an operator and
// take a uid, by which its state is found again: From, Map, Process, To. Views
// only say how a stream is looked at: KeyBy, Union, Rebalance, Side.
//
//	func build(job *weir.Job) error {
//		lines := weir.From(job, "lines", file.Lines("corpus"))
//		words := weir.FlatMap(lines, "split", strings.FieldsSeq)
//		weir.Print(weir.Count(weir.KeyBy(words, func(w string) string { return w }), "count"), "print")
//		return nil
//	}
//
//	func main() { weir.Main(build) }
//
// Functions that the job is made of are called by one goroutine per subtask. What
// they return as an error, and what they panic with, fails the job, which is then
// restarted from its latest checkpoint as its settings say. The exception is a
// goroutine that such a function starts by itself: nobody can catch its panic, and
// it ends the process.
package weir
