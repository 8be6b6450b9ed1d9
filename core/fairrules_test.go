package core_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// byClient tells clients apart by a header, as a service does that has checked it.
var byClient = keyfuncs.Header("X-Client")

// client is a request of a client.
func client(name string) *request { return &request{headers: map[string]string{"X-Client": name}} }

// divided is a limit of 100 units an hour for all, which clients divide.
func divided() core.Limit { return everyone(100).Fair(core.Shares{By: byClient}) }

func TestWrongFairness(t *testing.T) {
	t.Parallel()
	of := func(keyfuncs.Request) core.Share { return core.Share{} }
	shares := core.Shares{By: byClient}
	for want, limit := range map[string]core.Limit{
		"Fair: By: ":                  everyone(10).Fair(core.Shares{}),
		"Fair: Within: ":              everyone(10).Fair(core.Shares{By: byClient, Within: keyfuncs.Header("")}),
		"Guaranteed must be at least": everyone(10).Fair(core.Shares{By: byClient, Of: of, Guaranteed: -1}),
		"Guaranteed without Of":       everyone(10).Fair(core.Shares{By: byClient, Guaranteed: 1}),
		"below the burst of 10":       everyone(10).Fair(core.Shares{By: byClient, Of: of, Guaranteed: 10}),
		"Fair and Tiers":              everyone(10).Fair(shares).Tiers(func(keyfuncs.Request) core.Limit { return core.PerHour(20) }),
		"Fair and Penalty":            everyone(10).Fair(shares).Penalty(core.Block{After: 1, Within: time.Hour, For: time.Hour}),
		"alternative of First":        core.First(everyone(10).Named("a").Fair(shares), everyone(10).Named("b")),
		"combined with WarnAt":        everyone(10).Fair(shares).WarnAt(0.8),
		"WarnAt, Soft":                everyone(10).Fair(shares).Soft(5),
		"WarnAt, Soft and SlowDown":   everyone(10).Fair(shares).SlowDown(0.5, time.Second),
		"not a fixed window":          everyone(10).FixedWindow().Fair(shares),
		"not a sliding window":        everyone(10).SlidingWindow().Fair(shares),
		"burst 3 is too small":        everyone(10).Burst(3).Fair(shares),
		"whole milliseconds":          core.Per(10, 1500*time.Microsecond).By(keyfuncs.Everyone()).Fair(shares),
		"too large to be divided":     core.PerHour(1 << 45).By(keyfuncs.Everyone()).Fair(shares),
		"add Wait":                    core.Concurrent(10).By(keyfuncs.Everyone()).Fair(shares),
		"nothing is guaranteed":       core.Concurrent(10).By(keyfuncs.Everyone()).Wait(time.Second).Fair(core.Shares{By: byClient, Of: of, Guaranteed: 2}),
		"not a calendar window":       core.PerMonth(10, time.UTC).By(keyfuncs.Everyone()).Fair(shares),
		"burst 1 is too small to be":  everyone(10).LeakyBucket(time.Second).Fair(shares),
	} {
		_, err := core.New(core.Config{Store: core.NewMemory(), Limits: []core.Limit{limit}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error that says %q", err, want)
		}
	}
	if _, err := core.New(core.Config{Store: inRegion(t, core.NewMemory()), Limits: []core.Limit{divided()}}); err == nil {
		t.Error("a limit that clients divide can be leased")
	}
}

// What a function of the application says of a client is checked for each request.
func TestWrongSharesAreDenied(t *testing.T) {
	t.Parallel()
	var share core.Share
	l := limiterAt(t, everyone(100).Fair(core.Shares{By: byClient, Guaranteed: 20, Of: func(keyfuncs.Request) core.Share { return share }}))
	for _, share = range []core.Share{{Weight: -1}, {Weight: store.MaxWeight + 1}, {Minimum: -1}, {Minimum: 21}, {Maximum: -1}, {Maximum: 1 << 41}, {Minimum: 10, Maximum: 9}} {
		wantDecision(t, fmt.Sprint(share), l.Allow(client("a")), false, core.ReasonInvalidCost, 0)
	}
	for _, share = range []core.Share{{}, {Weight: store.MaxWeight}, {Minimum: 20}, {Maximum: 90}} {
		check.Equal(t, fmt.Sprint(share), l.Allow(client("a")).Allowed, true)
	}
}

func TestClientsWithoutOrWithTwoKeys(t *testing.T) {
	t.Parallel()
	l := limiterAt(t, everyone(100).Fair(core.Shares{By: byClient, Within: keyfuncs.Header("X-User")}))
	check.Equal(t, "no client", l.Allow(&request{}).Allowed, true)
	for header, want := range map[string]string{"X-Client": "X-Client header", "X-User": "X-User header"} {
		d := l.Allow(twice(header))
		check.All(t, "two of "+header, []any{d.Reason, d.Ambiguous()}, core.ReasonAmbiguousKey, want)
	}
	ofPlan := limiterAt(t, everyone(100).Fair(core.Shares{By: byClient, Of: func(r keyfuncs.Request) core.Share {
		keyfuncs.HeaderOf(r, "X-Plan")
		return core.Share{}
	}}))
	d := ofPlan.Allow(twice("X-Plan"))
	check.All(t, "two plans", []any{d.Reason, d.Ambiguous()}, core.ReasonAmbiguousKey, "X-Plan header")
}

// squeezed has one client ask until it is denied, after another one has asked once. It returns how often it was allowed and
// the denial. The other one is not denied then.
func squeezed(t *testing.T, what string, ask func(name string) core.Decision) (granted int, denial core.Decision) {
	t.Helper()
	wantAllowed(t, what+": the light one", ask("light"))
	for denial = ask("heavy"); denial.Allowed; denial = ask("heavy") {
		if granted++; granted > 1000 {
			t.Fatalf("%s: the heavy client is never denied", what)
		}
	}
	for range 5 {
		wantAllowed(t, what+": the light one, after a denial of the heavy one", ask("light"))
	}
	return granted, denial
}

func TestFairWithOtherDecorators(t *testing.T) {
	t.Parallel()
	posts := keyfuncs.Methods("POST")
	for name, tt := range map[string]struct {
		limit core.Limit
		least int // granted to the heavy client
		most  int
	}{
		"alone":      {divided(), 60, 80},
		"scaled":     {divided().Scale(half), 30, 40},
		"cost":       {divided().Cost(2), 30, 40},
		"cost by":    {divided().CostBy(func(keyfuncs.Request) int64 { return 2 }), 30, 40},
		"estimate":   {divided().Estimate(2), 30, 40},
		"once":       {divided().OncePer(keyfuncs.Header("Idempotency-Key"), time.Hour), 60, 80},
		"hidden":     {divided().Hidden(), 60, 80},
		"keep free":  {divided().KeepFree(0.1, posts), 55, 75},
		"refund":     {divided().RefundOn(core.ServerErrors), 60, 80},
		"users":      {everyone(100).Fair(core.Shares{By: byClient, Within: keyfuncs.Header("X-User")}), 60, 80},
		"per route":  {core.PerHour(100).By(keyfuncs.Route()).Fair(core.Shares{By: byClient}), 60, 80},
		"guaranteed": {everyone(100).Fair(core.Shares{By: byClient, Guaranteed: 20, Of: func(keyfuncs.Request) core.Share { return core.Share{} }}), 40, 70},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := limiterAt(t, tt.limit)
			granted, d := squeezed(t, name, func(name string) core.Decision { return l.Allow(client(name)) })
			b, _ := d.Binding()
			if granted < tt.least || granted > tt.most {
				t.Errorf("%s: the heavy client was granted %d requests, want %d to %d", name, granted, tt.least, tt.most)
			}
			check.All(t, name+": the denial", []any{b.Standing, d.Reason, d.RetryAfter > 0}, store.OverShare, core.ReasonLimitExceeded, true)
		})
	}
}

func TestFairInShadowModeDeniesNobody(t *testing.T) {
	t.Parallel()
	l := limiterAt(t, divided().Shadow())
	l.Allow(client("light"))
	var d core.Decision
	for range 120 {
		d = l.Allow(client("heavy"))
	}
	check.All(t, "the last", []any{d.Allowed, d.Reason, d.Results()[0].Standing}, true, core.ReasonShadowed, store.OverShare)
}

func TestMinimumAndMaximumOfAClient(t *testing.T) {
	t.Parallel()
	l := limiterAt(t, everyone(100).Fair(core.Shares{By: byClient, Guaranteed: 20, Of: func(r keyfuncs.Request) core.Share {
		switch keyfuncs.HeaderOf(r, "X-Client") {
		case "minimum":
			return core.Share{Minimum: 20}
		case "maximum":
			return core.Share{Maximum: 5}
		}
		return core.Share{}
	}}))
	for range 5 {
		wantAllowed(t, "of five", l.Allow(client("maximum")))
	}
	d := l.Allow(client("maximum"))
	check.All(t, "the sixth", []any{d.Reason, d.Results()[0].Standing, d.Results()[0].Remaining}, core.ReasonLimitExceeded, store.OverMaximum, 0)
	useUp(l, "a", "b")
	for range 19 { // the last is there a moment later: a minimum is exact to a tick
		d := l.Allow(client("minimum"))
		check.All(t, "of the minimum", []any{d.Allowed, d.Results()[0].Standing}, true, store.OfMinimum)
	}
	check.Equal(t, "beyond it", l.Allow(client("minimum")).Allowed, false)
}

// A share is given back with the units: a client whose requests fail can go on.
func TestFairRefundsTheShare(t *testing.T) {
	t.Parallel()
	l := limiterAt(t, divided().RefundOn(core.ServerErrors))
	_, d := squeezed(t, "refunds", func(name string) core.Decision { return l.Allow(client(name)) })
	share := d.Results()[0].Share
	l = limiterAt(t, divided().RefundOn(core.ServerErrors))
	l.Allow(client("light"))
	for range 300 {
		d := l.Allow(client("heavy"))
		wantAllowed(t, "a request that fails", d)
		d.Settle(core.Outcome{Status: 500})
		must.OK(t, l.Drain(t.Context()))
	}
	if share < 40 || share > 50 {
		t.Errorf("the share of one of two is %d of 100", share)
	}
}

func TestFairEstimatesAreCorrected(t *testing.T) {
	t.Parallel()
	l := limiterAt(t, divided().Estimate(1))
	l.Allow(client("light"))
	d := l.Allow(client("heavy"))
	must.OK(t, core.Spend(inHandler(t.Context(), d), 90))
	d.Settle(core.Outcome{Status: 200})
	must.OK(t, l.Drain(t.Context()))
	d = l.Allow(client("heavy"))
	check.All(t, "after 90 of 100", []any{d.Allowed, d.Results()[0].Standing}, false, store.OverShare)
	wantAllowed(t, "the light one", l.Allow(client("light")))
}

func TestFairByKeyAndInBatches(t *testing.T) {
	t.Parallel()
	l := limiterAt(t, divided())
	d := l.AllowKey(t.Context(), "key", 100)
	check.All(t, "a key that nobody divides", []any{d.Allowed, d.Results()[0].Standing, d.Results()[0].Share}, true, store.Undivided, 0)
	l.Allow(client("light"))
	granted, d := l.AllowAtMost(client("heavy"), 500)
	if granted < 40 || granted > 80 || d.RetryAfter == 0 {
		t.Errorf("%d of a batch of 500 were granted, retry after %v, want the heavy client's part of 100", granted, d.RetryAfter)
	}
	wantAllowed(t, "the light one", l.Allow(client("light")))
	p := must.Get(l.PeekRequest(client("heavy"), 1))(t)
	check.All(t, "a look", []any{p.Allowed, p.Results()[0].Standing}, false, store.OverShare)
}

func TestFairInAnOutage(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, core.Config{Store: newFlaky(true), Replicas: 2, Limits: []core.Limit{divided()}})
	granted, d := squeezed(t, "half of the limit", func(name string) core.Decision { return l.Allow(client(name)) })
	if granted < 30 || granted > 40 || d.Reason != core.ReasonOutageLocal {
		t.Errorf("a heavy client was granted %d of 50, then %v", granted, d.Reason)
	}
	fallback := newLimiter(t, core.Config{Store: newFlaky(true), Limits: []core.Limit{everyone(1000)}, Fallback: core.Fallback{Limits: []core.Limit{divided().Named("fallback")}}})
	if granted, _ := squeezed(t, "a limit of the fallback", func(name string) core.Decision { return fallback.Allow(client(name)) }); granted < 60 || granted > 80 {
		t.Errorf("under a fallback a heavy client was granted %d of 100", granted)
	}
}

func TestFairInRegions(t *testing.T) {
	t.Parallel()
	for _, mode := range []core.RegionMode{core.AtHome, core.InEachRegion} {
		l := limiterOn(t, inRegion(t, core.NewMemory()), divided().Regions(mode))
		granted, _ := squeezed(t, fmt.Sprint(mode), func(name string) core.Decision { return l.Allow(client(name)) })
		if granted < 60 || granted > 80 {
			t.Errorf("%v: a heavy client was granted %d of 100", mode, granted)
		}
	}
}

// What clients, logs and observers are told of a share.
func TestWhatIsToldOfAShare(t *testing.T) {
	t.Parallel()
	seen := new(requestObserver)
	at, _ := at()
	l := newLimiter(t, core.Config{Store: at, Limits: []core.Limit{divided()}, Observe: seen})
	_, d := squeezed(t, "told", func(name string) core.Decision { return l.Allow(client(name)) })
	h := told(d)
	check.All(t, "headers", []any{h.Get("RateLimit-Policy"), h.Get("RateLimit") != "", h.Get("Retry-After") != ""}, `"default";q=100;w=3600`, true, true)
	body, _ := d.AppendProblem(nil, "")
	if !strings.Contains(string(body), "You have used your share of what is available now.") {
		t.Errorf("the body is %s", body)
	}
	if text := d.LogValue().String(); !strings.Contains(text, "over share") {
		t.Errorf("the log has %s", text)
	}
	check.Equal(t, "the key that observers are told", seen.key, "header.x-client:light")
	hidden := limiterAt(t, divided().Hidden())
	_, d = squeezed(t, "hidden", func(name string) core.Decision { return hidden.Allow(client(name)) })
	if body, _ := d.AppendProblem(nil, ""); strings.Contains(string(body), "share") {
		t.Errorf("of a hidden limit the body says %s", body)
	}
}

// Two limits that share a name divide it among the same clients.
func TestFairLimitsOfOneName(t *testing.T) {
	t.Parallel()
	memory := core.NewMemory()
	limiterOn(t, memory, divided().Named("capacity"))
	limiterOn(t, memory, divided().Named("capacity"))
	other := everyone(100).Fair(core.Shares{By: keyfuncs.User("user")}).Named("capacity")
	if _, err := core.New(core.Config{Store: memory, Limits: []core.Limit{other}}); err == nil {
		t.Error("one limit is divided among clients of two kinds")
	}
	if _, err := core.New(core.Config{Store: memory, Limits: []core.Limit{everyone(100).Named("capacity")}}); err == nil {
		t.Error("one limit is divided by one limiter, and not by another")
	}
}

// Where shares only say who of those who wait is next, observers are told the client, too.
func TestTheClientOfAConcurrencyLimitIsObserved(t *testing.T) {
	t.Parallel()
	seen := new(requestObserver)
	l := newLimiter(t, core.Config{Store: core.NewMemory(), Observe: seen, Limits: []core.Limit{
		core.Concurrent(2).By(keyfuncs.Everyone()).Wait(time.Second).Fair(core.Shares{By: byClient}),
	}})
	d := l.Allow(client("a"))
	check.All(t, "the key", []any{d.Allowed, seen.key}, true, "header.x-client:a")
	d.Settle(core.Outcome{})
}
