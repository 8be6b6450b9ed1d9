package core_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/storetest"
	"github.com/weblimit/weblimit/keyfuncs"
)

// plan is a tier that stands in the request, if there is one.
func plan(r keyfuncs.Request) core.Limit {
	limit, ok := r.Value("plan").(core.Limit)
	if !ok {
		return core.Limit{}
	}
	return limit
}

// on is a request of a plan, of any cost.
func on(plan core.Limit, cost int64) *request {
	return &request{values: map[any]any{"plan": plan, "cost": cost}}
}

// The numbers of Limit.Tiers' doc, from each algorithm to each.
func TestWhatWasUsedStaysUsedWhenTheTierChanges(t *testing.T) {
	t.Parallel()
	for before, from := range storetest.Algorithms(100, time.Hour) {
		for _, to := range []struct{ quota, left int64 }{{200, 140}, {100, 40}, {70, 10}, {60, 0}, {50, 0}, {1, 0}} {
			for after, tier := range storetest.Algorithms(to.quota, time.Hour) {
				t.Run(fmt.Sprint(before, " of 100 to ", after, " of ", to.quota), func(t *testing.T) {
					t.Parallel()
					l := limiterAt(t, from.By(keyfuncs.Everyone()).CostBy(costing).Tiers(plan))
					wantDecision(t, "60 of 100", l.Allow(on(core.Limit{}, 60)), true, core.ReasonWithinLimit, 40)
					wantDecision(t, "asking", l.Allow(on(tier, 0)), true, core.ReasonWithinLimit, to.left)
					wantDecision(t, "one too many", l.Allow(on(tier, to.left+1)), false, core.ReasonLimitExceeded, to.left)
					if to.left > 0 {
						wantDecision(t, "the rest", l.Allow(on(tier, to.left)), true, core.ReasonWithinLimit, 0)
					}
				})
			}
		}
	}
}

// The change comes in the middle of a window: time that has passed counts by the
// old numbers, time to come by the new.
func TestTiersChangeMidWindow(t *testing.T) {
	t.Parallel()
	store, clock := at() // at 15:09:26
	l := limiterOn(t, store, everyone(100).CostBy(costing).Tiers(plan))
	wantDecision(t, "60 of 100 an hour", l.Allow(on(core.Limit{}, 60)), true, core.ReasonWithinLimit, 40)
	clock.Advance(18 * time.Minute) // of which 30 come back
	wantDecision(t, "30 used of 200 an hour", l.Allow(on(core.PerHour(200), 0)), true, core.ReasonWithinLimit, 170)
	clock.Advance(3 * time.Minute) // of which 10 come back
	wantDecision(t, "20 used of 200 an hour", l.Allow(on(core.PerHour(200), 0)), true, core.ReasonWithinLimit, 180)
	wantDecision(t, "20 used of 50 an hour", l.Allow(on(core.PerHour(50).FixedWindow(), 0)), true, core.ReasonWithinLimit, 30)
	clock.Advance(10 * time.Minute)
	wantDecision(t, "still, in a fixed window", l.Allow(on(core.PerHour(50).FixedWindow(), 30)), true, core.ReasonWithinLimit, 0)
	d := l.Allow(on(core.PerHour(50).FixedWindow(), 1))
	wantDecision(t, "one too many", d, false, core.ReasonLimitExceeded, 0)
	clock.Advance(d.RetryAfter)
	wantDecision(t, "in the next window", l.Allow(on(core.PerHour(50).FixedWindow(), 1)), true, core.ReasonWithinLimit, 49)
}

// Denials tell a wait that holds under the tier they were decided by, and what a
// tier denies is charged to none.
func TestDenialsUnderATier(t *testing.T) {
	t.Parallel()
	store, clock := at()
	l := limiterOn(t, store, everyone(100).CostBy(costing).Tiers(plan))
	small := core.PerHour(10)
	wantDecision(t, "all of the tier", l.Allow(on(small, 10)), true, core.ReasonWithinLimit, 0)
	d := l.Allow(on(small, 1))
	wantDecision(t, "one too many", d, false, core.ReasonLimitExceeded, 0)
	check.Equal(t, "to wait for a tenth of the tier's hour", d.RetryAfter, 6*time.Minute)
	wantDecision(t, "the limit's own numbers", l.Allow(on(core.Limit{}, 0)), true, core.ReasonWithinLimit, 90)
	wantDecision(t, "the tier again", l.Allow(on(small, 0)), true, core.ReasonWithinLimit, 0)
	clock.Advance(6 * time.Minute)
	wantDecision(t, "after the wait", l.Allow(on(small, 1)), true, core.ReasonWithinLimit, 0)
}

func TestPolicyFollowsTheTier(t *testing.T) {
	t.Parallel()
	l := limiterAt(t, everyone(100).Named("api").Tiers(plan), everyone(50).Named("all"))
	for _, tt := range []struct {
		name          string
		tier          core.Limit
		policy, limit string
	}{
		{"none", core.Limit{}, `"api";q=100;w=3600, "all";q=50;w=3600`, `"api";r=99;t=3564, "all";r=49;t=3528`},
		{"more", core.PerHour(200), `"api";q=200;w=3600, "all";q=50;w=3600`, `"api";r=198;t=3564, "all";r=48;t=3456`},
		{"another burst", core.PerMinute(10).Burst(20), `"api";q=20;w=120, "all";q=50;w=3600`, `"api";r=17;t=102, "all";r=47;t=3384`},
		{"another window and algorithm", core.PerMinute(5).SlidingLog(), `"api";q=5;w=60, "all";q=50;w=3600`, `"api";r=1;t=12, "all";r=46;t=3312`},
		{"a name of its own, which does not count", core.PerHour(100).Named("gold"), `"api";q=100;w=3600, "all";q=50;w=3600`, `"api";r=95;t=3420, "all";r=45;t=3240`},
	} {
		d := l.Allow(on(tt.tier, 1))
		wantHeaders(t, &d, tt.policy, tt.limit, "")
		if t.Failed() {
			t.Fatalf("for the tier %q", tt.name)
		}
	}
}

// A tier brings numbers and nothing else: what else it holds, right or wrong,
// does not count.
func TestATierBringsNumbersOnly(t *testing.T) {
	t.Parallel()
	store := newFlaky(false)
	gold := core.PerHour(50).Named("!").By(keyfuncs.Func{}).Cost(99).CostBy(func(keyfuncs.Request) int64 { return -1 }).
		When(keyfuncs.Condition{}).OnMissingKey(core.DenyRequest).OnOutage(99).Shadow().WarnAt(7).
		Tiers(func(keyfuncs.Request) core.Limit { return core.PerHour(1) })
	l := limiterOn(t, store, core.PerHour(10).By(keyfuncs.User("userID")).Cost(2).Tiers(func(keyfuncs.Request) core.Limit { return gold }))
	d := l.Allow(user("alice"))
	wantDecision(t, "a request", d, true, core.ReasonWithinLimit, 48)
	check.All(t, "what is not taken of a tier", []any{d.Results()[0].Shadow, d.WarnLevel(), d.Results()[0].Rule.Name}, false, 0, "default")
	check.Equal(t, "the key", string(store.keys[0]), "user:alice")
}

// A tier that can never work is logged once, and the limit's own numbers apply.
// Not parallel: advice belongs to the process.
func TestATierThatCanNeverWork(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		tier       core.Limit
	}{
		{"no quota", "quota must be at least 1, got 0", core.PerHour(0)},
		{"a negative quota", "quota must be at least 1, got -5", core.PerHour(-5)},
		{"no window", "window must be at least 1ms, got 0s", core.Per(5, 0)},
		{"a burst of a fixed window", "Burst belongs to a token bucket, not to a fixed window", core.PerHour(30).FixedWindow().Burst(30)},
		{"jitter of a token bucket", "jitter belongs to windows, not to a token bucket", core.PerHour(30).Jitter()},
		{"more than can be counted", "quota 9223372036854775807 and burst 9223372036854775807 per 1h0m0s are too large to count exactly", core.PerHour(1<<63 - 1)},
		{"too large a log", "a sliding log remembers each request: quota must be at most 5000, got 5001 (SlidingWindow has no such bound)", core.PerHour(5001).SlidingLog()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			advice := newAdvice()
			store, _ := at()
			l := newLimiter(t, core.Config{Store: store, Logger: advice.logger, Limits: []core.Limit{
				everyone(100).Named("api").Cost(3).Tiers(plan),
			}})
			wantDecision(t, "the limit's own numbers", l.Allow(on(tt.tier, 1)), true, core.ReasonWithinLimit, 97)
			wantDecision(t, "again", l.Allow(on(tt.tier, 1)), true, core.ReasonWithinLimit, 94)
			advice.want(t, core.AdviceTier, `weblimit: limit "api": `+tt.want)

			// Nor does a tier that works suffer from one that does not.
			wantDecision(t, "numbers that work", l.Allow(on(core.PerHour(30).FixedWindow(), 1)), true, core.ReasonWithinLimit, 21)
		})
	}
}

// A tier below a request's cost denies: the limit's own numbers may be those of a larger plan.
// Not parallel: advice belongs to the process.
func TestATierBelowTheCost(t *testing.T) {
	advice := newAdvice()
	store, _ := at()
	l := newLimiter(t, core.Config{Store: store, Logger: advice.logger, Limits: []core.Limit{
		everyone(100).Named("api").Cost(3).Tiers(plan),
	}})
	wantDecision(t, "a cost that can never fit", l.Allow(on(core.PerHour(2), 1)), false, core.ReasonNeverFits, 2)
	advice.want(t, core.AdviceTier, `weblimit: limit "api": cost 3 can never fit: the tier holds at most 2, and denies such requests`)
	wantDecision(t, "the limit's own numbers", l.Allow(on(core.Limit{}, 1)), true, core.ReasonWithinLimit, 97)
}

// A function that makes up numbers as it goes takes no more memory, and each
// request has its own numbers still.
func TestMoreTiersThanAreKept(t *testing.T) {
	t.Parallel()
	l := limiterAt(t, core.PerHour(7).By(keyfuncs.User("userID")).Tiers(plan))
	for range 2 {
		for i := range int64(3000) {
			r := on(core.PerHour(10+i), 1)
			r.values["userID"] = i
			d := l.Allow(r)
			if rule := d.Results()[0].Rule; !d.Allowed || rule.Quota != 10+i || rule.Name != "default" {
				t.Fatalf("tier %d: allowed=%v by %+v", i, d.Allowed, rule)
			}
		}
	}
	r := on(core.PerHour(10), 1)
	r.values["userID"] = int64(0)
	wantDecision(t, "the first user's third", l.Allow(r), true, core.ReasonWithinLimit, 7)
	check.Equal(t, "tiers kept", l.KnownTiers(), core.MaxTiers)
}

// Trap 9, with tiers: each client gets exactly what its plan grants.
func TestConcurrentRequestsOfTiers(t *testing.T) {
	t.Parallel()
	l := limiterAt(t, core.PerHour(10).By(keyfuncs.User("userID")).Tiers(plan))
	plans := [...]core.Limit{{}, core.PerHour(20), core.PerMinute(30).FixedWindow(), core.PerHour(40).SlidingLog(), core.PerHour(50).SlidingWindow()}
	var allowed [len(plans)]atomic.Int64
	atOnce(64, func(i int) {
		for n := range 25 {
			who := (i + n) % len(plans)
			r := on(plans[who], 1)
			r.values["userID"] = who
			if l.Allow(r).Allowed {
				allowed[who].Add(1)
			}
		}
	})
	for i := range allowed {
		check.Equal(t, fmt.Sprintf("requests of plan %d that passed", i), allowed[i].Load(), int64(10*(i+1)))
	}
}

// Trap 26: during an outage a process grants its share of the tier.
func TestTiersDuringAnOutage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		tier  core.Limit
		quota int64
		left  int64
	}{
		{"the limit's own numbers", core.Limit{}, 25, 24},
		{"more", core.PerHour(200), 50, 49},
		{"less", core.PerHour(3), 1, 0},
		{"another algorithm", core.PerMinute(9).FixedWindow(), 3, 2},
		{"one that can never work", core.PerHour(0), 25, 24},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLimiter(t, core.Config{
				Store: newFlaky(true), Replicas: 4, Silence: []core.Advice{core.AdviceTier},
				Limits: []core.Limit{everyone(100).Tiers(plan)},
			})
			d := l.Allow(on(tt.tier, 1))
			wantDecision(t, tt.name, d, true, core.ReasonOutageLocal, tt.left)
			b, _ := d.Binding()
			check.Equal(t, "a quarter of the limit", b.Rule.Quota, tt.quota)
		})
	}
}

// A policy that is shared with other requests can't be appended to.
func TestThePolicyOfATierIsNotForWriting(t *testing.T) {
	t.Parallel()
	l := limiterOn(t, core.NewMemory(), everyone(100).Tiers(plan))
	for range 2 {
		h := http.Header{}
		d := l.Allow(on(core.PerHour(10), 1))
		d.SetHeaders(adapter.HeaderMap(h))
		check.Slices(t, "the policy", h["Ratelimit-Policy"], []string{`"default";q=10;w=3600`})
		h.Add("RateLimit-Policy", "another")
	}
}
