package store

import "time"

// DefaultRepeats is how many repeats of an operation are free unless told otherwise: as
// many as careful clients send.
const DefaultRepeats = 3

// maxRepeats bounds what may be told.
const maxRepeats = 1000

// The bounds of how long a repeated operation is known for one.
const (
	minOnce = time.Second
	maxOnce = 31 * 24 * time.Hour
)

// Mark is what a store remembers of an operation that was charged, of a check with
// Once. Times are microseconds since the epoch. From Expires on it says nothing.
type Mark struct {
	At      int64 // when it was charged
	Expires int64
	Repeats int64 // how many have passed since
}
