package regionsim

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// link is the way of one region to home. What arrives, and when, is determined by the seed, the region, the moment and
// the key: never by the order of what happens at one moment.
type link struct {
	store.Store
	config *Config
	region int
	began  time.Time
	oneWay time.Duration
	asked  atomic.Int64
	leased func(key []byte, units int64) // called when home charges a lease
}

var errCut = errors.New("the link is cut")

// isCut reports whether a region can't reach home, or home the region, at a time since the start.
func (c *Config) isCut(region int, at time.Duration) (up, down bool) {
	for i := range c.Cuts {
		if cut := &c.Cuts[i]; (cut.Region == region || cut.Region == Everywhere) && at >= cut.From && at < cut.To {
			up, down = up || cut.Up, down || cut.Down
		}
	}
	return up, down
}

// Take implements store.Store.
func (l *link) Take(ctx context.Context, checks []store.Check, results []store.Result) error {
	l.count()
	return l.ask(ctx, checks[0].Key, func() error {
		err := l.Store.Take(ctx, checks, results)
		if err == nil && results[0].Charged && !results[0].Repeated {
			l.leased(checks[0].Key, checks[0].Cost)
		}
		return err
	})
}

// count counts a message after the warm-up.
func (l *link) count() {
	if time.Since(l.began) >= l.config.Warm {
		l.asked.Add(1)
	}
}

// Peek implements store.Store. It is not counted: each process looks after home once a second, however many requests it has.
func (l *link) Peek(ctx context.Context, checks []store.Check, results []store.Result) error {
	return l.ask(ctx, checks[0].Key, func() error { return l.Store.Peek(ctx, checks, results) })
}

// Charge implements store.Store.
func (l *link) Charge(ctx context.Context, checks []store.Check, results []store.Result) error {
	l.count()
	return l.ask(ctx, checks[0].Key, func() error { return l.Store.Charge(ctx, checks, results) })
}

// Refund implements store.Store.
func (l *link) Refund(ctx context.Context, checks []store.Check, results []store.Result) error {
	l.count()
	return l.ask(ctx, checks[0].Key, func() error { return l.Store.Refund(ctx, checks, results) })
}

// patience is how long the client of home waits for an answer.
const patience = 600 * time.Millisecond

// ask has home do something, unless the question does not arrive. It returns an error unless the answer arrives.
func (l *link) ask(ctx context.Context, key []byte, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if up, _ := l.config.isCut(l.region, time.Since(l.began)); up {
		return lose(ctx)
	}
	if err := l.cross(ctx, key); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	if _, down := l.config.isCut(l.region, time.Since(l.began)); down || l.config.Loss > 0 && l.chance(key, 1) < l.config.Loss {
		return lose(ctx)
	}
	return l.cross(ctx, key)
}

// lose waits as whoever gets no answer.
func lose(ctx context.Context) error {
	<-ctx.Done()
	return errCut
}

// cross takes a message to the other side.
func (l *link) cross(ctx context.Context, key []byte) error {
	timer := time.NewTimer(l.oneWay + time.Duration(float64(l.oneWay)*l.config.Jitter*l.chance(key, 0)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// chance returns a number from 0 to 1 for what happens to a key's message now.
func (l *link) chance(key []byte, what uint64) float64 {
	return chance(l.config.Seed, uint64(l.region), uint64(time.Since(l.began)), what, key)
}

// chance returns a number from 0 to 1 that is determined by others.
func chance(a, b, c, d uint64, key []byte) float64 {
	var numbers [32]byte
	for i, n := range []uint64{a, b, c, d} {
		binary.LittleEndian.PutUint64(numbers[8*i:], n)
	}
	h := fnv.New64a()
	_, _ = h.Write(numbers[:]) // a hash never fails
	_, _ = h.Write(key)
	mixed := h.Sum64()
	mixed = (mixed ^ mixed>>33) * 0xff51afd7ed558ccd
	mixed = (mixed ^ mixed>>33) * 0xc4ceb9fe1a85ec53
	return float64(mixed>>11) / (1 << 53)
}

// here is the store of one region. A request that asks it again after it has waited comes a little later than the others
// that have waited for the same lease, so that their order is determined.
type here struct{ store.Store }

// Take implements store.Store.
func (h here) Take(ctx context.Context, checks []store.Check, results []store.Result) error {
	if r, ok := ctx.(*request); ok {
		if r.tries++; !time.Now().Equal(r.sent) {
			time.Sleep(time.Duration(1 + 1e6*chance(r.number, uint64(r.region), uint64(r.tries), 0, nil)))
		}
	}
	return h.Store.Take(ctx, checks, results)
}
