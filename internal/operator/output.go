package operator

import "github.com/weirstream/weir/record"

// An Output collects what an operator emits and passes it on. It takes records
// only between begin and end, while one of the operator's functions is at work.
type Output[T any] struct {
	chain *Chain
	next  []Receiver[T]
	batch record.Batch[T]
	limit int // length at which Emit looks closer: 0 while closed or timed
	full  int // length at which the batch is passed on
	moment
	sides Sides
}

// moment is what holds while one of an operator's functions is at work.
type moment struct {
	open  bool
	timed bool
	at    int64 // time of the records being emitted, if timed
}

// NewOutput makes the output of an operator; next are Receiver[T] as any, and
// Side.
func NewOutput[T any](c *Context, next []any) *Output[T] {
	o := &Output[T]{chain: c.Chain, full: c.batchSize()}
	o.sides = Sides{c: c, main: &o.moment}
	for _, r := range next {
		if side, ok := r.(Side); ok {
			o.sides.next = append(o.sides.next, side)
		} else {
			o.next = append(o.next, r.(Receiver[T]))
		}
	}
	return o
}

// Sides returns the operator's side outputs.
func (o *Output[T]) Sides() *Sides { return &o.sides }

// Emit passes a record on.
func (o *Output[T]) Emit(v T) {
	o.batch.Values = append(o.batch.Values, v)
	if len(o.batch.Values) >= o.limit {
		o.look()
	}
}

func (o *Output[T]) look() {
	if !o.open {
		o.batch.Reset()
		panic("weir: emit outside of a handler's functions: an operator emits while it processes a record, a timer or the end of input")
	}
	if o.timed {
		o.batch.Times = append(o.batch.Times, o.at)
	}
	if len(o.batch.Values) >= o.full {
		o.flush()
	}
}

// At sets the time of the records that are emitted next.
func (o *Output[T]) At(at int64) { o.at = at }

// Time returns the time that the records being emitted get.
func (o *Output[T]) Time() int64 { return o.at }

// begin lets records through; timed says whether those at hand have times.
func (o *Output[T]) begin(timed bool) {
	o.open, o.timed, o.at, o.limit = true, timed, 0, o.full
	if timed {
		o.limit = 0 // so that Emit calls look
	}
	for _, s := range o.sides.outputs {
		s.begin(timed)
	}
}

// end passes on what is left, and refuses records.
func (o *Output[T]) end() {
	o.flush()
	o.open, o.limit = false, 0
	for _, s := range o.sides.outputs {
		s.end()
	}
}

// flush passes on what was emitted since the last time.
func (o *Output[T]) flush() {
	if len(o.batch.Values) == 0 {
		return
	}
	if o.chain.passes() {
		for _, receive := range o.next {
			receive(&o.batch)
		}
	}
	o.batch.Reset()
}

// Room returns the emptied batch with room for n records.
func (o *Output[T]) Room(n int) *record.Batch[T] {
	o.flush()
	if cap(o.batch.Values) < n {
		o.batch.Values = make([]T, 0, max(n, 16))
	}
	return &o.batch
}
