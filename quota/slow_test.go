package quota

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/memledger"
)

// laborious is a ledger that takes a time for each account that it begins, and for each position that it writes. It does
// nothing of what is not done in time.
type laborious struct {
	ledger.Ledger
	begins, writes time.Duration
}

func work(ctx context.Context, n int, each time.Duration) error {
	select {
	case <-time.After(time.Duration(n) * each):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *laborious) Begin(ctx context.Context, openings []ledger.Opening, positions []ledger.Position, answers []ledger.Begun) error {
	if err := work(ctx, len(openings), l.begins); err != nil {
		return err
	}
	return l.Ledger.Begin(ctx, openings, positions, answers)
}

func (l *laborious) Flush(ctx context.Context, positions []ledger.Position) error {
	if err := work(ctx, len(positions), l.writes); err != nil {
		return err
	}
	return l.Ledger.Flush(ctx, positions)
}

// A ledger is so busy that it can't do in time what is asked of it at once: it answers others, so it is not out, which would
// have requests denied and somebody called. It is asked for less, until it can.
func TestALedgerThatCantDoAllAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := fresh()
		var seen events
		seen.on(m)
		l := &laborious{memledger.New(defaultLevels), 20 * time.Millisecond, 0}
		b := bookWith(t, l, Config{Store: m, FlushEvery: maxFlushEvery, Timeout: time.Second}, usualPatience)
		limiter, err := core.New(core.Config{Store: b.Store(), Limits: []core.Limit{monthly(1000).OnOutage(core.Deny)}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		var others sync.WaitGroup
		others.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
				b.health.worked() // as after telling tenants' numbers, and writing what others have used
			}
		})
		time.Sleep(time.Second)
		const tenants = openBatch * (maxOpeners + 1)
		granted, decided := make([]int64, tenants), make([]bool, tenants)
		for round, left := 0, tenants; left > 0; round++ {
			var all sync.WaitGroup
			for i := range tenants {
				if decided[i] {
					continue
				}
				all.Go(func() {
					d := limiter.AllowKey(t.Context(), fmt.Sprintf("tenant:%d", i), 1)
					if !d.Allowed {
						t.Errorf("round %d: %v, %v", round, d.Reason, d.Err)
					}
					granted[i]++
					decided[i] = d.Err == nil
				})
			}
			all.Wait()
			time.Sleep(time.Second)
			left = 0
			for i := range decided {
				if !decided[i] {
					left++
				}
			}
			if round == 60 {
				t.Fatalf("after a minute Redis does not know %d accounts", left)
			}
		}
		end()
		others.Wait()
		for i := range granted {
			if limiter.AllowKey(t.Context(), fmt.Sprintf("tenant:%d", i), 1).Allowed {
				granted[i]++
			}
		}
		check.Equal(t, "outages of a ledger that does some of it", seen.count(EventLedgerOut), 0)
		l.writes = 20 * time.Millisecond
		for n := 0; b.Flush(t.Context()) != nil; n++ {
			if n == 60 {
				t.Fatal("nothing is written")
			}
		}
		for i, want := range granted {
			if got := b.total(t, "plan", fmt.Sprintf("tenant:%d", i)); got != want {
				t.Fatalf("tenant %d: the ledger has %d units of %d", i, got, want)
			}
		}
		closeBook(t, b)
	})
}
