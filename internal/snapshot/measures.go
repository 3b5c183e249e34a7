package snapshot

import "time"

// Measures is what one subtask's part in a checkpoint came to.
type Measures struct {
	StartDelay time.Duration // from the beginning of the checkpoint until its first barrier was here
	Alignment  time.Duration // from then until the last one was
	Sync       time.Duration // of freezing, when no record is taken
	Async      time.Duration // from then until everything was written
	State      int64         // bytes that the part holds
	Written    int64         // bytes of these that were written for this checkpoint
}
