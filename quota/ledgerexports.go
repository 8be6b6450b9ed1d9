package quota

import (
	"context"
	"time"
)

// exports is the part of a ledger that keeps what receivers of usage have.
type exports interface {
	// openExport makes a receiver known, unless it is.
	openExport(ctx context.Context, name string, since time.Time) error

	// beginPass begins a pass, if one is due and no other process is at it, until its lease is
	// over. It sets since, began and whole. A process has its own lease back at once: it was at no
	// pass when it asked. No time that was written by a clock that is set back now is waited for.
	beginPass(ctx context.Context, p *pass) (ok bool, err error)

	// nextIncrements writes the increments of a page of n accounts that had not ended at since,
	// beginning after one, and returns all of these accounts that the receiver does not have. It
	// renews the lease; ok is false if that has gone to another process.
	nextIncrements(ctx context.Context, p *pass, after account, n int) (page page, ok bool, err error)

	// sent records that the receiver has increments, and renews the lease.
	sent(ctx context.Context, p *pass, all []increment) error

	// pending returns how many increments the receiver does not have, as far as a pass has found them, up to
	// most.
	pending(ctx context.Context, name string, most int) (int64, error)

	// endPass ends a pass. The next is due after a pause. complete says that the receiver has
	// everything of the periods from since on.
	endPass(ctx context.Context, p *pass, complete bool, pause time.Duration) error
}

// pass is one walk through all accounts by one process.
type pass struct {
	name     string
	limits   []string
	holdBack bool
	process  string
	lease    time.Duration
	since    time.Time // end of the earliest period
	began    time.Time // by the ledger's clock
	whole    bool      // looks at all accounts, and not only at those with a new position
}

// page is a part of a pass.
type page struct {
	last account // of the page
	more bool
	all  []increment
}

// increment is what a receiver is to be told of an account on a day.
type increment struct {
	account
	date  int32
	seq   int64
	sent  int64 // units before it
	value int64
	at    int64
}

// wholeEvery is how often a pass looks at the days of all accounts. What was used on an earlier day
// and is written late gives an account no new position.
const wholeEvery = time.Hour

// lateness is how long after the end of a period its last use is looked for, at each pass: it
// may be written late, after an outage of the ledger.
const lateness = 7 * 24 * time.Hour
