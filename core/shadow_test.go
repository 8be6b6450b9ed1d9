package core_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/storetest"
	"github.com/weblimit/weblimit/keyfuncs"
)

// everyDialect is as many dialects as go together.
const everyDialect = core.Draft11 | core.Draft03 | core.XRateLimit

// costing is a limit's cost that stands in the request.
func costing(r keyfuncs.Request) int64 {
	cost, ok := r.Value("cost").(int64)
	if !ok {
		return 1
	}
	return cost
}

func cost(n int64) *request { return &request{values: map[any]any{"cost": n}} }

// told returns all that a decision writes.
func told(d core.Decision) http.Header {
	h := http.Header{}
	d.SetHeaders(h)
	return h
}

// wantNothingTold checks that a response shows nothing of limits.
func wantNothingTold(t testing.TB, what string, d core.Decision) {
	t.Helper()
	check.Equal(t, what+": headers", len(told(d)), 0)
	check.Equal(t, what+": what binds", binding(d), "")
	check.Equal(t, what+": RetryAfter", d.RetryAfter, 0)
	check.Equal(t, what+": warning level", d.WarnLevel(), 0)
}

// Trap 45: a limit in shadow mode denies no request and shows nowhere, whatever its result.
func TestShadowDeniesNobody(t *testing.T) {
	t.Parallel()
	byUser := core.PerHour(2).By(keyfuncs.User("userID"))
	type answer struct {
		reason    core.Reason
		remaining []int64
	}
	within := func(n ...int64) answer { return answer{core.ReasonWithinLimit, n} }
	shadowed := func(n ...int64) answer { return answer{core.ReasonShadowed, n} }
	for _, tt := range []struct {
		name  string
		limit core.Limit
		down  bool
		r     *request
		want  []answer // of one request after the other
	}{
		{"it counts as far as it goes", everyone(2), false, &request{}, []answer{within(1), within(0), shadowed(0), shadowed(0)}},
		{"a warning level is reached", everyone(2).WarnAt(0.5), false, &request{}, []answer{within(1), within(0), shadowed(0)}},
		{"a cost above the burst", everyone(2).CostBy(costing), false, cost(3), []answer{shadowed(2), shadowed(2)}},
		{"the largest cost", everyone(2).CostBy(costing), false, cost(1<<63 - 1), []answer{shadowed(2)}},
		{"a negative cost", everyone(2).CostBy(costing), false, cost(-1), []answer{shadowed(0), shadowed(0)}},
		{"a missing key that would be denied", byUser.OnMissingKey(core.DenyRequest), false, &request{}, []answer{shadowed(0), shadowed(0), shadowed(0)}},
		{"a missing key that would be skipped", byUser.OnMissingKey(core.SkipLimit), false, &request{}, []answer{within(), within(), within()}},
		{"a missing key that shares a bucket", byUser, false, &request{}, []answer{within(1), within(0), shadowed(0)}},
		{"a tier that holds less", everyone(9).Tiers(func(keyfuncs.Request) core.Limit { return core.PerHour(1) }), false, &request{}, []answer{within(0), shadowed(0)}},
		{"an outage that would deny", everyone(1).OnOutage(core.Deny), true, &request{}, []answer{{reason: core.ReasonOutageAllowed}, {reason: core.ReasonOutageAllowed}}},
		{"an outage that would be decided here", everyone(1).OnOutage(core.Local), true, &request{}, []answer{{reason: core.ReasonOutageAllowed}, {reason: core.ReasonOutageAllowed}}},
		{"an outage and a missing key", byUser.OnMissingKey(core.DenyRequest).OnOutage(core.Deny), true, &request{}, []answer{shadowed(0)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := newFlaky(tt.down)
			l := newLimiter(t, core.Config{Store: store, Headers: everyDialect, Limits: []core.Limit{tt.limit.Shadow()}})
			for i, want := range tt.want {
				d := l.Allow(tt.r)
				wantDecision(t, tt.name, d, true, want.reason, want.remaining...)
				wantNothingTold(t, tt.name, d)
				outage := want.reason == core.ReasonOutageAllowed
				check.Equal(t, fmt.Sprintf("request %d: Err is of the outage", i+1), errors.Is(d.Err, errDown), outage)
				for _, r := range d.Results() {
					if !r.Shadow {
						t.Errorf("request %d: the result is not marked as one in shadow mode", i+1)
					}
				}
			}
		})
	}
}

func TestShadowCountsWithEveryAlgorithm(t *testing.T) {
	t.Parallel()
	for algorithm, limit := range storetest.Algorithms(100, time.Hour) {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			l := limiterAt(t, limit.By(keyfuncs.Everyone()).Shadow())
			var within, shadowed atomic.Int64
			atOnce(16, func(int) {
				for range 20 {
					switch d := l.Allow(&request{}); {
					case !d.Allowed:
						t.Error("denied")
					case d.Reason == core.ReasonShadowed:
						shadowed.Add(1)
					case d.Reason == core.ReasonWithinLimit:
						within.Add(1)
					}
				}
			})
			check.Equal(t, "requests of 320 within a limit of 100, and not", [2]int64{within.Load(), shadowed.Load()}, [2]int64{100, 220})
		})
	}
}

// Trap 45, too: beside limits that are enforced, the one in shadow mode takes no
// part in what the client is told, and is charged only when the request is.
func TestShadowBesideOtherLimits(t *testing.T) {
	t.Parallel()
	store, _ := at()
	l := newLimiter(t, core.Config{Store: store, Headers: everyDialect, Limits: []core.Limit{
		everyone(1).Named("tight").Shadow(),
		everyone(3).Named("real"),
		everyone(9).Named("loose").Shadow(),
	}})
	d := l.Allow(&request{})
	wantDecision(t, "the first", d, true, core.ReasonWithinLimit, 0, 2, 8)
	check.Equal(t, "the limit that is enforced", binding(d), "real")
	wantDecision(t, "the second", l.Allow(&request{}), true, core.ReasonShadowed, 0, 1, 7)
	d = l.Allow(&request{})
	wantDecision(t, "the third", d, true, core.ReasonShadowed, 0, 0, 6)
	if got := told(d); got.Get("RateLimit") != `"real";r=0;t=1200` || got.Get("RateLimit-Policy") != `"real";q=3;w=3600` || got.Get("RateLimit-Limit") != "3;w=3600" || got.Get("X-RateLimit-Remaining") != "0" {
		t.Errorf("the client is told %q", got)
	}
	check.Equal(t, "RetryAfter of what was allowed", d.RetryAfter, 0)
	for range 3 {
		d = l.Allow(&request{})
		wantDecision(t, "denied by the limit that is enforced", d, false, core.ReasonLimitExceeded, 0, 0, 6)
	}
	check.Equal(t, "to wait for the limit that is enforced, and not for the other", d.RetryAfter, 20*time.Minute)
	wantProblem(t, &d, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"detail":"Rate limit exceeded. Retry in 1200 seconds.","violated-policies":["real"]}`)
	for name, lines := range told(d) {
		if s := strings.Join(lines, ", "); strings.Contains(s, "tight") || strings.Contains(s, "loose") {
			t.Errorf("%s shows a limit in shadow mode: %s", name, s)
		}
	}
	check.Slices(t, "results in shadow mode", shadows(d), []bool{true, false, true})
	if got := logged(t, d); strings.Contains(got, "tight") {
		t.Errorf("the log names a limit in shadow mode as the one that binds: %s", got)
	}
}

func shadows(d core.Decision) (marks []bool) {
	for _, r := range d.Results() {
		marks = append(marks, r.Shadow)
	}
	return marks
}

// A limit that is enforced decides as if there were no other in shadow mode, also
// where it decides without the store.
func TestShadowDoesNotSoftenOtherLimits(t *testing.T) {
	t.Parallel()
	shadow := everyone(1).Named("shadow").Shadow().OnOutage(core.Deny)
	byUser := core.PerHour(5).By(keyfuncs.User("userID")).Named("user")
	for _, tt := range []struct {
		name  string
		limit core.Limit
		down  bool
		r     *request
		want  core.Reason
	}{
		{"a missing key is denied", byUser.OnMissingKey(core.DenyRequest), false, &request{}, core.ReasonMissingKey},
		{"a negative cost is denied", everyone(5).CostBy(costing), false, cost(-1), core.ReasonInvalidCost},
		{"a cost above the burst is denied", everyone(5).CostBy(costing), false, cost(6), core.ReasonNeverFits},
		{"an outage is denied", everyone(5).OnOutage(core.Deny), true, &request{}, core.ReasonOutageDenied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, limits := range [][]core.Limit{{shadow, tt.limit}, {tt.limit, shadow}} {
				d := limiterOn(t, newFlaky(tt.down), limits...).Allow(tt.r)
				check.Equal(t, "decided", outcomeOf(d), outcome{false, tt.want})
			}
		})
	}
}

func TestShadowShowsInPeekAndAllowKey(t *testing.T) {
	t.Parallel()
	store, _ := at()
	l := limiterOn(t, store, everyone(1).Shadow())
	wantDecision(t, "a key", l.AllowKey(t.Context(), "k", 1), true, core.ReasonWithinLimit, 0)
	wantDecision(t, "one too many", l.AllowKey(t.Context(), "k", 1), true, core.ReasonShadowed, 0)
	d := must.Get(l.Peek(t.Context(), "k", 1))(t)
	wantDecision(t, "peeking", d, true, core.ReasonShadowed, 0)
	wantNothingTold(t, "peeking", d)
	check.Contains(t, "the log", logged(t, d), `"reason":"shadowed"`)
}

// A trial shows what its limit would do, also where it would not ask the store.
func TestShadowTellsObserversWhyItWouldDeny(t *testing.T) {
	t.Parallel()
	all := everyone(9).Named("all")
	for name, tt := range map[string]struct {
		limits []core.Limit
		r      *request
		reason core.Reason
	}{
		"alone":                   {[]core.Limit{byTenant()}, &request{}, core.ReasonMissingKey},
		"in front":                {[]core.Limit{byTenant(), all}, &request{}, core.ReasonMissingKey},
		"behind":                  {[]core.Limit{all, byTenant()}, &request{}, core.ReasonMissingKey},
		"beside one that waits":   {[]core.Limit{all.Wait(time.Second), byTenant()}, &request{}, core.ReasonMissingKey},
		"an ambiguous key":        {[]core.Limit{all, byTenant()}, twice("X-Tenant"), core.ReasonAmbiguousKey},
		"an ambiguous operation":  {[]core.Limit{everyone(9).Named("trial").OncePer(keyfuncs.Header("X-Tenant"), time.Hour).Shadow(), all}, twice("X-Tenant"), core.ReasonAmbiguousKey},
		"a negative cost":         {[]core.Limit{all, everyone(9).Named("trial").CostBy(costing).Shadow()}, cost(-1), core.ReasonInvalidCost},
		"a negative cost, direct": {[]core.Limit{everyone(9).Named("trial").CostBy(costing).Shadow()}, cost(-1), core.ReasonInvalidCost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := new(recorder)
			for _, config := range []core.Config{{}, {Observe: seen}} {
				config.Store, config.Limits = core.NewMemory(), tt.limits
				l := newLimiter(t, config)
				for range 2 {
					d := l.Allow(tt.r)
					results := d.Results()
					last := results[len(results)-1]
					check.Equal(t, "decided", outcomeOf(d), outcome{true, core.ReasonShadowed})
					check.Equal(t, "results", len(results), len(tt.limits))
					check.All(t, "the last result", []any{last.Shadow, last.Allowed, last.Charged, last.Reason, last.Rule.Name}, true, false, false, tt.reason, "trial")
					for _, r := range results[:len(results)-1] {
						check.All(t, "the other result", []any{r.Rule.Name, r.Charged, r.Reason}, "all", true, core.ReasonUndecided)
					}
				}
			}
			var reasons []core.Reason // of what would be denied
			for i := range seen.decisions {
				for _, r := range seen.decisions[i].decision.Results() {
					if r.Shadow && !r.Allowed {
						reasons = append(reasons, r.Reason)
					}
				}
			}
			check.Slices(t, "what an observer saw", reasons, []core.Reason{tt.reason, tt.reason})
		})
	}
	l := newLimiter(t, core.Config{Store: core.NewMemory(), Limits: []core.Limit{core.PerHour(9).By(keyfuncs.User("tenant")).OnMissingKey(core.DenyRequest)}})
	if d := l.Allow(&request{}); d.Allowed || d.Results()[0].Reason != core.ReasonMissingKey {
		t.Errorf("enforced: %v, %+v", d.Reason, d.Results())
	}
}

func byTenant() core.Limit {
	return core.PerHour(2).By(keyfuncs.Header("X-Tenant")).Named("trial").OnMissingKey(core.DenyRequest).Shadow()
}
