package prefetchsim

// A simulated process: its slices, its clock, and its way to the simulated store.

import (
	"context"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/prefetch"
)

// instance is a process.
type instance struct {
	sim        *simulation
	prefetcher *prefetch.Prefetcher
	held       int64 // units that are charged, and neither spent nor returned
	dead       bool

	spendable int64 // units that slices had when they were last looked at

	skew  int64   // of its clock, in nanoseconds
	speed float64 // of its clock
	waits int64   // how long the current request has waited; the others go on from when it was sent
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
	i.prefetcher = prefetch.New(i, i, s.Fraction, s.MaxAge, time.Second)
	return i
}

// Now implements prefetch.Clock: the instance's own time.
func (i *instance) Now() int64 {
	return int64(time.Hour) + i.skew + int64(float64(i.sim.now+i.waits)*i.speed)
}

// After implements prefetch.Clock. Timers are somewhat late.
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

// Take implements prefetch.Source. The store decides at once, and the answer takes
// some time to arrive.
func (i *instance) Take(_ context.Context, checks []core.Check, results []core.Result) error {
	s := i.sim
	s.moveStore()
	cost := checks[0].Cost
	charged := s.store.free() >= cost
	if charged {
		s.store.charge(cost)
		s.out.Calls++
		i.held += cost
		s.prefetched += cost
		s.out.Prefetched = max(s.out.Prefetched, s.prefetched)
	}
	results[0] = s.store.result(cost, charged)
	i.waits += i.delay()
	return nil
}

// Lease implements prefetch.Source. The simulated limits have no penalties.
func (i *instance) Lease(ctx context.Context, c *core.Check, _ time.Duration, r *core.Result) error {
	checks, results := []core.Check{*c}, make([]core.Result, 1)
	err := i.Take(ctx, checks, results)
	*r = results[0]
	return err
}

// Refund implements prefetch.Source.
func (i *instance) Refund(_ context.Context, checks []core.Check, results []core.Result) error {
	s := i.sim
	s.out.Calls++
	s.moveStore()
	for n := range checks {
		if s.rule.Algorithm == store.FixedWindow && results[n].At < s.store.start {
			continue // its window is over
		}
		i.held -= checks[n].Cost
		s.prefetched -= checks[n].Cost
		s.lose(checks[n].Cost - s.store.refund(checks[n].Cost, results[n].At))
	}
	return nil
}
