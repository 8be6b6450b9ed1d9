package redisstore_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/storetest"
)

const (
	heldSlots = 3
	heldLease = 12 * time.Second
)

func heldRule(t testing.TB) *core.Rule {
	t.Helper()
	return mustRule(t, core.Concurrent(heldSlots+1).Lease(heldLease).Named("running"))
}

// A slot can become free at any moment, so Redis makes each denial.
func TestADenialForWantOfASlotIsNotCached(t *testing.T) {
	t.Parallel()
	store, _, _ := newStore(t, redisstore.Config{DenialCache: redisstore.DenialCache{Age: forever, Size: 64}, Prefetch: redisstore.Prefetch{Fraction: 0.5, MaxAge: time.Second}})
	two, rate := mustRule(t, core.Concurrent(2).Named("running")), mustRule(t, core.Per(9, hammerWindow).FixedWindow().Named("rate"))
	checks := []core.Check{checkOf("k", two, 2), checkOf("k", rate, 1)}
	held := take(t, store, checks...)
	for range 100 {
		if got := take(t, store, checks...); got[0].Allowed || got[0].Cached || got[0].RetryAfter != time.Second || got[1].Charged {
			t.Fatalf("denied with %+v", got)
		}
	}
	must.OK(t, store.Refund(t.Context(), checks[:1], held[:1]))
	if got := take(t, store, checks...); !got[0].Charged || got[1].Remaining != 7 {
		t.Fatalf("with free slots: %+v", got)
	}

	// The denial of a rate limit is cached, since slots that come and go do not change it.
	listening(t, store)
	take(t, store, checkOf("k", rate, 7))
	one := []core.Check{checkOf("k", two, 1), checkOf("k", rate, 1)}
	for i := range 3 {
		if got := take(t, store, one...); got[1].Allowed || got[1].Cached != (i > 0) {
			t.Errorf("request %d that the rate denies: %+v", i, got)
		}
		must.OK(t, store.Refund(t.Context(), checks[:1], []core.Result{{Charged: true, At: 1}}))
	}
}

// A request may take longer than its lease, as long as it renews it.
func TestASlotIsHeldForManyLeases(t *testing.T) {
	t.Parallel()
	now := time.Now().UnixMicro()
	store := redisstore.NewAt(redistest.Shared(t).Client(t), func() int64 { return now }, redisstore.Config{Prefix: redistest.Prefix(t)})
	rule := heldRule(t)
	checks := []core.Check{checkOf("k", rule, heldSlots)}
	held := take(t, store, checks...)
	for passed := time.Duration(0); passed < 3*heldLease; passed += heldLease / 5 {
		now += (heldLease / 5).Microseconds()
		must.OK(t, store.Renew(t.Context(), checks, held))
		if got := take(t, store, checkOf("k", rule, 2))[0]; got.Allowed || got.Remaining != 1 {
			t.Fatalf("after %v: %+v", passed, got)
		}
	}
	if err := store.Refund(t.Context(), checks, held); err != nil || held[0].Remaining != heldSlots+1 {
		t.Errorf("given back: %+v, %v", held[0], err)
	}
}

// The slots of a process that is killed are free again when their lease ends.
func TestSlotsOfAProcessThatIsKilled(t *testing.T) {
	t.Parallel()
	told, clock := onSharedServer(t), storetest.NewClock()
	store := redisstore.NewAt(redistest.Shared(t).Client(t), clock.Micros, redisstore.Config{Prefix: told.Prefix})
	rule, process := heldRule(t), holding.Start(t, told)
	clock.Set(child.Receive[time.Time](t, process))
	if got := take(t, store, checkOf("k", rule, 2))[0]; got.Allowed || got.Remaining != 1 {
		t.Errorf("while the process lives: %+v", got)
	}
	process.Kill()
	clock.Advance(heldLease - time.Microsecond)
	if got := take(t, store, checkOf("k", rule, 2))[0]; got.Allowed || got.Remaining != 1 {
		t.Errorf("before the lease of the process that was killed has ended: %+v", got)
	}
	clock.Advance(time.Microsecond)
	if got := take(t, store, checkOf("k", rule, heldSlots+1))[0]; !got.Allowed {
		t.Errorf("when the lease of the process that was killed has ended: %+v", got)
	}
}

// holding is a process that takes slots, renews them later than their lease would have ended, and reports when.
var holding = role("hold", func(t *testing.T, client *redis.Client, prefix string) time.Time {
	clock := storetest.NewClock()
	store := redisstore.NewAt(client, clock.Micros, redisstore.Config{Prefix: prefix})
	checks := []core.Check{checkOf("k", heldRule(t), heldSlots)}
	held := take(t, store, checks...)
	for range 3 {
		clock.Advance(heldLease / 2)
		must.OK(t, store.Renew(t.Context(), checks, held))
	}
	return time.UnixMicro(clock.Micros())
})
