package commit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirstream/weir/codec"
	"github.com/weirstream/weir/connector"
	"github.com/weirstream/weir/internal/snapshot"
)

// file is a committable; its encoding is its name and a full stop.
type file struct{ Name string }

type fileCodec struct{}

func (fileCodec) Append(dst []byte, f *file) []byte { return append(append(dst, f.Name...), '.') }
func (fileCodec) Schema() codec.Schema              { return codec.Schema{Codec: "test", Type: "file"} }
func (fileCodec) Decode(src []byte, f *file) (int, error) {
	name, _, ok := strings.Cut(string(src), ".")
	if !ok {
		return 0, errors.New("no full stop")
	}
	f.Name = name
	return len(name) + 1, nil
}

// sink writes down what it is asked to do.
type sink struct {
	log  []string
	fail error
}

func (s *sink) OpenCommitter(context.Context, connector.Commitment) (connector.Committer[file], error) {
	if s.fail != nil {
		return nil, s.fail
	}
	return s, nil
}

func (s *sink) Recover(_ context.Context, pending []connector.Committable[file]) error {
	s.log = append(s.log, fmt.Sprint("recover ", pending))
	return nil
}

func (s *sink) Commit(_ context.Context, due []connector.Committable[file]) error {
	s.log = append(s.log, fmt.Sprint("commit ", due))
	return s.fail
}

func (s *sink) Close() error { return s.fail }

func open(t *testing.T, s *sink) Committer {
	t.Helper()
	c, err := New(s, fileCodec{}).Open(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCommitsByCheckpointThenSubtaskThenAsPrepared(t *testing.T) {
	s := &sink{}
	c := open(t, s)
	pending := []snapshot.Pending{
		{Checkpoint: 2, Subtask: 0, Data: []byte("c.")},
		{Checkpoint: 2, Subtask: 0, Data: []byte("d.")},
		{Checkpoint: 1, Subtask: 1, Data: []byte("b.")},
		{Checkpoint: 1, Subtask: 0, Data: []byte("a.")},
		{Checkpoint: 10, Subtask: 0, Data: []byte("e.")},
	}
	for _, do := range []func(context.Context, []snapshot.Pending) error{c.Recover, c.Commit} {
		if err := do(context.Background(), pending); err != nil {
			t.Fatal(err)
		}
	}
	const want = "[{1 0 {a}} {1 1 {b}} {2 0 {c}} {2 0 {d}} {10 0 {e}}]"
	if got := strings.Join(s.log, "; "); got != "recover "+want+"; commit "+want {
		t.Error(got)
	}
	if string(pending[0].Data) != "c." {
		t.Error("the caller's slice was sorted")
	}
}

func TestUnreadableCommittableCommitsNothing(t *testing.T) {
	for _, data := range []string{"x", "x.y"} {
		s := &sink{}
		err := open(t, s).Commit(context.Background(), []snapshot.Pending{{Data: []byte("a.")}, {Checkpoint: 3, Subtask: 2, Data: []byte(data)}})
		if err == nil || !strings.Contains(err.Error(), "checkpoint 3, subtask 2") || len(s.log) > 0 {
			t.Error(err, s.log)
		}
	}
}

func TestErrorsSayWhatWasBeingDone(t *testing.T) {
	full := errors.New("disk full")
	s := &sink{}
	c := open(t, s)
	s.fail = full
	if err := c.Commit(context.Background(), nil); !errors.Is(err, full) || err.Error() != "commit: disk full" {
		t.Error(err)
	}
	if err := c.Close(); !errors.Is(err, full) {
		t.Error(err)
	}
	if _, err := New(s, fileCodec{}).Open(context.Background(), nil); !errors.Is(err, full) {
		t.Error(err)
	}
}
