package ledger

import (
	"context"
	"time"
)

// Exports is the part of a ledger that keeps what receivers of usage have.
type Exports interface {
	// OpenExport makes a receiver known, unless it is.
	OpenExport(ctx context.Context, name string, since time.Time) error

	// BeginPass begins a pass, if one is due and no other process is at it, until its lease is
	// over. It sets since, began and whole. A process has its own lease back at once: it was at no
	// pass when it asked. No time that was written by a clock that is set back now is waited for.
	BeginPass(ctx context.Context, p *Pass) (ok bool, err error)

	// NextIncrements writes the increments of a page of n accounts that had not ended at since,
	// beginning after one, and returns all of these accounts that the receiver does not have. It
	// renews the lease; ok is false if that has gone to another process.
	NextIncrements(ctx context.Context, p *Pass, after Account, n int) (page Page, ok bool, err error)

	// Sent records that the receiver has increments, and renews the lease.
	Sent(ctx context.Context, p *Pass, all []Increment) error

	// Pending returns how many increments the receiver does not have, as far as a pass has found them, up to
	// most.
	Pending(ctx context.Context, name string, most int) (int64, error)

	// EndPass ends a pass. The next is due after a pause. complete says that the receiver has
	// everything of the periods from since on.
	EndPass(ctx context.Context, p *Pass, complete bool, pause time.Duration) error
}

// Pass is one walk through all accounts by one process.
type Pass struct {
	Name     string
	Limits   []string
	HoldBack bool
	Process  string
	Lease    time.Duration
	Since    time.Time // end of the earliest period
	Began    time.Time // by the ledger's clock
	Whole    bool      // looks at all accounts, and not only at those with a new position
}

// Page is a part of a pass.
type Page struct {
	Last Account // of the page
	More bool
	All  []Increment
}

// Increment is what a receiver is to be told of an account on a day.
type Increment struct {
	Account
	Date  int32
	Seq   int64
	Sent  int64 // units before it
	Value int64
	At    int64
}

// WholeEvery is how often a pass looks at the days of all accounts. What was used on an earlier day
// and is written late gives an account no new position.
const WholeEvery = time.Hour

// Lateness is how long after the end of a period its last use is looked for, at each pass: it
// may be written late, after an outage of the ledger.
const Lateness = 7 * 24 * time.Hour
