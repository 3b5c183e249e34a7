// Greedy declares flags whose names are the engine's: all that the variable TAKE
// lists. If PARSE is set it parses them, too.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/weirstream/weir"
)

func main() {
	taken := map[string]*string{}
	for _, name := range strings.Fields(os.Getenv("TAKE")) {
		taken[name] = flag.String(name, "", "the program's own")
	}
	if os.Getenv("PARSE") != "" {
		flag.Parse()
	}
	weir.Main(func(job *weir.Job) error {
		for name, value := range taken {
			fmt.Printf("-%s is %q\n", name, *value)
		}
		weir.Operate(weir.FromSlice(job, "numbers", []int{1}), "free", func(*weir.Out[int]) weir.Handler[int] {
			fmt.Println("subtask of free")
			return weir.Handler[int]{Record: func(int) error { return nil }}
		})
		return nil
	})
}
