package quota

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/memledger"
)

// brokenLedger is a ledger whose calls fail at random, before or after they took effect.
type brokenLedger struct {
	ledger.Ledger

	mu            sync.Mutex
	random        *rand.Rand // Guarded by mu.
	before, after float64    // how often. Guarded by mu.
}

var errBroken = errors.New("broken on purpose")

// breaks says how often calls fail.
func (b *brokenLedger) breaks(before, after float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.before, b.after = before, after
}

func (b *brokenLedger) call(f func() error) error {
	b.mu.Lock()
	if b.random == nil {
		b.mu.Unlock()
		return f()
	}
	before, after := b.random.Float64() < b.before, b.random.Float64() < b.after
	b.mu.Unlock()
	if before {
		return errBroken
	}
	if err := f(); err != nil {
		return err
	}
	if after {
		return errBroken
	}
	return nil
}

func (b *brokenLedger) Begin(ctx context.Context, o []ledger.Opening, p []ledger.Position, a []ledger.Begun) error {
	return b.call(func() error { return b.Ledger.Begin(ctx, o, p, a) })
}

func (b *brokenLedger) Flush(ctx context.Context, p []ledger.Position) error {
	return b.call(func() error { return b.Ledger.Flush(ctx, p) })
}

// Two processes charge, refund, flush, are killed and replaced, while the store forgets and the
// ledger fails before or after each of its writes. After everything is settled the ledger has exactly what was
// granted: nothing is lost that the store or a process knows, and nothing counts twice.
func TestNothingIsLostOrCountedTwice(t *testing.T) {
	t.Parallel()
	for seed := range long.Rounds[uint64](40, 4000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 14))
			m := fresh()
			l := &brokenLedger{Ledger: memledger.New(defaultLevels), random: rand.New(rand.NewPCG(seed, 15))}
			often := float64(seed%2) * 0.2
			l.breaks(often, often)
			start := func() *Book {
				b := bookOn(t, l, byHand(m))
				limiterOn(t, b.Store(), monthly(1<<40))
				return b
			}
			m.OnEvent(func(core.Event) {}) // no log
			books := []*Book{start(), start()}
			rule := ruleOf(t, monthly(1<<40))
			ctx := t.Context()
			var granted [3]int64
			key := func(i int) []byte { return fmt.Appendf(nil, "tenant:%d", i) }
			forgotten := false // the store has, since everything was written
			// written has everything in the ledger that the store or a process knows.
			written := func() {
				t.Helper()
				l.breaks(0, 0)
				defer l.breaks(often, often)
				for _, b := range books {
					mustFlushBook(t, b)
				}
				must.Do(books[0].Reconcile(ctx, true, nil))(t)
				forgotten = false
			}
			for range 300 {
				b, i := books[r.IntN(2)], r.IntN(len(granted))
				checks, results := []store.Check{{Key: key(i), Rule: rule, Cost: 1 + r.Int64N(9)}}, make([]store.Result, 1)
				switch n := r.IntN(100); {
				case n < 70:
					if err := b.Store().Take(ctx, checks, results); err != nil || !results[0].Charged {
						b.opener.mu.Lock()
						b.opener.away = false // no time passes here
						b.opener.mu.Unlock()
						continue
					}
					granted[i] += checks[0].Cost
					if r.IntN(5) == 0 {
						if err := b.Store().Refund(ctx, checks, results); err == nil {
							granted[i] -= checks[0].Cost
						}
						b.opener.mu.Lock()
						b.opener.away = false
						b.opener.mu.Unlock()
					}
				case n < 85:
					_ = b.Flush(ctx)
				case n < 95:
					forgotten = true
					forget(t, m, string(key(i)), monthly(1<<40))
				case n < 97:
					if forgotten { // else the store and the process could lose the same
						written()
					}
					at := r.IntN(2)
					books[at].stop() // and never flushes
					books[at] = start()
					written()
				default:
					if _, err := b.Reconcile(ctx, r.IntN(2) == 0, nil); err != nil && !errors.Is(err, errBroken) {
						t.Fatal(err)
					}
				}
			}
			written()
			for i := range granted {
				check.Equal(t, fmt.Sprintf("tenant %d: units in the ledger", i), books[0].total(t, "plan", string(key(i))), granted[i])
			}
			l.breaks(0, 0)
		})
	}
}
