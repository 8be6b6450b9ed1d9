package core_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// post is a request of the class that has all.
func post(cost int64) *request {
	return &request{method: "POST", values: map[any]any{"cost": cost}}
}

// get is a request of the lower class.
func get(cost int64) *request { return &request{values: map[any]any{"cost": cost}} }

func TestKeepFree(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{
		"bucket": everyone(10), "window": everyone(10).FixedWindow(), "sliding": everyone(10).SlidingWindow(), "log": everyone(10).SlidingLog(),
		"month": core.PerMonth(10, time.UTC).By(keyfuncs.Everyone()),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _ := at()
			var events warnings
			l := newLimiter(t, core.Config{
				Store: store, OnWarning: events.add,
				Limits: []core.Limit{limit.CostBy(costing).KeepFree(0.2, keyfuncs.Methods("POST")).WarnAt(0.7, 0.9).Soft(5)},
			})
			d := l.Allow(get(6))
			wantDecision(t, "6 of 8", d, true, core.ReasonWithinLimit, 2)
			check.Equal(t, "the header, of the whole", warningHeader(d), `over soft limit; policy="default"; used=60%`)
			wantDecision(t, "9 of 8", l.Allow(get(3)), false, core.ReasonLimitExceeded, 2)
			wantDecision(t, "8 of 8", l.Allow(get(2)), true, core.ReasonWithinLimit, 0)
			wantDecision(t, "one too many", l.Allow(get(1)), false, core.ReasonLimitExceeded, 0)
			wantDecision(t, "9 of 10", l.Allow(post(1)), true, core.ReasonWithinLimit, 1)
			wantDecision(t, "still", l.Allow(get(1)), false, core.ReasonLimitExceeded, 0)
			wantDecision(t, "never", l.Allow(get(9)), false, core.ReasonNeverFits, 0)
			wantDecision(t, "10 of 10, by key", l.AllowKey(t.Context(), "other", 10), true, core.ReasonWithinLimit, 0)
			var levels []float64
			for _, event := range events.take() {
				check.Equal(t, "units of the event", event.Burst, 10)
				if event.Key != "other" {
					levels = append(levels, event.Level)
				}
			}
			check.Slices(t, "events, of the whole", levels, []float64{0.7, 0.9})
		})
	}
}

func TestReserveHeaders(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limit     core.Limit
		all, less string
	}{
		"bucket": {everyone(10), `"default";q=10;w=3600`, `"default";q=8;w=2880`},
		"window": {everyone(10).FixedWindow(), `"default";q=10;w=3600`, `"default";q=8;w=3600`},
		"month":  {core.PerMonth(10, time.UTC).By(keyfuncs.Everyone()), `"default";q=10`, `"default";q=8`},
	} {
		l := limiterOn(t, core.NewMemory(), tt.limit.KeepFree(0.2, keyfuncs.Methods("POST")))
		check.Equal(t, name+": the policy of who has all", told(l.Allow(post(1))).Get("RateLimit-Policy"), tt.all)
		check.Equal(t, name+": the policy of the lower class", told(l.Allow(get(1))).Get("RateLimit-Policy"), tt.less)
	}
}

func TestReserveWithTiersScaleAndOutage(t *testing.T) {
	t.Parallel()
	limit := everyone(100).FixedWindow().CostBy(costing).KeepFree(0.5, keyfuncs.Methods("POST"))
	tier := func(r keyfuncs.Request) core.Limit { return core.PerHour(200).FixedWindow() }
	for _, tt := range []struct {
		name       string
		limit      core.Limit
		all, lower int64
	}{
		{"a tier", limit.Tiers(tier), 200, 100},
		{"scaled", limit.Scale(half), 50, 25},
		{"a scaled tier", limit.Tiers(tier).Scale(half), 100, 50},
	} {
		l := limiterAt(t, tt.limit)
		wantDecision(t, tt.name, l.Allow(get(0)), true, core.ReasonWithinLimit, tt.lower)
		wantDecision(t, tt.name, l.Allow(get(tt.lower)), true, core.ReasonWithinLimit, 0)
		wantDecision(t, tt.name, l.Allow(get(1)), false, core.ReasonLimitExceeded, 0)
		wantDecision(t, tt.name, l.Allow(post(1)), true, core.ReasonWithinLimit, tt.all-tt.lower-1)
	}
	out := newLimiter(t, core.Config{Store: newFlaky(true), Replicas: 5, Limits: []core.Limit{limit}})
	wantDecision(t, "a fifth of half", out.Allow(get(10)), true, core.ReasonOutageLocal, 0)
	wantDecision(t, "no more", out.Allow(get(1)), false, core.ReasonOutageLocal, 0)
	wantDecision(t, "the rest of a fifth", out.Allow(post(10)), true, core.ReasonOutageLocal, 0)
}

// What both classes were granted in an outage is charged afterwards, whichever comes first.
func TestReserveIsCarried(t *testing.T) {
	t.Parallel()
	store := newFlaky(true)
	l := newLimiter(t, core.Config{Store: store, Limits: []core.Limit{everyone(100).FixedWindow().CostBy(costing).KeepFree(0.5, keyfuncs.Methods("POST"))}})
	l.Allow(post(90))
	store.down.Store(false)
	l.Allow(get(1))  // and charges the store with what its class knows of
	l.Allow(post(1)) // and the rest
	if d := l.Allow(post(0)); d.Results()[0].Remaining > 10 {
		t.Errorf("%d of 100 remain after 90 were granted in an outage", d.Results()[0].Remaining)
	}
}

func TestReservesThatCanNotWork(t *testing.T) {
	t.Parallel()
	posts := keyfuncs.Methods("POST")
	for _, tt := range []struct {
		name  string
		limit core.Limit
		want  string
	}{
		{"nothing", everyone(10).KeepFree(0, posts), "above 0 and below 1"},
		{"all", everyone(10).KeepFree(1, posts), "above 0 and below 1"},
		{"no number", everyone(10).KeepFree(math.NaN(), posts), "above 0 and below 1"},
		{"less than a unit", everyone(10).KeepFree(0.91, posts), "leaves the lower class nothing of 10 units"},
		{"less than the cost", everyone(10).Cost(6).KeepFree(0.5, posts), "cost 6 can never fit: KeepFree leaves the lower class 5 units"},
		{"a bad condition", everyone(10).KeepFree(0.5, keyfuncs.FromCIDR("nowhere")), "nowhere"},
	} {
		if _, err := tt.limit.Named("api").Rule(); err == nil || !strings.HasPrefix(err.Error(), `weblimit: limit "api": `) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one that says %q", tt.name, err, tt.want)
		}
	}
}
