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
