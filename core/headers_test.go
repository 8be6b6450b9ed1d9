package core_test

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/storetest"
	"github.com/weblimit/weblimit/keyfuncs"
)

// fields are the names that a decision writes, as Go's http.Header keeps them.
var fields = [...]string{"Ratelimit-Policy", "Ratelimit", "Retry-After"}

// wantHeaders checks the exact bytes that a decision writes through each kind of
// Header; "" is a field that is not there.
func wantHeaders(t testing.TB, d *core.Decision, want ...string) {
	t.Helper()
	standard, direct := http.Header{}, http.Header{}
	d.SetHeaders(standard)
	d.SetHeaders(adapter.HeaderMap(direct))
	for kind, h := range map[string]http.Header{"http.Header": standard, "HeaderMap": direct} {
		wantFields(t, kind, h, want...)
	}
}

func wantFields(t testing.TB, kind string, h http.Header, want ...string) {
	t.Helper()
	lines := http.Header{}
	for i, name := range fields {
		if want[i] != "" {
			lines[name] = []string{want[i]}
		}
	}
	if !maps.EqualFunc(h, lines, slices.Equal) {
		t.Errorf("%s: got\n\t%q, want\n\t%q", kind, h, lines)
	}
}

// The fields of the examples in draft-ietf-httpapi-ratelimit-headers-11.
func TestHeadersOfTheDraft(t *testing.T) {
	t.Parallel()
	store, _ := at()
	l := limiterOn(t, store,
		core.PerMinute(100).By(keyfuncs.Everyone()).Named("burst").Cost(50),
		core.PerDay(1000).By(keyfuncs.Everyone()).Named("daily").Cost(80))
	d := l.Allow(&request{})
	wantHeaders(t, &d, `"burst";q=100;w=60, "daily";q=1000;w=86400`, `"burst";r=50;t=30, "daily";r=920;t=79488`, "")
	l.Allow(&request{})
	d = l.Allow(&request{})
	wantHeaders(t, &d, `"burst";q=100;w=60, "daily";q=1000;w=86400`, `"burst";r=0;t=30, "daily";r=840;t=72576`, "30")
}

func TestPolicyField(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		limit core.Limit
		want  string
	}{
		{"a token bucket", core.PerMinute(300), `"default";q=300;w=60`},
		{"a bucket that holds more: q is the burst, w the time to fill it", core.PerSecond(60).Burst(120), `"default";q=120;w=2`},
		{"a bucket that holds less", core.PerMinute(60).Burst(5), `"default";q=5;w=5`},
		{"a bucket that fills in no whole number of seconds", core.PerSecond(60).Burst(100), `"default";q=100`},
		{"a bucket that fills in less than a second", core.PerSecond(60).Burst(59), `"default";q=59`},
		{"a bucket that fills in no whole number of microseconds", core.PerSecond(7).Burst(8), `"default";q=8`},
		{"a bucket that fills a tenth of a microsecond after the second", core.PerSecond(10_000_000).Burst(10_000_001), `"default";q=10000001`},
		{"a bucket that holds one", core.PerHour(3600).Burst(1), `"default";q=1;w=1`},
		{"a fixed window", core.PerDay(100_000).FixedWindow().Named("key-daily"), `"key-daily";q=100000;w=86400`},
		{"a sliding window", core.PerHour(7).SlidingWindow(), `"default";q=7;w=3600`},
		{"a sliding log", core.PerMinute(5).SlidingLog(), `"default";q=5;w=60`},
		{"requests at the same time, which have no window", core.Concurrent(10), `"default";q=10;qu="concurrent-requests"`},
		{"jitter does not show", core.PerMinute(5).FixedWindow().Jitter(), `"default";q=5;w=60`},
		{"the cost does not show", core.PerMinute(5).Cost(5), `"default";q=5;w=60`},
		{"a window of a second", core.PerSecond(1), `"default";q=1;w=1`},
		{"a window below a second", core.Per(5, 999*time.Millisecond), `"default";q=5`},
		{"a window of no whole number of seconds", core.Per(5, 1500*time.Millisecond).FixedWindow(), `"default";q=5`},
		{"a second and a microsecond", core.Per(5, time.Second+time.Microsecond).SlidingLog(), `"default";q=5`},
		{"a century", core.Per(5, century), `"default";q=5;w=3153600000`},
		{"the largest integer of a structured field", core.PerSecond(999_999_999_999_999), `"default";q=999999999999999;w=1`},
		{"a quota above it is clamped", core.PerSecond(1 << 51), `"default";q=999999999999999;w=1`},
		{"every character of a name", core.PerMinute(1).Named("AZaz09._-"), `"AZaz09._-";q=1;w=60`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{}
			d := decided(t, []core.Limit{tt.limit.By(keyfuncs.Everyone())}, core.Result{Allowed: true})
			d.SetHeaders(h)
			check.Slices(t, "policy", h["Ratelimit-Policy"], []string{tt.want})
		})
	}
}

func TestRateLimitAndRetryAfterFields(t *testing.T) {
	t.Parallel()
	const second = time.Second
	for _, tt := range []struct {
		name   string
		result core.Result
		limit  string
		retry  string
	}{
		{"allowed", core.Result{Allowed: true, Remaining: 50, Window: 30 * second}, `"a";r=50;t=30`, ""},
		{"a time is rounded up", core.Result{Allowed: true, Remaining: 50, Window: 29*second + 1}, `"a";r=50;t=30`, ""},
		{"a time is at least a second", core.Result{Allowed: true, Remaining: 50, Window: time.Microsecond}, `"a";r=50;t=1`, ""},
		{"also when there is nothing to wait for", core.Result{Allowed: true, Remaining: 50}, `"a";r=50;t=1`, ""},
		{"a time below zero is none", core.Result{Allowed: true, Remaining: 50, Window: -5 * second}, `"a";r=50;t=1`, ""},
		{"nothing remains and it is allowed", core.Result{Allowed: true, Window: 3 * second}, `"a";r=0;t=3`, ""},
		{"allowed never has Retry-After", core.Result{Allowed: true, Remaining: 1, RetryAfter: 9 * second, Window: second}, `"a";r=1;t=1`, ""},
		{"the longest time there is", core.Result{Allowed: true, Remaining: 1, Window: math.MaxInt64}, `"a";r=1;t=9223372037`, ""},
		{"the most that a structured field holds", core.Result{Allowed: true, Remaining: 999_999_999_999_999, Window: second}, `"a";r=999999999999999;t=1`, ""},
		{"more than that is clamped", core.Result{Allowed: true, Remaining: 1_000_000_000_000_000, Window: second}, `"a";r=999999999999999;t=1`, ""},
		{"far more than that is clamped", core.Result{Allowed: true, Remaining: math.MaxInt64, Window: second}, `"a";r=999999999999999;t=1`, ""},
		{"denied", core.Result{RetryAfter: 6 * second, Window: 6 * second}, `"a";r=0;t=6`, "6"},
		{"denied with units left, too few for the cost", core.Result{Remaining: 3, RetryAfter: 6 * second, Window: 6 * second}, `"a";r=3;t=6`, "6"},
		{"a wait is rounded up", core.Result{RetryAfter: 5*second + 1, Window: 5*second + 1}, `"a";r=0;t=6`, "6"},
		{"a wait is at least a second", core.Result{RetryAfter: 1, Window: 1}, `"a";r=0;t=1`, "1"},
		{"never possible: no wait helps", core.Result{Remaining: 10, Window: 60 * second}, `"a";r=10;t=60`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := decided(t, []core.Limit{everyone(10).Named("a")}, tt.result)
			wantHeaders(t, &d, `"a";q=10;w=3600`, tt.limit, tt.retry)
		})
	}
}

// Trap 16: for each algorithm, coming back after Retry-After seconds succeeds,
// and t is neither later than that nor zero.
func TestRetryAfterIsKept(t *testing.T) {
	t.Parallel()
	for algorithm, limit := range storetest.Algorithms(7, 45*time.Second+123*time.Millisecond) {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			store, clock := at()
			l := limiterOn(t, store, limit.By(keyfuncs.Everyone()).Cost(2))
			denials := 0
			for range 200 {
				clock.Advance(137 * time.Millisecond)
				d := l.Allow(&request{})
				h := http.Header{}
				d.SetHeaders(h)
				var name string
				var r, window, retry int64
				if n, err := fmt.Sscanf(h.Get("Ratelimit"), "%q;r=%d;t=%d", &name, &r, &window); n != 3 || err != nil {
					t.Fatalf("RateLimit reads %q", h.Get("Ratelimit"))
				}
				if r < 0 || r > 7 || window < 1 || window > 91 {
					t.Errorf("RateLimit reads %q", h.Get("Ratelimit"))
				}
				if d.Allowed {
					continue
				}
				denials++
				if _, err := fmt.Sscan(h.Get("Retry-After"), &retry); err != nil || retry < window {
					t.Fatalf("Retry-After reads %q beside %q", h.Get("Retry-After"), h.Get("Ratelimit"))
				}
				clock.Advance(time.Duration(retry) * time.Second)
				if d := l.Allow(&request{}); !d.Allowed {
					t.Errorf("after the %d seconds of Retry-After it is denied for %v more", retry, d.RetryAfter)
				}
			}
			if denials == 0 {
				t.Error("nothing was denied")
			}
		})
	}
}

// Retry-After is the longest wait of the limits that deny, and of no other.
func TestRetryAfterOfSeveralLimits(t *testing.T) {
	t.Parallel()
	a, b, c := everyone(10).Named("a"), everyone(10).Named("b"), everyone(10).Named("c")
	wait := func(d time.Duration) core.Result { return core.Result{RetryAfter: d, Window: d} }
	idle := core.Result{Allowed: true, Remaining: 4, Window: 900 * time.Second}
	const policy = `"a";q=10;w=3600, "b";q=10;w=3600, "c";q=10;w=3600`

	d := decided(t, []core.Limit{a, b, c}, wait(2*time.Second), idle, wait(7500*time.Millisecond))
	wantHeaders(t, &d, policy, `"a";r=0;t=2, "b";r=4;t=900, "c";r=0;t=8`, "8")

	never := core.Result{Remaining: 9, Window: 3240 * time.Second}
	d = decided(t, []core.Limit{a, b, c}, wait(2*time.Second), never, wait(7*time.Second))
	wantHeaders(t, &d, policy, `"a";r=0;t=2, "b";r=9;t=3240, "c";r=0;t=7`, "")
}

// An app may overrule a denial: then there is nothing to retry.
func TestRetryAfterOfADenialThatIsOverruled(t *testing.T) {
	t.Parallel()
	d := decided(t, []core.Limit{everyone(5)}, core.Result{RetryAfter: 9 * time.Second, Window: 9 * time.Second})
	d.Allowed = true
	wantHeaders(t, &d, `"default";q=5;w=3600`, `"default";r=0;t=9`, "")
}

// Trap 43: two limiters of one route neither overwrite each other nor double
// what they say.
func TestTwoLimitersOfOneResponse(t *testing.T) {
	t.Parallel()
	one := core.Result{Allowed: true, Remaining: 1, Window: time.Second}
	wait := func(d time.Duration) core.Result { return core.Result{RetryAfter: d, Window: d} }
	outer := func(r core.Result) core.Decision { return decided(t, []core.Limit{everyone(5).Named("outer")}, r) }
	inner := func(r core.Result) core.Decision {
		return decided(t, []core.Limit{everyone(6).Named("inner"), everyone(7).Named("last")}, r, one)
	}
	const policy = `"outer";q=5;w=3600, "inner";q=6;w=3600, "last";q=7;w=3600`
	down := limiterOn(t, newFlaky(true), everyone(8).Named("down").OnOutage(core.Deny)).Allow(&request{})
	for _, tt := range []struct {
		name          string
		first, second core.Decision
		want          [3]string
	}{
		{"both allow", outer(one), inner(one), [3]string{policy, `"outer";r=1;t=1, "inner";r=1;t=1, "last";r=1;t=1`, ""}},
		{"the second denies", outer(one), inner(wait(9 * time.Second)), [3]string{policy, `"outer";r=1;t=1, "inner";r=0;t=9, "last";r=1;t=1`, "9"}},
		{"both deny, the second for longer", outer(wait(9 * time.Second)), inner(wait(10 * time.Second)), [3]string{policy, `"outer";r=0;t=9, "inner";r=0;t=10, "last";r=1;t=1`, "10"}},
		{"both deny, the first for longer", outer(wait(10 * time.Second)), inner(wait(9 * time.Second)), [3]string{policy, `"outer";r=0;t=10, "inner";r=0;t=9, "last";r=1;t=1`, "10"}},
		{"both deny, alike", outer(wait(9 * time.Second)), inner(wait(9 * time.Second)), [3]string{policy, `"outer";r=0;t=9, "inner";r=0;t=9, "last";r=1;t=1`, "9"}},
		{"the second is out and asked no limit", outer(one), down, [3]string{`"outer";q=5;w=3600, "down";q=8;w=3600`, `"outer";r=1;t=1`, "1"}},
		{"the first is out and asked no limit", down, outer(one), [3]string{`"down";q=8;w=3600, "outer";q=5;w=3600`, `"outer";r=1;t=1`, "1"}},
		{"the first decided nothing", core.Decision{}, outer(one), [3]string{`"outer";q=5;w=3600`, `"outer";r=1;t=1`, ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for kind, set := range map[string][2]func(http.Header) core.Header{
				"HeaderMap twice":              {asMap, asMap},
				"http.Header twice":            {asHeader, asHeader},
				"HeaderMap, then http.Header":  {asMap, asHeader},
				"http.Header, then HeaderMap":  {asHeader, asMap},
				"a Header of its own kind too": {asOther, asOther},
			} {
				h := http.Header{}
				tt.first.SetHeaders(set[0](h))
				tt.second.SetHeaders(set[1](h))
				wantFields(t, kind, h, tt.want[:]...)
			}
		})
	}
}

// Others may have written several lines: none is lost.
func TestMembersOfSeveralLinesAreKept(t *testing.T) {
	t.Parallel()
	d := decided(t, []core.Limit{everyone(5).Named("c")}, core.Result{Allowed: true, Remaining: 1, Window: time.Second})
	for kind, as := range map[string]func(http.Header) core.Header{"HeaderMap": asMap, "http.Header": asHeader} {
		h := http.Header{"Ratelimit": {`"a";r=1;t=1`, `"b";r=2;t=2`}}
		d.SetHeaders(as(h))
		wantFields(t, kind, h, `"c";q=5;w=3600`, `"a";r=1;t=1, "b";r=2;t=2, "c";r=1;t=1`, "")
	}
}

func asMap(h http.Header) core.Header    { return adapter.HeaderMap(h) }
func asHeader(h http.Header) core.Header { return h }
func asOther(h http.Header) core.Header  { return other{h} }

// other is a Header that core knows nothing of, such as a framework's.
type other struct{ h http.Header }

func (o other) Get(name string) string { return o.h.Get(name) }
func (o other) Set(name, value string) { o.h.Set(name, value) }

// A Retry-After that no limiter wrote gives way, or stays if it is longer.
func TestRetryAfterOfOthers(t *testing.T) {
	t.Parallel()
	d := decided(t, []core.Limit{everyone(5)}, core.Result{RetryAfter: 9 * time.Second})
	for before, want := range map[string]string{
		"":                              "9",
		"3":                             "9",
		"120":                           "120",
		"-1":                            "9",
		"soon":                          "9",
		"Wed, 21 Oct 2026 07:28:00 GMT": "9",
	} {
		h := http.Header{"Retry-After": {before}}
		d.SetHeaders(h)
		check.Equal(t, fmt.Sprintf("Retry-After after %q", before), h.Get("Retry-After"), want)
	}
}

// The policy is the same on every response, so all share one slice of it: what
// one response does with its headers must not show in the next.
func TestPolicyIsSharedAndNeverChanged(t *testing.T) {
	t.Parallel()
	store, _ := at()
	l, second := limiterOn(t, store, everyone(100).Named("a")), limiterOn(t, store, everyone(100).Named("b"))
	const want = `"a";q=100;w=3600`
	meddle := map[string]func(h http.Header){
		"append": func(h http.Header) { h["Ratelimit-Policy"] = append(h["Ratelimit-Policy"], `"x";q=1`) },
		"append and set": func(h http.Header) {
			policy := h["Ratelimit-Policy"]
			policy = append(policy, "x")
			policy[0] = `"x";q=1`
			h["Ratelimit-Policy"] = policy
		},
		"Add": func(h http.Header) { h.Add("RateLimit-Policy", `"x";q=1`) },
		"Set": func(h http.Header) { h.Set("RateLimit-Policy", `"x";q=1`) },
		"Del": func(h http.Header) { h.Del("RateLimit-Policy") },
		"a second limiter": func(h http.Header) {
			d := second.Allow(&request{})
			d.SetHeaders(adapter.HeaderMap(h))
			d.SetHeaders(h)
		},
	}
	for name, run := range meddle {
		d := l.Allow(&request{})
		h := http.Header{}
		d.SetHeaders(adapter.HeaderMap(h))
		policy := h["Ratelimit-Policy"]
		check.Equal(t, "length and capacity of the shared slice", [2]int{len(policy), cap(policy)}, [2]int{1, 1})
		run(h)
		next := http.Header{}
		d.SetHeaders(adapter.HeaderMap(next))
		if got := next["Ratelimit-Policy"]; !slices.Equal(got, []string{want}) {
			t.Fatalf("%s: the next response has the policy %q, want %s", name, got, want)
		}
	}
}

// HeaderMap is for maps with canonical keys, such as http.Header.
func TestHeaderMap(t *testing.T) {
	t.Parallel()
	h := adapter.HeaderMap{"Retry-After": {}, "Ratelimit": {"1", "2"}}
	check.Equal(t, "a header without lines", h.Get("Retry-After"), "")
	check.Equal(t, "a header that is not there", h.Get("Ratelimit-Policy"), "")
	check.Equal(t, "a header of two lines", h.Get("Ratelimit"), "1")
	h.Set("Ratelimit", "3")
	check.Slices(t, "the lines after Set", h["Ratelimit"], []string{"3"})
}
