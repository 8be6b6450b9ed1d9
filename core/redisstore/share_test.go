package redisstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/storetest"
	"github.com/weblimit/weblimit/internal/testclock"
)

// Most takes of a limit that clients divide are decided by a part of the script of its own. It does what the store in memory
// does, over many rounds in which there is not enough for all.
func TestPlainTakesOfSharesAreDecidedLikeInMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for seed := range long.Rounds[uint64](4, 200) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 11))
			clock := storetest.NewClock()
			memory := memstore.New()
			testclock.Set(memory, clock.Micros)
			redis := onRedis(server.Client(t), redisstore.Config{})(t, clock)
			quota := []int64{7, 40, 1000, 1 << 20}[random.IntN(4)]
			rule := must.Get(store.NewRule("divided", store.Numbers{Algorithm: store.TokenBucket, Quota: quota, Window: time.Second, Divided: true}))(t)
			for step := range 600 {
				client := random.IntN(5) // the first asks for much more than its share
				cost := max(quota/40, 1)
				if client == 0 {
					cost = max(quota/8, 1)
				}
				check := core.Check{
					Key: []byte("all"), Rule: &rule, Cost: 1 + random.Int64N(cost),
					Share: &store.Share{Key: fmt.Append(nil, "client-", client), Weight: int64(1 + client%2)},
				}
				var want, got [1]core.Result
				must.OK(t, memory.Take(context.Background(), []core.Check{check}, want[:]))
				must.OK(t, redis.Take(context.Background(), []core.Check{check}, got[:]))
				if got != want {
					t.Fatalf("step %d, cost %d of %s:\ngot  %+v\nwant %+v", step, check.Cost, check.Share.Key, got[0], want[0])
				}
				clock.Advance(time.Duration(random.Int64N(int64(30 * time.Millisecond))).Truncate(time.Microsecond))
			}
		})
	}
}
