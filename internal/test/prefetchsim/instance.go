package prefetchsim

import (
	"context"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/prefetch"
)

// instance is a process: its leases, its clock and its way to the store.
type instance struct {
	sim    *simulation
	leases *prefetch.Prefetcher
	held   int64 // units that are charged, and neither spent nor returned
	dead   bool

	spendable int64 // units of them that a lease had when it was last looked at

	skew  int64   // nanoseconds
	speed float64 // of its clock
	waits int64   // for the answer to the request at work: the others' times go on from when it was asked
}

var (
	_ prefetch.Source = (*instance)(nil)
	_ prefetch.Clock  = (*instance)(nil)
)

func (s *simulation) newInstance() *instance {
	i := &instance{
		sim:   s,
		skew:  int64((2*s.rand.Float64() - 1) * float64(s.Skew)),
		speed: 1 + (2*s.rand.Float64()-1)*s.Drift,
	}
	i.leases = prefetch.New(i, i, s.Fraction, s.MaxAge)
	return i
}

// Now implements prefetch.Clock: the instance's own time.
func (i *instance) Now() int64 {
	return int64(time.Hour) + i.skew + int64(float64(i.sim.now+i.waits)*i.speed)
}

// After implements prefetch.Clock. What is due comes somewhat late.
func (i *instance) After(d time.Duration, f func()) (stop func()) {
	at := i.sim.now + i.waits + int64(float64(d)/i.speed) + i.delay()
	ev := i.sim.events.plan(at, func() {
		if !i.dead {
			f()
		}
	})
	return func() { ev.stopped = true }
}

func (i *instance) delay() int64 { return int64(i.sim.rand.Float64() * float64(i.sim.Delay)) }

// Take implements prefetch.Source: the store decides at once, and the answer takes
// some time to come.
func (i *instance) Take(_ context.Context, checks []core.Check, results []core.Result) error {
	s := i.sim
	s.moveStore()
	cost := checks[0].Cost
	charged := s.store.free() >= cost
	if charged {
		s.store.charge(cost)
		s.out.Calls++
		i.held += cost
		s.leased += cost
		s.out.Leased = max(s.out.Leased, s.leased)
	}
	results[0] = s.store.result(cost, charged)
	i.waits += i.delay()
	return nil
}

// Refund implements prefetch.Source.
func (i *instance) Refund(_ context.Context, checks []core.Check, results []core.Result) error {
	s := i.sim
	s.out.Calls++
	s.moveStore()
	for n := range checks {
		if s.rule.Algorithm == store.FixedWindow && results[n].At < s.store.start {
			continue // it came too late to matter
		}
		i.held -= checks[n].Cost
		s.leased -= checks[n].Cost
		s.lose(checks[n].Cost - s.store.refund(checks[n].Cost, results[n].At))
	}
	return nil
}
