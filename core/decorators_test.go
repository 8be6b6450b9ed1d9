package core_test

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/storetest"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestWhenAndUnless(t *testing.T) {
	t.Parallel()
	writes, health := keyfuncs.Methods("POST", "PUT"), keyfuncs.Routes("/healthz")
	get, post := &request{}, &request{method: "POST"}
	ping := &request{method: "POST", route: "/healthz"}
	for _, tt := range []struct {
		name   string
		limits []core.Limit
		r      *request
		want   []int64 // what remains of the limits that apply
	}{
		{"it holds", []core.Limit{everyone(5).When(writes)}, post, []int64{4}},
		{"it does not hold", []core.Limit{everyone(5).When(writes)}, get, nil},
		{"an exemption holds", []core.Limit{everyone(5).Unless(writes)}, post, nil},
		{"an exemption does not hold", []core.Limit{everyone(5).Unless(writes)}, get, []int64{4}},
		{"both of two hold", []core.Limit{everyone(5).When(writes).When(health)}, ping, []int64{4}},
		{"one of two holds", []core.Limit{everyone(5).When(writes).When(health)}, post, nil},
		{"the other of two holds", []core.Limit{everyone(5).When(health).When(writes)}, post, nil},
		{"a condition and an exemption", []core.Limit{everyone(5).When(writes).Unless(health)}, post, []int64{4}},
		{"a condition and an exemption that holds", []core.Limit{everyone(5).When(writes).Unless(health)}, ping, nil},
		{"one limit of two applies", []core.Limit{everyone(5).Named("a").When(health), everyone(9).Named("b")}, get, []int64{8}},
		{"each of two limits applies", []core.Limit{everyone(5).Named("a").When(writes), everyone(9).Named("b").Unless(health)}, post, []int64{4, 8}},
		{"none of two limits applies", []core.Limit{everyone(5).Named("a").When(writes), everyone(9).Named("b").When(health)}, get, nil},
		{"a limit in shadow mode does not apply", []core.Limit{everyone(5).When(writes).Shadow()}, get, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := newFlaky(false)
			l := newLimiter(t, core.Config{Store: store, Limits: tt.limits, Headers: everyDialect})
			d := l.Allow(tt.r)
			wantDecision(t, tt.name, d, true, core.ReasonWithinLimit, tt.want...)
			if tt.want == nil {
				wantNothingTold(t, tt.name, d)
			} else if told(d).Get("RateLimit") == "" {
				t.Error("the client is told nothing of the limit that applied")
			}
			if asked := store.calls.Load() > 0; asked != (tt.want != nil) {
				t.Errorf("the store was asked: %v", asked)
			}
		})
	}
}

// Trap 27: what no limit applies to is no matter of outages either.
func TestOutageOfALimitThatDoesNotApply(t *testing.T) {
	t.Parallel()
	store := newFlaky(true)
	d := limiterOn(t, store, everyone(5).When(keyfuncs.Methods("POST")).OnOutage(core.Deny)).Allow(&request{})
	wantDecision(t, "no limit applies", d, true, core.ReasonWithinLimit)
	if d.Err != nil || store.calls.Load() != 0 {
		t.Errorf("the store was asked: %v", d.Err)
	}
}

// What belongs to a limit is not read where the limit does not apply.
func TestALimitThatDoesNotApplyReadsNothing(t *testing.T) {
	t.Parallel()
	limit := core.PerHour(1).Named("a").
		By(keyfuncs.Custom("x", func(keyfuncs.Request) (string, bool) { t.Error("the key was read"); return "", false })).
		OnMissingKey(core.DenyRequest).
		CostBy(func(keyfuncs.Request) int64 { t.Error("the cost was read"); return -1 }).
		Tiers(func(keyfuncs.Request) core.Limit { t.Error("the tier was read"); return core.Limit{} }).
		When(keyfuncs.Methods("POST"))
	d := limiterOn(t, core.NewMemory(), limit, everyone(5).Named("b")).Allow(&request{})
	wantDecision(t, "the other limit", d, true, core.ReasonWithinLimit, 4)
}

// A Limit is a value: what is derived from it does not change it, or another.
func TestDerivedLimitsKeepTheirOwnConditions(t *testing.T) {
	t.Parallel()
	yes := keyfuncs.Matches(func(keyfuncs.Request) bool { return true })
	base := everyone(9).When(yes).When(yes).When(yes) // where an append would have room
	gets, posts := base.Named("gets").When(keyfuncs.Methods("GET")), base.Named("posts").When(keyfuncs.Methods("POST"))
	d := limiterOn(t, core.NewMemory(), base, gets, posts).Allow(&request{method: "POST"})
	var names []string
	for _, r := range d.Results() {
		names = append(names, r.Rule.Name)
	}
	if want := []string{"default", "posts"}; !slices.Equal(names, want) {
		t.Errorf("a POST is counted by %q, want %q", names, want)
	}
	levels := []float64{0.9, 0.1}
	warned := everyone(10).WarnAt(levels...)
	levels[0], levels[1] = 0.5, 0.5
	d = limiterOn(t, core.NewMemory(), warned).Allow(&request{})
	if d.WarnLevel() != 0.1 {
		t.Errorf("the first of 10 has the warning level %v, want 0.1", d.WarnLevel())
	}
}

func TestOnMissingKey(t *testing.T) {
	t.Parallel()
	byUser := core.PerHour(2).By(keyfuncs.User("userID")).Named("user")
	byTenant := core.PerHour(7).By(keyfuncs.Header("X-Tenant")).Named("tenant")
	all := everyone(9).Named("all")
	type answer struct {
		allowed   bool
		reason    core.Reason
		remaining []int64
	}
	within := func(n ...int64) answer { return answer{true, core.ReasonWithinLimit, n} }
	exceeded := func(n ...int64) answer { return answer{false, core.ReasonLimitExceeded, n} }
	missing := answer{false, core.ReasonMissingKey, []int64{0}}
	for _, tt := range []struct {
		name   string
		limits []core.Limit
		want   []answer // of requests without user and tenant, one after the other
		asked  int64    // how often the store was
	}{
		{"by default all share a bucket", []core.Limit{byUser}, []answer{within(1), within(0), exceeded(0)}, 3},
		{"ShareBucket is that default", []core.Limit{byUser.OnMissingKey(core.ShareBucket)}, []answer{within(1), within(0), exceeded(0)}, 3},
		{"DenyRequest denies", []core.Limit{byUser.OnMissingKey(core.DenyRequest)}, []answer{missing, missing}, 0},
		{"SkipLimit passes over the limit", []core.Limit{byUser.OnMissingKey(core.SkipLimit)}, []answer{within(), within(), within()}, 0},
		{"SkipLimit leaves it to the others", []core.Limit{byUser.OnMissingKey(core.SkipLimit), all}, []answer{within(8), within(7)}, 2},
		{"DenyRequest charges no other limit", []core.Limit{all, byUser.OnMissingKey(core.DenyRequest)}, []answer{missing, missing}, 0},
		{"DenyRequest in front charges no other limit", []core.Limit{byUser.OnMissingKey(core.DenyRequest), all}, []answer{missing}, 0},
		{"SkipLimit does not hide a denial", []core.Limit{byTenant.OnMissingKey(core.SkipLimit), byUser.OnMissingKey(core.DenyRequest)}, []answer{missing}, 0},
		{"SkipLimit beside a shared bucket", []core.Limit{byTenant.OnMissingKey(core.SkipLimit), byUser}, []answer{within(1), within(0), exceeded(0)}, 3},
		{"two shared buckets are apart", []core.Limit{byTenant, byUser}, []answer{within(6, 1), within(5, 0), exceeded(5, 0)}, 3},
		{"all three", []core.Limit{byUser, byTenant.OnMissingKey(core.SkipLimit), core.PerHour(1).By(keyfuncs.APIKey()).Named("key").OnMissingKey(core.DenyRequest)}, []answer{missing}, 0},
		{"one part of a joined key is enough to miss", []core.Limit{core.PerHour(5).By(keyfuncs.Everyone(), keyfuncs.User("userID")).OnMissingKey(core.DenyRequest)}, []answer{missing}, 0},
		{"a limit that does not apply denies nothing", []core.Limit{byUser.OnMissingKey(core.DenyRequest).When(keyfuncs.Methods("POST")), all}, []answer{within(8)}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := newFlaky(false)
			l := limiterOn(t, store, tt.limits...)
			for i, want := range tt.want {
				d := l.Allow(&request{})
				wantDecision(t, fmt.Sprint("request ", i+1), d, want.allowed, want.reason, want.remaining...)
				if len(want.remaining) == 0 {
					wantNothingTold(t, "no limit applies", d)
				}
			}
			if n := store.calls.Load(); n != tt.asked {
				t.Errorf("the store was asked %d times, want %d", n, tt.asked)
			}
			// Who has the key has a bucket of his own, whatever the others did.
			d := l.Allow(&request{values: map[any]any{"userID": "alice"}, headers: map[string]string{"X-Tenant": "acme", "X-Api-Key": "0123456789abcdef"}})
			if !d.Allowed {
				t.Errorf("a request with all keys: denied because %v", d.Reason)
			}
		})
	}
}

func TestDenialForAMissingKey(t *testing.T) {
	t.Parallel()
	for when, policy := range map[core.HeadersWhen]string{
		core.Always:    `"all";q=9;w=3600, "user";q=2;w=3600`,
		core.NearLimit: `"all";q=9;w=3600, "user";q=2;w=3600`,
		core.OnDenial:  `"all";q=9;w=3600, "user";q=2;w=3600`,
		core.Never:     "",
	} {
		store := newFlaky(true) // nor does an outage matter
		l := newLimiter(t, core.Config{Store: store, Headers: everyDialect, HeadersWhen: when, Limits: []core.Limit{
			everyone(9).Named("all"),
			core.PerHour(2).By(keyfuncs.User("userID")).Named("user").OnMissingKey(core.DenyRequest).WarnAt(0.1),
		}})
		d := l.Allow(&request{})
		if d.Status() != http.StatusTooManyRequests || d.RetryAfter != 0 || d.Err != nil {
			t.Errorf("status %d, wait %v, error %v; want 429 and neither", d.Status(), d.RetryAfter, d.Err)
		}
		if b, ok := d.Binding(); ok {
			t.Errorf("limit %q binds a request that no limit was asked about", b.Rule.Name)
		}
		wantProblem(t, &d, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"detail":"The request does not identify its client.","violated-policies":["user"]}`)
		wantHeaders(t, &d, policy, "", "")
		if store.calls.Load() != 0 {
			t.Error("the store was asked")
		}
	}
}

// AllowKey says the key itself: none is missing.
func TestAllowKeyPassesOverWhatReadsRequests(t *testing.T) {
	t.Parallel()
	store, _ := at()
	no := keyfuncs.Matches(func(keyfuncs.Request) bool { return false })
	l := limiterOn(t, store, core.PerHour(9).By(keyfuncs.User("userID")).OnMissingKey(core.DenyRequest).
		When(no).CostBy(func(keyfuncs.Request) int64 { return -1 }).
		Tiers(func(keyfuncs.Request) core.Limit { return core.PerHour(1) }))
	wantDecision(t, "a key", l.AllowKey(t.Context(), "user:alice", 4), true, core.ReasonWithinLimit, 5)
}

func TestCostBy(t *testing.T) {
	t.Parallel()
	for algorithm, limit := range storetest.Algorithms(10, time.Hour) {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			store, _ := at()
			l := limiterOn(t, store, limit.By(keyfuncs.Everyone()).Named("default").CostBy(costing))
			for _, step := range []struct {
				name      string
				cost      int64
				reason    core.Reason
				remaining int64
			}{
				{"nothing asks without charging", 0, core.ReasonWithinLimit, 10},
				{"what fits", 7, core.ReasonWithinLimit, 3},
				{"what does not fit charges nothing", 4, core.ReasonLimitExceeded, 3},
				{"above the burst", 11, core.ReasonLimitExceeded, 3},
				{"beyond what is counted exactly", 1 << 53, core.ReasonLimitExceeded, 3},
				{"the largest number", math.MaxInt64, core.ReasonLimitExceeded, 3},
				{"the rest", 3, core.ReasonWithinLimit, 0},
				{"nothing always fits", 0, core.ReasonWithinLimit, 0},
			} {
				d := l.Allow(cost(step.cost))
				wantDecision(t, step.name, d, step.reason == core.ReasonWithinLimit, step.reason, step.remaining)
				if never := step.cost > 10; never && d.RetryAfter != 0 || !d.Allowed && !never && d.RetryAfter == 0 {
					t.Errorf("%s: told to come back in %v", step.name, d.RetryAfter)
				}
			}
			for _, negative := range []int64{-1, math.MinInt64} {
				d := l.Allow(cost(negative))
				wantDecision(t, "a negative cost", d, false, core.ReasonInvalidCost, 0)
				wantProblem(t, &d, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"detail":"Rate limit exceeded.","violated-policies":["default"]}`)
				if got := told(d); got.Get("RateLimit") != "" || got.Get("Retry-After") != "" || d.Status() != http.StatusTooManyRequests {
					t.Errorf("a negative cost: status %d and %q", d.Status(), got)
				}
			}
		})
	}
}

// Each limit has its own cost, and one that can't be paid charges no other.
func TestCostsOfSeveralLimits(t *testing.T) {
	t.Parallel()
	store := newFlaky(false)
	l := limiterOn(t, store,
		everyone(100).Named("bytes").CostBy(costing),
		everyone(10).Named("requests"),
		everyone(30).Named("weighted").Cost(3),
		everyone(5).Named("fixed-by-nothing").CostBy(nil))
	wantDecision(t, "a small one", l.Allow(cost(10)), true, core.ReasonWithinLimit, 90, 9, 27, 4)
	wantDecision(t, "a large one", l.Allow(cost(91)), false, core.ReasonLimitExceeded, 90, 9, 27, 4)
	wantDecision(t, "nothing of one limit", l.Allow(cost(0)), true, core.ReasonWithinLimit, 90, 8, 24, 3)
	asked := store.calls.Load()
	wantDecision(t, "a negative one", l.Allow(cost(-1)), false, core.ReasonInvalidCost, 0)
	if store.calls.Load() != asked {
		t.Error("the store was asked about a negative cost")
	}
	wantDecision(t, "the rest", l.Allow(cost(90)), true, core.ReasonWithinLimit, 0, 7, 21, 2)
}

func TestCostByOutweighsCost(t *testing.T) {
	t.Parallel()
	store, _ := at()
	d := limiterOn(t, store, everyone(10).Cost(3).CostBy(costing)).Allow(cost(4))
	wantDecision(t, "a cost of 4", d, true, core.ReasonWithinLimit, 6)
}

// During an outage a cost that the limit could pay takes what the share has, and
// one that it could not is denied.
func TestCostByDuringAnOutage(t *testing.T) {
	t.Parallel()
	ask := func(n int64) core.Decision {
		return newLimiter(t, core.Config{Store: newFlaky(true), Replicas: 5, Limits: []core.Limit{everyone(20).CostBy(costing)}}).Allow(cost(n))
	}
	wantDecision(t, "within the share of 4", ask(3), true, core.ReasonOutageLocal, 1)
	wantDecision(t, "above the share", ask(20), true, core.ReasonOutageLocal, 0)
	wantDecision(t, "above the limit", ask(21), false, core.ReasonOutageLocal, 4)
	wantDecision(t, "nothing", ask(0), true, core.ReasonOutageLocal, 4)
	wantDecision(t, "the largest number", ask(math.MaxInt64), false, core.ReasonOutageLocal, 4)
	wantDecision(t, "negative", ask(-1), false, core.ReasonInvalidCost, 0)
}
