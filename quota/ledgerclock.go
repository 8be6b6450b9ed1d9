package quota

import (
	"errors"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// clockTolerance is by how much the ledger's clock may be set back without an event: clocks are set by that
// much all the time.
const clockTolerance = time.Second

// ledgerClock is what a process has seen of the ledger's clock.
type ledgerClock struct {
	mu       sync.Mutex
	last     time.Time // what it said in the last answer. Guarded by mu.
	answered time.Time // when that came, by the clock of this process. Guarded by mu.
}

// saw notes what the ledger's clock said in the answer to a question. It returns by how much at least the clock was
// set back since the answer before, or 0: the time between what the two answers say can't be less than that from
// the first answer to the second question. A ledger without a clock of its own says the zero time.
func (c *ledgerClock) saw(at, asked, answered time.Time) (back time.Duration) {
	if at.IsZero() {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.last.IsZero() {
		back = c.last.Add(asked.Sub(c.answered)).Sub(at)
	}
	c.last, c.answered = at, answered
	if back <= clockTolerance {
		return 0
	}
	return back
}

var errClockBack = errors.New("the clock of PostgreSQL was set back, or a server has taken over whose clock lags: exports and notices that were on their way " +
	"are sent again, with the same ids")

// clockSetBack reports that the ledger's clock was set back.
func (h *health) clockSetBack(by time.Duration) {
	h.registry.Report(store.Event{Kind: EventLedgerClockSetBack, Duration: by, Err: errClockBack})
}
