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
	"github.com/weblimit/weblimit/internal/test/pgtest"
)

// While PostgreSQL is killed again and again, each operation that its client repeats until there
// is an answer is charged exactly once, and what was answered is never lost.
func TestEachOperationIsChargedOnceWhilePostgresIsKilled(t *testing.T) {
	t.Parallel()
	const clients, kills, limit = 8, 6, 1_000_000
	server := pgtest.Start(t)
	rule, err := store.NewRule("credits", store.Numbers{
		Algorithm: store.FixedWindow, Quota: limit, Window: longWindow, Once: 24 * time.Hour, Repeats: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	var stores []*pgstore.Store
	for range 2 {
		s, err := pgstore.Open(t.Context(), newPool(t, server.ConnString("")+" pool_max_conns=4"))
		if err != nil {
			t.Fatal(err)
		}
		s.OnEvent(func(store.Event) {})
		stores = append(stores, s)
	}
	var done atomic.Bool
	var operations, failures, charged, repeated atomic.Int64
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for n := 0; !done.Load(); n++ {
				operations.Add(1)
				c := check("tenant", &rule, 3)
				c.Once = fmt.Appendf(nil, "%d/%d", client, n)
				for deadline := time.Now().Add(5 * time.Minute); ; {
					results := make([]core.Result, 1)
					ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
					err := stores[(client+n)%len(stores)].Take(ctx, []core.Check{c}, results)
					cancel()
					if err == nil {
						if results[0].Charged {
							charged.Add(1)
						} else if results[0].Repeated {
							repeated.Add(1)
						}
						break
					}
					failures.Add(1)
					if time.Now().After(deadline) {
						t.Errorf("operation %d of client %d: %v", n, client, err)
						return
					}
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	for range kills {
		time.Sleep(200 * time.Millisecond)
		server.Restart(t) // kills it first
	}
	time.Sleep(200 * time.Millisecond)
	done.Store(true)
	all.Wait()
	left := make([]core.Result, 1)
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		// The pool may still have connections that the last kill has ended.
		err := stores[0].Peek(t.Context(), []core.Check{check("tenant", &rule, 0)}, left)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	used := limit - left[0].Remaining
	t.Logf("%d operations, %d failed calls, %d charged when they were answered, %d before", operations.Load(), failures.Load(), charged.Load(), repeated.Load())
	if used != 3*operations.Load() || charged.Load()+repeated.Load() != operations.Load() {
		t.Errorf("%d units used by %d operations of 3 (%d charged, %d repeated)", used, operations.Load(), charged.Load(), repeated.Load())
	}
	if failures.Load() == 0 {
		t.Error("no call failed: the kills came to nothing")
	}
}
