package pgstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/pgstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// While PostgreSQL is killed again and again, each operation that its client repeats until there
// is an answer is charged exactly once, and what was answered is never lost.
func TestEachOperationIsChargedOnceWhilePostgresIsKilled(t *testing.T) {
	t.Parallel()
	const clients = 8
	kills := long.Rounds(3, 100)
	server := pgtest.Start(t)
	rule := creditRule(t)
	var stores []*pgstore.Store
	for range 2 {
		s := must.Get(pgstore.Open(t.Context(), newPool(t, server.ConnString("")+" pool_max_conns=4")))(t)
		s.OnEvent(func(store.Event) {})
		stores = append(stores, s)
	}
	var done atomic.Bool
	killed := 0
	var operations, failures, charged, repeated atomic.Int64
	var all sync.WaitGroup
	defer all.Wait()
	defer done.Store(true)
	for client := range clients {
		all.Go(func() {
			for n := 0; !done.Load(); n++ {
				operations.Add(1)
				c := checkOf("tenant", rule, 3)
				c.Once = fmt.Appendf(nil, "%d/%d", client, n)
				wait.For(t, "an answer", func() error {
					results := make([]core.Result, 1)
					ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
					defer cancel()
					err := stores[(client+n)%len(stores)].Take(ctx, []core.Check{c}, results)
					switch {
					case err != nil:
						failures.Add(1)
					case results[0].Charged:
						charged.Add(1)
					case results[0].Repeated:
						repeated.Add(1)
					}
					return err
				})
			}
		})
	}
	for before := int64(0); !t.Failed(); before = operations.Load() {
		wait.For(t, "operations between two kills", func() error {
			if n := operations.Load() - before; n < 100 {
				return fmt.Errorf("%d of 100", n)
			}
			return nil
		})
		if killed++; killed > kills {
			break
		}
		server.Restart(t) // kills it first
	}
	done.Store(true)
	all.Wait()
	left := make([]core.Result, 1)
	wait.For(t, "a reading", func() error { // the pool may still have connections that the last kill has ended
		return stores[0].Peek(t.Context(), []core.Check{checkOf("tenant", rule, 0)}, left)
	})
	used := rule.Quota - left[0].Remaining
	t.Logf("%d operations, %d failed calls, %d charged when they were answered, %d before", operations.Load(), failures.Load(), charged.Load(), repeated.Load())
	if used != 3*operations.Load() || charged.Load()+repeated.Load() != operations.Load() {
		t.Errorf("%d units used by %d operations of 3 (%d charged, %d repeated)", used, operations.Load(), charged.Load(), repeated.Load())
	}
	if failures.Load() == 0 {
		t.Error("no call failed: the kills came to nothing")
	}
}
