package heap_test

import (
	"testing"

	"github.com/weirstream/weir/state/heap"
	"github.com/weirstream/weir/state/statetest"
)

func TestBackend(t *testing.T) { statetest.Run(t, heap.Backend{}) }
