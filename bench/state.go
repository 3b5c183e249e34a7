package main

import (
	"runtime"
	"time"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/state"
)

// freezeRow says how long a state holds up its stream when a checkpoint begins.
func freezeRow(name string, keys uint64) row {
	return row{name, func(lasting time.Duration) (result, error) {
		space, err := filled(keys)
		if err != nil {
			return result{}, err
		}
		return least("ms", func(time.Duration) (float64, error) {
			began := time.Now()
			frozen := space.Freeze()
			took := time.Since(began)
			frozen.Drop()
			return milliseconds(took), nil
		})(lasting)
	}}
}

// memoryRow says how much memory a state takes, in relation to its keys and values
// of 8 bytes.
func memoryRow(name string, keys uint64) row {
	return row{name, least("times own size", func(time.Duration) (float64, error) {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		space, err := filled(keys)
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(space)
		return float64(after.HeapAlloc-before.HeapAlloc) / float64(16*keys), err
	})}
}

// keyed is an operator, as far as its state is concerned.
type keyed struct{ space *state.Keyspace[uint64] }

func (k keyed) Keyspace() *state.Keyspace[uint64] { return k.space }

// filled is a keyspace with a value for each of so many keys.
func filled(keys uint64) (*state.Keyspace[uint64], error) {
	c, err := codec.KeyFor[uint64]()
	if err != nil {
		return nil, err
	}
	space := state.NewKeyspace(c, 128, 0, 127, nil)
	value := state.NewValue[int64](keyed{space}, "value")
	for k := range keys {
		space.Set(k, c.Hash(&k))
		value.Set(int64(k))
	}
	return space, space.Err()
}
