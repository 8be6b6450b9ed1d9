package redisstore_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/edge"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// A client whose requests are refunded, such as those that a handler fails, ends its own denials again and again, at all
// processes. That costs Redis no more than its requests do without a cache, lets no request too many pass, and makes
// no process forget the denials of others.
func TestAStormOfGiveBacksEndsNoDenialOfOthers(t *testing.T) {
	t.Parallel()
	edge.AwayFrom(time.Hour, time.Duration(long.Rounds(1, 5))*time.Minute) // its fixed windows are those of the server's clock
	server, prefix := redistest.Start(t), redistest.Prefix(t)
	const quota = 3
	rule := mustRule(t, core.PerHour(quota).FixedWindow())
	config := caching(prefix)
	config.DenialCache.Size = 1024
	stores := []*redisstore.Store{redisstore.New(server.Client(t), config), redisstore.New(server.Client(t), config)}
	take(t, stores[0], checkOf("bystander", rule, quota))
	for _, s := range stores {
		listening(t, s)
		take(t, s, checkOf("bystander", rule, 1)) // denied, and cached
	}
	evals, publishes := server.Calls(t, "evalsha"), server.Calls(t, "publish")

	var storm, others sync.WaitGroup
	var held, takes, refunds, asked, repeated atomic.Int64
	var ended atomic.Bool
	for i := range 8 {
		storm.Go(func() {
			s := stores[i%2]
			for range long.Rounds(500, 20_000) {
				r := take(t, s, checkOf("attacker", rule, 1))
				if !r[0].Cached {
					takes.Add(1)
				}
				if !r[0].Allowed {
					continue
				}
				if n := held.Add(1); n > quota {
					t.Errorf("%d requests of %d hold a unit", n, quota)
				}
				held.Add(-1)
				if err := s.Refund(t.Context(), []core.Check{checkOf("attacker", rule, 1)}, r); err != nil {
					t.Error(err)
				}
				refunds.Add(1)
			}
		})
	}
	for _, s := range stores {
		others.Go(func() {
			for !ended.Load() {
				asked.Add(1)
				if r := take(t, s, checkOf("bystander", rule, 1))[0]; r.Allowed {
					t.Error("the bystander's fourth request of 3 passed")
				} else if r.Cached {
					repeated.Add(1)
				}
			}
		})
	}
	storm.Wait()
	ended.Store(true)
	others.Wait()
	calls, messages := server.Calls(t, "evalsha")-evals, server.Calls(t, "publish")-publishes
	t.Logf("%d calls that were not cached, %d refunds: %d script calls, %d messages; %d of %d requests of the bystander were repeated denials",
		takes.Load(), refunds.Load(), calls, messages, repeated.Load(), asked.Load())
	if missed := asked.Load() - repeated.Load(); missed > 4 {
		t.Errorf("%d of %d denials of the bystander were asked for again", missed, asked.Load())
	}
	if most := takes.Load() + refunds.Load() + 8; calls > most {
		t.Errorf("%d script calls for %d requests and %d refunds", calls, takes.Load(), refunds.Load())
	}
	if messages > refunds.Load() {
		t.Errorf("%d messages for %d refunds", messages, refunds.Load())
	}
}
