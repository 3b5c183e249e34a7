package snapshot

import (
	"errors"
	"fmt"

	"github.com/weirstream/weir/internal/config"
)

// MostState is how many bytes one state of one subtask may have where checkpoints are
// kept in memory.
const MostState = 5 << 20

// ErrTooLarge says that there is more than checkpoints in memory take.
var ErrTooLarge = errors.New("too large for checkpoints in memory")

func tooLarge(what string, size, most int64) error {
	return fmt.Errorf("%w: %s has %d bytes, and may have %d; set %s, so that it goes to files", ErrTooLarge, what, size, most, config.CheckpointDir.Key())
}

// Fits returns an error if an acknowledgement would hold more than so many bytes.
// What is in files doesn't count.
func (t Task) Fits(most int64) error {
	var size int64
	for _, s := range t {
		size += s.Loose()
		for f := range s.files {
			size += int64(len(f.Data))
		}
	}
	if size <= most {
		return nil
	}
	return tooLarge("what a subtask acknowledges ("+config.AcknowledgementSize.Key()+")", size, most)
}
