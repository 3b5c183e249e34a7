package executor

import (
	"strings"
	"sync"
	"testing"
)

func TestGoroutineIsSeenWhereItIs(t *testing.T) {
	var g Goroutine
	if s := g.Stack(); s != "" {
		t.Errorf("nobody's stack is %s", s)
	}
	var all sync.WaitGroup
	here, leave := make(chan bool), make(chan bool)
	blocked := func() {
		g.Here()
		g.Here()
		here <- true
		<-leave
	}
	all.Go(blocked)
	<-here
	if s := g.Stack(); !strings.Contains(s, "TestGoroutineIsSeenWhereItIs.func1") || strings.Contains(s, "\n\n") {
		t.Errorf("its stack is %s", s)
	}
	leave <- true
	all.Wait()
	if s := g.Stack(); s != "" {
		t.Errorf("when it has ended its stack is %s", s)
	}
	g.Forget()
	all.Go(blocked)
	<-here
	if s := g.Stack(); s == "" {
		t.Error("the next isn't seen")
	}
	leave <- true
	all.Wait()
}
