package redisstore_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// Checks that come at once are decided together, as long as that does not keep Redis busy
// for long. A log of 4,000 entries takes as long as a hundred other checks.
func TestACallIsBoundedByWorkAndNotByNumber(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{
		"sliding log": core.PerDay(5000).SlidingLog(),
		"concurrency": core.Concurrent(5000).Lease(24 * time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const keys, entries = 64, 4000
			server := redistest.Start(t)
			client, rule := server.Client(t), mustRule(t, limit.Named("log"))
			// One log is filled, by another process, and the others are copies of it.
			other := redisstore.New(client)
			for range entries {
				must.OK(t, other.Charge(t.Context(), []core.Check{checkOf("key0", rule, 1)}, make([]core.Result, 1)))
			}
			value := client.Get(t.Context(), "weblimit:{key0}").Val()
			for i := range keys {
				must.OK(t, client.Set(t.Context(), fmt.Sprintf("weblimit:{key%d}", i), value, time.Hour).Err())
			}
			store := redisstore.New(client)
			before := server.Commandstats(t)["evalsha"]
			var all sync.WaitGroup
			for i := range 4 * keys {
				all.Go(func() {
					if r, err := takeOne(t, store, checkOf(fmt.Sprint("key", i%keys), rule, 1)); err != nil || !r.Charged {
						t.Errorf("%+v, %v", r, err)
					}
				})
			}
			all.Wait()
			after := server.Commandstats(t)["evalsha"]
			calls := after.Calls - before.Calls
			t.Logf("%d checks of logs of %d entries: %d calls, %d µs each", 4*keys, entries, calls, (after.Micros-before.Micros)/calls)
			if calls < 4*keys {
				t.Errorf("%d checks of logs of %d entries were decided in %d calls, want one each", 4*keys, entries, calls)
			}
		})
	}
}
