package core_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/race"
	"github.com/weblimit/weblimit/keyfuncs"
)

// The results of more than one limit are an allocation: a decision has room for
// one, since that is what most of them have and each request pays for more.
//
// Not under the race detector, which makes sync.Pool forget at random, and not
// parallel: testing.AllocsPerRun counts the allocations of the process.
func TestDecisionsInMemoryDoNotAllocate(t *testing.T) {
	race.Skip(t)
	ctx, r := context.Background(), user("alice")
	limits := []core.Limit{
		core.PerHour(1 << 40).By(keyfuncs.User("userID")),
		everyone(1 << 40).FixedWindow().Named("b"),
		everyone(1 << 30).SlidingWindow().Jitter().Named("c"),
		core.PerHour(1).By(keyfuncs.ClientIP()).Named("d"), // denies from the second request on
	}
	one, three := limits[:1], limits[1:]
	block := core.Block{After: 1, Within: time.Hour, For: time.Hour}
	var c adapter.Context
	room := make([]core.LimitResult, 3)
	for _, tt := range []struct {
		name   string
		limits []core.Limit
		want   float64
		run    func(l *core.Limiter, a *adapter.Limiter)
	}{
		{"a key of one limit", one, 0, func(l *core.Limiter, _ *adapter.Limiter) { l.AllowKey(ctx, "user:alice", 1) }},
		{"a key of three limits", three, 1, func(l *core.Limiter, _ *adapter.Limiter) { l.AllowKey(ctx, "user:alice", 1) }},
		{"a key that is hashed", one, 0, func(l *core.Limiter, _ *adapter.Limiter) { l.AllowKey(ctx, "{user}", 1) }},
		{"a key under a limit with a penalty", []core.Limit{one[0].Penalty(block)}, 0, func(l *core.Limiter, _ *adapter.Limiter) { l.AllowKey(ctx, "user:alice", 1) }},
		{"a key that is blocked", []core.Limit{limits[3].Penalty(block)}, 0, func(l *core.Limiter, _ *adapter.Limiter) { l.AllowKey(ctx, "user:alice", 1) }},
		{"a request of one limit", one, 0, func(l *core.Limiter, _ *adapter.Limiter) { l.Allow(r) }},
		{"a request of three limits", three, 1, func(l *core.Limiter, _ *adapter.Limiter) { l.Allow(r) }},
		{"a request of three limits, with room for their results", three, 0, func(_ *core.Limiter, a *adapter.Limiter) {
			c.Decision = core.Decision{}
			a.Decide(r, &c, room)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := limiterOn(t, core.NewMemory(), tt.limits...)
			a := adapter.New(l, "test")
			check.Equal(t, "allocations", testing.AllocsPerRun(200, func() { tt.run(l, a) }), tt.want)
		})
	}
}

// The text of the policy is shared. The slices of both fields are in the room, and so is the text of
// RateLimit unless it is a long one. Without room it is allocated.
func TestSetHeadersAllocatesAtMostOnce(t *testing.T) {
	race.Skip(t)
	gold := func(keyfuncs.Request) core.Limit { return core.PerMinute(1000) }
	for _, tt := range []struct {
		name   string
		limits []core.Limit
		want   float64
	}{
		{"one limit", []core.Limit{everyone(5)}, 0},
		{"a long one", []core.Limit{everyone(1 << 40).Named("a"), core.PerDay(1 << 40).By(keyfuncs.Everyone()).Named("b")}, 1},
		{"one limit of tiers", []core.Limit{everyone(5).Tiers(gold)}, 0},
	} {
		l := limiterOn(t, core.NewMemory(), tt.limits...)
		d := l.Allow(&request{})
		h, room := http.Header{}, new(adapter.HeaderRoom)
		allocs := testing.AllocsPerRun(200, func() {
			clear(h)
			adapter.SetHeaders(&d, adapter.HeaderMap(h), room)
		})
		without := testing.AllocsPerRun(200, func() {
			clear(h)
			d.SetHeaders(adapter.HeaderMap(h))
		})
		if allocs != tt.want || without != tt.want+1 {
			t.Errorf("%s: %v allocations, want %v, and %v without room", tt.name, allocs, tt.want, without)
		}
	}
}

// XQuota costs no more than XRateLimit does, and nothing where it is not asked for or where
// there is no calendar limit.
func TestQuotaFieldsAllocateAsOthers(t *testing.T) {
	race.Skip(t)
	allocations := func(headers core.Headers, limit core.Limit) float64 {
		l := newLimiter(t, core.Config{Store: core.NewMemory(), Headers: headers, Limits: []core.Limit{limit}})
		d, h, room := l.Allow(&request{}), http.Header{}, new(adapter.HeaderRoom)
		return testing.AllocsPerRun(200, func() {
			clear(h)
			adapter.SetHeaders(&d, adapter.HeaderMap(h), room)
		})
	}
	month := core.PerMonth(100_000, time.UTC).By(keyfuncs.Everyone())
	if own, others := allocations(core.XQuota, month), allocations(core.XRateLimit, month); own > others {
		t.Errorf("XQuota: %v allocations, XRateLimit: %v", own, others)
	}
	check.Equal(t, "allocations without XQuota", allocations(core.Draft11, month), 0)
	check.Equal(t, "allocations without a calendar limit", allocations(core.Draft11|core.XQuota, everyone(5)), 0)
}

// Floods of denials cost no allocation for their bodies, of calendar limits neither.
func TestBodiesOfDenialsDoNotAllocate(t *testing.T) {
	race.Skip(t)
	for name, limit := range map[string]core.Limit{"an hour": everyone(1), "a month": core.PerBillingMonth(1, 15, time.UTC).By(keyfuncs.User("user"))} {
		l := limiterOn(t, core.NewMemory(), limit)
		l.AllowKey(t.Context(), "k", 1)
		d := l.AllowKey(t.Context(), "k", 1)
		body := make([]byte, 0, 512)
		check.Equal(t, name+": allocations", testing.AllocsPerRun(200, func() { _, _ = d.AppendProblem(body, "") }), 0)
	}
}

// A context and the decision in it are one allocation.
func TestNewContextAllocatesOnce(t *testing.T) {
	race.Skip(t)
	d := limiterOn(t, core.NewMemory(), everyone(5)).Allow(&request{})
	ctx := context.Background()
	allocs := testing.AllocsPerRun(200, func() {
		if d, ok := core.FromContext(core.NewContext(ctx, d)); !ok || !d.Allowed {
			t.Error("the decision is not in its context")
		}
	})
	if allocs > 1 {
		t.Errorf("%v allocations, want 1", allocs)
	}
}

// What a limiter looks for with its first requests costs those after them nothing,
// and neither do conditions, costs and warnings that nobody has reached.
func TestDecisionsDoNotAllocateAfterTheLooks(t *testing.T) {
	race.Skip(t)
	byIP := core.PerHour(1 << 40).By(keyfuncs.ClientIP())
	for name, limit := range map[string]core.Limit{
		"plain":                  byIP,
		"a condition":            byIP.When(keyfuncs.Methods("GET")).Unless(keyfuncs.Routes("/healthz")),
		"a cost of its own":      byIP.CostBy(func(keyfuncs.Request) int64 { return 2 }),
		"warnings":               byIP.WarnAt(0.5, 0.9),
		"a warning":              byIP.FixedWindow().WarnAt(1e-300), // whose event was sent with the first
		"shadow":                 byIP.Shadow(),
		"a tier":                 byIP.Tiers(func(keyfuncs.Request) core.Limit { return core.PerHour(1 << 30) }),
		"a cost that is read":    byIP.CostBy(func(r keyfuncs.Request) int64 { return int64(len(keyfuncs.HeaderOf(r, "X-Items"))) }),
		"a tier that is read":    byIP.Tiers(planTier),
		"a function's condition": byIP.When(keyfuncs.Matches(func(r keyfuncs.Request) bool { return keyfuncs.HeaderOf(r, "X-Plan") != "" })),
		"KeepFree":               byIP.KeepFree(0.5, keyfuncs.Methods("POST")),
		"a missing key":          core.PerHour(1 << 40).By(keyfuncs.User("userID")).OnMissingKey(core.SkipLimit),
	} {
		l := newLimiter(t, core.Config{
			Store: core.NewMemory(), Limits: []core.Limit{limit}, Silence: []core.Advice{core.AdviceForwarded},
			Bypass:    []keyfuncs.Condition{keyfuncs.Routes("/healthz"), keyfuncs.Tokens("X-Bypass-Token", bypassToken), keyfuncs.FromCIDR("192.0.2.0/24")},
			OnWarning: func(context.Context, core.Warning) {},
		})
		r := &request{peer: "198.51.100.7", headers: map[string]string{"X-Forwarded-For": "203.0.113.9", "X-Items": "1234", "X-Plan": "pro"}}
		for range core.AdviceLooks {
			l.Allow(r)
		}
		check.Equal(t, name+": allocations", testing.AllocsPerRun(200, func() { l.Allow(r) }), 0)
	}
}

// counter is an observer that reads all there is.
type counter struct {
	core.NopObserver
	n, keys, route, limit int
}

func (c *counter) Decided(_ context.Context, o *core.Observation) {
	for i := range o.Decision.Results() {
		c.keys += len(o.Key(i)) + int(o.Cost(i))
	}
	c.route += len(o.Method) + len(o.Route())
	if i, ok := o.Binding(); ok && o.Limit() == o.Decision.Results()[i].Rule.Name {
		c.limit++
	}
	c.n++
}

func TestObserversDoNotAllocate(t *testing.T) {
	race.Skip(t)
	ctx, r := context.Background(), user("alice")
	seen := new(counter)
	l := newLimiter(t, core.Config{
		Store: core.NewMemory(), Limits: []core.Limit{core.PerHour(1 << 40).By(keyfuncs.User("userID"))},
		Observe: core.Observers(seen, new(counter)), Bypass: []keyfuncs.Condition{keyfuncs.Routes("/healthz")},
	})
	healthz := &request{route: "/healthz"}
	for name, run := range map[string]func(){
		"a key":      func() { l.AllowKey(ctx, "user:alice", 1) },
		"a request":  func() { l.Allow(r) },
		"a bypass":   func() { l.Allow(healthz) },
		"no request": func() { l.AllowKey(ctx, "user:alice", -1) },
	} {
		check.Equal(t, name+": allocations", testing.AllocsPerRun(200, run), 0)
	}
	if seen.n != 4*201 || seen.keys == 0 || seen.route == 0 || seen.limit == 0 {
		t.Errorf("observed %+v", seen)
	}
}
