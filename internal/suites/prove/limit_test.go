package prove

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/keyfuncs"
)

// algorithm is how a limit counts, in the words of docs/choose/algorithms.md.
type algorithm string

const (
	tokenBucket   algorithm = "token bucket" // with Wait it is a leaky bucket
	fixedWindow   algorithm = "fixed window"
	slidingWindow algorithm = "sliding window"
	slidingLog    algorithm = "sliding log"
	calendarDay   algorithm = "calendar day"
	concurrency   algorithm = "concurrency"
)

// limit is a limit as a user states it. The model knows nothing else of it. Times are microseconds.
type limit struct {
	Name      string
	Algorithm algorithm
	Quota     int64
	Window    int64  `json:",omitempty"` // of slots, the lease
	Burst     int64  `json:",omitempty"` // of a token bucket
	Wait      int64  `json:",omitempty"` // how long requests may queue
	Zone      string `json:",omitempty"` // of a calendar day
	FromUse   bool   `json:",omitempty"` // a fixed window begins with first use
	HasDebt   bool   `json:",omitempty"` // Debt is chosen; else it is as much as the limit holds
	Debt      int64  `json:",omitempty"`

	Divided    bool  `json:",omitempty"` // clients divide a token bucket
	Guaranteed int64 `json:",omitempty"` // to one of them

	// The penalty, if After is above 0.
	After, Within, For, Factor, Max int64 `json:",omitempty"`
}

func (l *limit) String() string {
	s := fmt.Sprintf("%s: %s %d per %v", l.Name, l.Algorithm, l.Quota, micros(l.Window))
	if l.Burst != l.Quota && l.Burst > 0 {
		s += fmt.Sprintf(", burst %d", l.Burst)
	}
	if l.FromUse {
		s += " from first use"
	}
	if l.HasDebt {
		s += fmt.Sprintf(", debt %d", l.Debt)
	}
	if l.Divided {
		s += fmt.Sprintf(", divided, %d guaranteed", l.Guaranteed)
	}
	if l.Wait > 0 {
		s += fmt.Sprintf(", queue %v", micros(l.Wait))
	}
	if l.After > 0 {
		s += fmt.Sprintf(", penalty after %d within %v for %v", l.After, micros(l.Within), micros(l.For))
	}
	return s
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// holds returns the units that the limit can have in use.
func (l *limit) holds() int64 {
	if l.Algorithm == tokenBucket {
		return l.Burst
	}
	return l.Quota
}

// refundable reports whether the documents say exactly what a refund gives back: a bucket whose units
// don't take whole microseconds to refill gives back up to two of them less.
func (l *limit) refundable() bool {
	return l.Algorithm != tokenBucket || l.Window%l.Quota == 0
}

// rule returns the rule that a store is asked by.
func (l *limit) rule() (*store.Rule, error) {
	var made core.Limit
	switch l.Algorithm {
	case tokenBucket:
		made = core.Per(l.Quota, micros(l.Window)).Burst(l.Burst)
		if l.Wait > 0 {
			made = made.Wait(micros(l.Wait))
		}
		if l.Divided {
			made = made.Fair(core.Shares{By: keyfuncs.Everyone(), Of: func(keyfuncs.Request) core.Share { return core.Share{} }, Guaranteed: l.Guaranteed})
		}
	case fixedWindow:
		made = core.Per(l.Quota, micros(l.Window)).FixedWindow()
		if l.FromUse {
			made = made.FromFirstUse()
		}
	case slidingWindow:
		made = core.Per(l.Quota, micros(l.Window)).SlidingWindow()
	case slidingLog:
		made = core.Per(l.Quota, micros(l.Window)).SlidingLog()
	case calendarDay:
		zone, err := time.LoadLocation(l.Zone)
		if err != nil {
			return nil, err
		}
		made = core.PerCalendarDay(l.Quota, zone)
	case concurrency:
		made = core.Concurrent(l.Quota).Lease(micros(l.Window))
	}
	if l.HasDebt {
		made = made.Debt(l.Debt)
	}
	if l.After > 0 {
		made = made.Penalty(core.Block{After: l.After, Within: micros(l.Within), For: micros(l.For), Factor: l.Factor, Max: micros(l.Max)})
	}
	rule, err := made.Named(l.Name).Rule()
	return &rule, err
}

// partsOf is how many clients divide a limit.
const partsOf = 4

// share returns the part that a client has: the first a minimum, the second users, the third a maximum.
func (l *limit) share(part int) *store.Share {
	n := &store.Share{Key: fmt.Append(nil, "part-", part), Weight: int64(part)}
	switch part {
	case 1:
		n.Minimum = l.Guaranteed
	case 2:
		n.User = []byte("someone")
	case 3:
		n.Maximum = l.Quota
	}
	return n
}

// keeps returns what a request must leave to others, by how its client stands to its share. A request without an answer can have been
// granted whatever it had to leave.
func (l *limit) keeps(standing store.Standing) int64 {
	switch standing {
	case store.OverShare:
		return l.Guaranteed + (l.Burst-l.Guaranteed)/2
	case store.WithinShare, store.UserOver:
		return l.Guaranteed
	case store.OverMaximum:
		return l.Burst
	}
	return 0
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// randomLimit returns a limit that requests of a history reach. windows are the lengths to choose from.
func randomLimit(r *rand.Rand, name string, windows []time.Duration) limit {
	window := func() int64 { return pick(r, windows...).Microseconds() }
	l := limit{Name: name, Quota: pick[int64](r, 1, 2, 3, 5, 7, 10, 20), Window: window()}
	switch r.IntN(8) {
	case 0, 1:
		l.Algorithm = tokenBucket
		l.Burst = pick(r, l.Quota, 1, 3, 8, 20)
		if r.IntN(3) == 0 && 2*l.Burst+2 >= l.Quota {
			l.Divided, l.Guaranteed = true, min(pick(r, 0, l.Burst/3), l.Quota)
		}
	case 2:
		l.Algorithm, l.Burst = tokenBucket, pick[int64](r, 1, 3)
		l.Wait = pick(r, l.Window/2, l.Window, 2*l.Window)
	case 3:
		l.Algorithm, l.FromUse = fixedWindow, r.IntN(2) == 0
	case 4:
		l.Algorithm = slidingWindow
	case 5:
		l.Algorithm = slidingLog
	case 6:
		l.Algorithm, l.Window, l.Zone = calendarDay, 0, pick(r, "UTC", "Europe/Berlin", "America/New_York")
	case 7:
		l.Algorithm, l.Window = concurrency, max(l.Window, 1_000_000)
	}
	if l.Algorithm != concurrency && r.IntN(2) == 0 {
		l.HasDebt, l.Debt = true, pick[int64](r, 0, 1, 4, 50)
	}
	if r.IntN(4) == 0 && !l.Divided {
		l.After = pick[int64](r, 1, 2, 3, 5)
		l.Within, l.For, l.Factor = window(), window(), pick[int64](r, 1, 2, 3)
		l.Max = l.For * pick[int64](r, 1, 2, 5)
	}
	return l
}
