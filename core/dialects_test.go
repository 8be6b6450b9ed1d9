package core_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// dialects are all dialects, by what the documentation calls them.
var dialects = func() map[string]core.Headers {
	all := map[string]core.Headers{}
	for bit := core.Headers(1); bit&core.AllHeaders != 0; bit <<= 1 {
		all[bit.String()] = bit
	}
	return all
}()

// monthly is a limit of which all dialects tell.
func monthly(n int64) core.Limit { return core.PerMonth(n, time.UTC).By(keyfuncs.Everyone()) }

// decidedIn is decided, by a limiter of these dialects.
func decidedIn(t testing.TB, config core.Config, results ...core.Result) core.Decision {
	t.Helper()
	config.Store = newScripted(results...)
	return newLimiter(t, config).AllowKey(t.Context(), "k", 1)
}

// lines is a header of single lines, with canonical names.
func lines(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

func wantTold(t testing.TB, what string, d core.Decision, want http.Header) {
	t.Helper()
	for kind, as := range map[string]func(http.Header) core.Header{"HeaderMap": asMap, "http.Header": asHeader, "another": asOther} {
		h := http.Header{}
		d.SetHeaders(as(h))
		if !maps.EqualFunc(h, want, slices.Equal) {
			t.Errorf("%s, through %s: got\n\t%q, want\n\t%q", what, kind, h, want)
		}
	}
}

func TestDialects(t *testing.T) {
	t.Parallel()
	const when = 1_700_000_000_000_000 // in microseconds
	limits := []core.Limit{
		core.PerDay(5000).By(keyfuncs.Everyone()).Named("daily"),
		core.PerMinute(50).Burst(100).By(keyfuncs.Everyone()).Named("burst"),
	}
	results := []core.Result{
		{Allowed: true, Remaining: 900, Window: 15552 * time.Second, ResetAfter: 70848 * time.Second, At: when},
		{Allowed: true, Remaining: 50, Window: 30 * time.Second, ResetAfter: 4500 * time.Millisecond, At: when + 700_000},
	}
	const policy, limit = `"daily";q=5000;w=86400, "burst";q=100;w=120`, `"daily";r=900;t=15552, "burst";r=50;t=30`
	shown := core.XQuota // by TestQuotaFields
	defer func() { check.Equal(t, "dialects with a row here", shown, core.AllHeaders) }()
	for _, tt := range []struct {
		name     string
		dialects core.Headers
		want     http.Header
	}{
		{"by default, draft-11", 0, lines("RateLimit-Policy", policy, "RateLimit", limit)},
		{"draft-11", core.Draft11, lines("RateLimit-Policy", policy, "RateLimit", limit)},
		{"draft-07", core.Draft07, lines("RateLimit-Policy", "100;w=120", "RateLimit", "limit=100, remaining=50, reset=5")},
		{"draft-03", core.Draft03, lines("RateLimit-Limit", "100;w=120", "RateLimit-Remaining", "50", "RateLimit-Reset", "5")},
		{"X-RateLimit, whose reset is a time", core.XRateLimit, lines("X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "50", "X-RateLimit-Reset", "1700000006")}, // of 5.2 s, up
		{"X-RateLimit, whose reset is a wait", core.XRateLimitDelta, lines("X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "50", "X-RateLimit-Reset", "5")},
		{"draft-11 and X-RateLimit", core.Draft11 | core.XRateLimit, lines("RateLimit-Policy", policy, "RateLimit", limit, "X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "50", "X-RateLimit-Reset", "1700000006")},
		{"draft-11, draft-03 and X-RateLimit", core.Draft11 | core.Draft03 | core.XRateLimitDelta, lines("RateLimit-Policy", policy, "RateLimit", limit, "RateLimit-Limit", "100;w=120", "RateLimit-Remaining", "50", "RateLimit-Reset", "5", "X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "50", "X-RateLimit-Reset", "5")},
		{"draft-07, draft-03 and X-RateLimit", core.Draft07 | core.Draft03 | core.XRateLimit, lines("RateLimit-Policy", "100;w=120", "RateLimit", "limit=100, remaining=50, reset=5", "RateLimit-Limit", "100;w=120", "RateLimit-Remaining", "50", "RateLimit-Reset", "5", "X-RateLimit-Limit", "100", "X-RateLimit-Remaining", "50", "X-RateLimit-Reset", "1700000006")},
	} {
		shown |= tt.dialects
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := decidedIn(t, core.Config{Limits: limits, Headers: tt.dialects}, results...)
			wantTold(t, tt.name, d, tt.want)
		})
	}
}

func TestDialectsOfDenialsAndOddLimits(t *testing.T) {
	t.Parallel()
	const all = core.Draft07 | core.Draft03 | core.XRateLimitDelta
	for _, tt := range []struct {
		name   string
		limit  core.Limit
		result core.Result
		want   http.Header
	}{
		{
			"a denial", everyone(10),
			core.Result{Remaining: 3, RetryAfter: 6 * time.Second, Window: 6 * time.Second, ResetAfter: 90 * time.Second},
			lines("RateLimit-Policy", "10;w=3600", "RateLimit", "limit=10, remaining=3, reset=90", "RateLimit-Limit", "10;w=3600", "RateLimit-Remaining", "3", "RateLimit-Reset", "90", "X-RateLimit-Limit", "10", "X-RateLimit-Remaining", "3", "X-RateLimit-Reset", "90", "Retry-After", "6"),
		},
		{
			"a window below a second", core.Per(10, 500*time.Millisecond).By(keyfuncs.Everyone()),
			core.Result{Allowed: true, Remaining: 9, ResetAfter: 50 * time.Millisecond},
			lines("RateLimit-Policy", "10", "RateLimit", "limit=10, remaining=9, reset=1", "RateLimit-Limit", "10", "RateLimit-Remaining", "9", "RateLimit-Reset", "1", "X-RateLimit-Limit", "10", "X-RateLimit-Remaining", "9", "X-RateLimit-Reset", "1"),
		},
		{
			"nothing used", everyone(10),
			core.Result{Allowed: true, Remaining: 10},
			lines("RateLimit-Policy", "10;w=3600", "RateLimit", "limit=10, remaining=10, reset=0", "RateLimit-Limit", "10;w=3600", "RateLimit-Remaining", "10", "RateLimit-Reset", "0", "X-RateLimit-Limit", "10", "X-RateLimit-Remaining", "10", "X-RateLimit-Reset", "0"),
		},
		{
			"less than nothing left", everyone(10),
			core.Result{Allowed: true, Remaining: -5, ResetAfter: -time.Second},
			lines("RateLimit-Policy", "10;w=3600", "RateLimit", "limit=10, remaining=0, reset=0", "RateLimit-Limit", "10;w=3600", "RateLimit-Remaining", "0", "RateLimit-Reset", "0", "X-RateLimit-Limit", "10", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "0"),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := decidedIn(t, core.Config{Limits: []core.Limit{tt.limit}, Headers: all}, tt.result)
			wantTold(t, tt.name, d, tt.want)
		})
	}
}

// The time of X-RateLimit-Reset is by the clock that decided, which is Redis's
// and not this process's: a client that waits until then finds its limit whole.
func TestResetIsATimeOfTheStoresClock(t *testing.T) {
	t.Parallel()
	store, clock := at()
	start := time.Date(2031, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	clock.Set(start)
	l := newLimiter(t, core.Config{Store: store, Headers: core.XRateLimit, Limits: []core.Limit{
		core.PerHour(60).By(keyfuncs.Everyone()).Cost(2), // that come back in two minutes
	}})
	for i, wait := range []time.Duration{2 * time.Minute, 4 * time.Minute} {
		h := told(l.Allow(&request{}))
		check.Equal(t, fmt.Sprintf("request %d: reset", i+1), h.Get("X-RateLimit-Reset"), fmt.Sprint(start.Add(wait).Unix()+1))
	}
}

// Trap 43: fields for one limit keep the tighter one of two limiters.
func TestTwoLimitersOfOneDialect(t *testing.T) {
	t.Parallel()
	decide := func(t *testing.T, dialect core.Headers, n, left int64) core.Decision {
		return decidedIn(t, core.Config{Headers: dialect, Limits: []core.Limit{monthly(n)}}, core.Result{Allowed: true, Remaining: left, ResetAfter: time.Duration(n) * time.Second})
	}
	for name, dialect := range dialects {
		if dialect == core.Draft11 {
			continue // its members are added: TestTwoLimitersOfOneResponse
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tight, loose, equal := decide(t, dialect, 10, 2), decide(t, dialect, 1000, 3), decide(t, dialect, 20, 2)
			for order, ds := range map[string][]core.Decision{
				"the tighter first":       {tight, loose},
				"the tighter last":        {loose, tight},
				"the tighter in between":  {loose, tight, loose},
				"the first of two equals": {tight, equal},
				"twice the same":          {tight, tight},
			} {
				for kind, as := range map[string]func(http.Header) core.Header{"HeaderMap": asMap, "http.Header": asHeader} {
					h := http.Header{}
					for _, d := range ds {
						d.SetHeaders(as(h))
					}
					if want := told(tight); !maps.EqualFunc(h, want, slices.Equal) {
						t.Errorf("%s, %s: got %q, want %q", order, kind, h, want)
					}
				}
			}
			h := http.Header{}
			for name := range told(tight) {
				h.Set(name, "what is none")
			}
			tight.SetHeaders(h)
			if want := told(tight); !maps.EqualFunc(h, want, slices.Equal) {
				t.Errorf("after garbage: got %q, want %q", h, want)
			}
		})
	}
}

// Without a limit that was asked there are no headers.
func TestDialectsDuringAnOutage(t *testing.T) {
	t.Parallel()
	for name, dialect := range dialects {
		if dialect == core.Draft11 {
			continue // the policy stays: TestOutageHeaders
		}
		for policy, outage := range map[string]core.OutageAction{"Allow": core.Allow, "Deny": core.Deny} {
			l := newLimiter(t, core.Config{Store: newFlaky(true), Headers: dialect, Limits: []core.Limit{monthly(5).OnOutage(outage)}})
			want := http.Header{}
			if outage == core.Deny {
				want.Set("Retry-After", "1")
			}
			wantTold(t, name+" and "+policy, l.Allow(&request{}), want)
		}
	}
}

func TestHeadersWhen(t *testing.T) {
	t.Parallel()
	limits := []core.Limit{everyone(12).Named("api").WarnAt(0.5), everyone(100).Named("shadow").Shadow()}
	left := func(n int64) []core.Result {
		return []core.Result{{Allowed: true, Charged: true, Remaining: n, Window: time.Minute}, {Allowed: true, Remaining: 0}}
	}
	for _, tt := range []struct {
		name    string
		results []core.Result
		shows   map[core.HeadersWhen]bool
		warning bool
		retry   string
	}{
		{"far from the limit", left(9), map[core.HeadersWhen]bool{core.Always: true}, false, ""},
		{"at a warning level", left(5), map[core.HeadersWhen]bool{core.Always: true, core.NearLimit: true}, true, ""},
		{"with a fifth left", left(2), map[core.HeadersWhen]bool{core.Always: true, core.NearLimit: true}, true, ""},
		{"with nothing left", left(0), map[core.HeadersWhen]bool{core.Always: true, core.NearLimit: true}, true, ""},
		{"without a charge, with more than a fifth left", []core.Result{{Allowed: true, Remaining: 3}, {Allowed: true}}, map[core.HeadersWhen]bool{core.Always: true}, false, ""},
		{"without a charge, with a fifth left", []core.Result{{Allowed: true, Remaining: 2}, {Allowed: true}}, map[core.HeadersWhen]bool{core.Always: true, core.NearLimit: true}, false, ""},
		{"denied", []core.Result{{Remaining: 9, RetryAfter: 7 * time.Second}, {Allowed: true}}, map[core.HeadersWhen]bool{core.Always: true, core.NearLimit: true, core.OnDenial: true}, false, "7"},
		{"denied for ever", []core.Result{{Remaining: 9}, {Allowed: true}}, map[core.HeadersWhen]bool{core.Always: true, core.NearLimit: true, core.OnDenial: true}, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, when := range []core.HeadersWhen{core.Always, core.NearLimit, core.OnDenial, core.Never} {
				h := told(decidedIn(t, core.Config{Limits: limits, HeadersWhen: when, Headers: everyDialect}, tt.results...))
				for _, name := range []string{"RateLimit-Policy", "RateLimit", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
					check.Equal(t, fmt.Sprintf("HeadersWhen %d: %s is there", when, name), h.Get(name) != "", tt.shows[when])
				}
				check.Equal(t, fmt.Sprintf("HeadersWhen %d: Retry-After", when), h.Get("Retry-After"), tt.retry)
				check.Equal(t, fmt.Sprintf("HeadersWhen %d: the warning is there", when), h.Get("X-RateLimit-Warning") != "", tt.warning && tt.shows[when])
			}
		})
	}
}

// Two dialects that set the same header can't be combined.
func TestDialectsThatShareAHeaderExcludeEachOther(t *testing.T) {
	t.Parallel()
	sets := map[string]http.Header{}
	for name, dialect := range dialects {
		sets[name] = told(decidedIn(t, core.Config{Headers: dialect, Limits: []core.Limit{monthly(5)}}, core.Result{Allowed: true, Remaining: 4}))
		if len(sets[name]) == 0 {
			t.Errorf("%s sets no header", name)
		}
	}
	for one := range dialects {
		for other := range dialects {
			if one == other {
				continue
			}
			shared := ""
			for header := range sets[one] {
				if sets[other].Get(header) != "" {
					shared = header
				}
			}
			_, err := core.New(core.Config{Store: core.NewMemory(), Headers: dialects[one] | dialects[other], Limits: []core.Limit{everyone(5)}})
			check.Equal(t, fmt.Sprintf("New refuses %s and %s, which share %q", one, other, shared), err != nil, shared != "")
		}
	}
}

func TestExposeHeaders(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, dialect := range dialects {
		config := core.Config{Headers: dialect, Limits: []core.Limit{monthly(5).WarnAt(0.1)}}
		warned := decidedIn(t, config, core.Result{Allowed: true, Charged: true})
		denied := decidedIn(t, config, core.Result{RetryAfter: time.Second})
		unknown := newLimiter(t, core.Config{Store: core.NewMemory(), Limits: []core.Limit{core.PerHour(1).By(keyfuncs.APIKey()).OnMissingKey(core.DenyRequest)}}).Allow(&request{})
		for _, h := range []http.Header{told(warned), told(denied), told(unknown)} {
			for name := range h {
				seen[name] = true
			}
		}
	}
	exposed := map[string]bool{}
	for _, name := range core.ExposeHeaders() {
		if exposed[http.CanonicalHeaderKey(name)] {
			t.Errorf("%s is there twice", name)
		}
		exposed[http.CanonicalHeaderKey(name)] = true
	}
	if !maps.Equal(seen, exposed) {
		t.Errorf("set are %q, exposed %q", slices.Sorted(maps.Keys(seen)), slices.Sorted(maps.Keys(exposed)))
	}
	core.ExposeHeaders()[0] = "X-Other"
	if core.ExposeHeaders()[0] == "X-Other" {
		t.Error("what a caller does with the names changes them")
	}
}
