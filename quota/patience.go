package quota

import "time"

// patience is how long a book waits for its ledger where it can go on without it.
type patience struct {
	open time.Duration // until requests of unknown accounts get an error at once
	load time.Duration // of a request, for its tenant's numbers
	last time.Duration // for what is written after Close has given up
}

var (
	usualPatience = patience{open: 500 * time.Millisecond, load: 100 * time.Millisecond, last: time.Second}

	// endlessPatience is for a ledger in the memory of this process, which is never away. If it takes
	// long, the process has no processor.
	endlessPatience = patience{open: time.Hour, load: time.Hour, last: time.Hour}
)
