package compose_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/regions"
)

// counted counts calls of a store.
type counted struct {
	core.Store
	takes int
}

func (c *counted) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	c.takes++
	return c.Store.Take(ctx, checks, results)
}

func limiter(t *testing.T, store core.Store, limits ...core.Limit) *core.Limiter {
	t.Helper()
	return must.Get(core.New(core.Config{Store: store, Limits: limits}))(t)
}

func TestTogetherIsAllOrNothingByOneCall(t *testing.T) {
	t.Parallel()
	store := &counted{Store: core.NewMemory()}
	user := core.PerHour(7).By(keyfuncs.User("user")).Named("user")
	a := limiter(t, store, user, core.PerHour(100).By(keyfuncs.Everyone()).Named("all"))
	b := limiter(t, store, user, core.PerHour(2).By(keyfuncs.Tenant("tenant")).Named("tenant"))
	values := keyfuncs.Values{"user": "ann", "tenant": "acme"}
	ask := func() []compose.Ask {
		return []compose.Ask{{Limiter: a, Request: values}, {Limiter: b, Request: values}}
	}
	ctx := context.Background()
	for i := range 3 {
		asks, before := ask(), store.takes
		must.OK(t, compose.Together(ctx, "test", 0, asks))
		must.Equal(t, "calls of the store, with those before", store.takes, before+1)
		check.Equal(t, fmt.Sprintf("number %d", i+1), [2]bool{asks[0].Decision.Allowed, asks[1].Decision.Allowed}, [2]bool{i < 2, i < 2})
		if i < 2 {
			continue
		}
		if d := asks[0].Decision; d.Reason != core.ReasonDeniedTogether || d.RetryAfter <= 0 {
			t.Errorf("the one that fits: %v, retry after %v", d.Reason, d.RetryAfter)
		}
		check.Equal(t, "the one that does not fit", asks[1].Decision.Reason, core.ReasonLimitExceeded)
	}
	asks := []compose.Ask{{Limiter: a, Request: values}}
	must.OK(t, compose.PeekTogether(ctx, 0, asks))
	// Twice two questions, each of which charges the user: four of seven are used, by sums.
	for _, r := range asks[0].Decision.Results() {
		check.Equal(t, r.Rule.Name+": remaining", r.Remaining, map[string]int64{"user": 3, "all": 98}[r.Rule.Name])
	}
}

func TestTogetherLetsExemptQuestionsPass(t *testing.T) {
	t.Parallel()
	exempt := keyfuncs.Matches(func(r keyfuncs.Request) bool { return r.Value("user") == "root" })
	l := core.Must(core.New(core.Config{Store: core.NewMemory(), Bypass: []keyfuncs.Condition{exempt}, Limits: []core.Limit{core.PerHour(1).By(keyfuncs.User("user"))}}))
	root, ann := compose.Ask{Limiter: l, Request: keyfuncs.Values{"user": "root"}}, compose.Ask{Limiter: l, Request: keyfuncs.Values{"user": "ann"}}
	for i, c := range []struct {
		asks []compose.Ask
		want []core.Reason
	}{
		{[]compose.Ask{root}, []core.Reason{core.ReasonBypassed}},
		{[]compose.Ask{root, root}, []core.Reason{core.ReasonBypassed, core.ReasonBypassed}},
		{[]compose.Ask{root, ann}, []core.Reason{core.ReasonBypassed, core.ReasonWithinLimit}},
		{[]compose.Ask{root, ann}, []core.Reason{core.ReasonDeniedTogether, core.ReasonLimitExceeded}},
	} {
		for _, peek := range []bool{true, false} {
			err := compose.PeekTogether(context.Background(), 0, c.asks)
			if !peek {
				err = compose.Together(context.Background(), "test", 0, c.asks)
			}
			for k := range c.asks {
				if d := &c.asks[k].Decision; err != nil || d.Reason != c.want[k] || d.Allowed == (i == 3) {
					t.Errorf("%d, peek %v: question %d: %v %v, want %v", i, peek, k, err, d.Reason, c.want[k])
				}
			}
		}
	}
}

func TestTogetherRefusesWhatItCanNotSum(t *testing.T) {
	t.Parallel()
	store := core.NewMemory()
	plan := func(r keyfuncs.Request) core.Limit {
		if r.Value("plan") == "pro" {
			return core.PerHour(100)
		}
		return core.Limit{}
	}
	l := limiter(t, store, core.PerHour(5).By(keyfuncs.User("user")).Named("user").Tiers(plan))
	asks := []compose.Ask{
		{Limiter: l, Request: keyfuncs.Values{"user": "ann"}},
		{Limiter: l, Request: keyfuncs.Values{"user": "ann", "plan": "pro"}},
	}
	check.Fails(t, "one key with different numbers", compose.Together(context.Background(), "test", 0, asks), `"user"`)
	other := limiter(t, core.NewMemory(), core.PerHour(5).By(keyfuncs.User("user")))
	asks[1].Limiter = other
	if err := compose.Together(context.Background(), "test", 0, asks); err == nil {
		t.Error("limiters of different stores")
	}
	asks = []compose.Ask{{Limiter: l, Key: "user:ann", Costs: map[string]int64{"usr": 1}}}
	check.Fails(t, "a cost for a limit that is none", compose.Together(context.Background(), "test", 0, asks), "usr")
}

func TestOperationsAreChargedOnce(t *testing.T) {
	t.Parallel()
	l := limiter(t, core.NewMemory(), core.PerHour(5).By(keyfuncs.User("user")).Named("a"), core.PerDay(9).By(keyfuncs.User("user")).Named("b"))
	for range 7 {
		asks := []compose.Ask{{Limiter: l, Key: "user:ann", Operation: []byte("op-1")}}
		must.OK(t, compose.Together(context.Background(), "test", 0, asks))
		if d := asks[0].Decision; !d.Allowed || d.Results()[0].Remaining != 4 {
			t.Fatalf("%v, %d remain", d, d.Results()[0].Remaining)
		}
	}
	d := l.AllowKey(context.Background(), "user:ann", 1)
	check.Equal(t, "remaining", d.Results()[0].Remaining, 3)
}

// What regions lease can't be charged once per operation. That is said, and nothing is decided.
func TestOperationsOfLeasedLimits(t *testing.T) {
	t.Parallel()
	s := must.Get(regions.New(core.NewMemory(), core.NewMemory(), regions.Config{Region: "eu", Regions: 2}))(t)
	each := core.PerHour(100).By(keyfuncs.User("user")).Named("each").Regions(core.InEachRegion)
	leased := limiter(t, s, each, core.PerHour(100).By(keyfuncs.User("user")).Named("leased"))
	asks := []compose.Ask{{Limiter: leased, Key: "user:ann", Operation: []byte("op-1")}}
	check.Fails(t, "an operation", compose.Together(context.Background(), "test", 0, asks), `limit "leased" is leased to regions, so no operation is remembered: ask without one`)
	whole := limiter(t, s, each)
	for range 2 {
		asks = []compose.Ask{{Limiter: whole, Key: "user:ann", Operation: []byte("op-1")}}
		must.OK(t, compose.Together(context.Background(), "test", 0, asks))
		check.Equal(t, "remaining of a limit that is whole in each region", asks[0].Decision.Results()[0].Remaining, 99)
	}
}

func TestHeldChargesAreSettledLater(t *testing.T) {
	t.Parallel()
	l := limiter(t, core.NewMemory(),
		core.PerHour(100).By(keyfuncs.User("user")).Named("requests"), core.PerHour(1000).By(keyfuncs.User("user")).Named("tokens").FixedWindow(),
		core.Concurrent(3).By(keyfuncs.User("user")).Named("running"))
	ctx := context.Background()
	remain := func() (all [3]int64) {
		d := must.Get(l.Peek(ctx, "user:ann", 1))(t)
		for i, r := range d.Results() {
			all[i] = r.Remaining
		}
		return all
	}
	for _, c := range []struct {
		name         string
		spent        int64
		told, refund bool
		want         [3]int64
	}{
		{"less", 120, true, false, [3]int64{99, 880, 3}},
		{"more", 500, true, false, [3]int64{98, 380, 3}},
		{"unknown", 0, false, false, [3]int64{97, 80, 3}},
	} {
		asks := []compose.Ask{{Limiter: l, Request: keyfuncs.Values{"user": "ann"}, Costs: map[string]int64{"tokens": 300}, Hold: true}}
		must.OK(t, compose.Together(ctx, "test", 0, asks))
		held := asks[0].Held
		if len(held) != 3 || !held[1].Given || held[0].Estimate {
			t.Fatalf("held: %+v", held)
		}
		held[1].Told, held[1].Spent = c.told, c.spent
		compose.Settle(l, held, 0, c.refund, core.Outcome{Status: 200})
		check.Equal(t, c.name+": remaining", remain(), c.want)
	}
	asks := []compose.Ask{{Limiter: l, Request: keyfuncs.Values{"user": "ann"}, Costs: map[string]int64{"tokens": 80}, Hold: true}}
	if err := compose.Together(ctx, "test", 0, asks); err != nil || !asks[0].Decision.Allowed {
		t.Fatal(err, asks[0].Decision.Reason)
	}
	compose.Settle(l, asks[0].Held, 0, true, core.Outcome{})
	check.Equal(t, "refunded: remaining", remain(), [3]int64{97, 80, 3})
}

// A cost that a question gives is an estimate, which UpToBurst bounds, if it is charged, and what was spent if it is
// only looked at, as the service's charges do.
func TestAnEstimateThatIsGivenUpToTheBurst(t *testing.T) {
	t.Parallel()
	l := limiter(t, core.NewMemory(), core.PerHour(100).By(keyfuncs.User("user")).Named("tokens").FixedWindow().Estimate(7).UpToBurst())
	for _, q := range []compose.Ask{{Request: keyfuncs.Values{"user": "ann"}}, {Key: "user:bob"}} {
		q.Limiter, q.Costs, q.Hold = l, map[string]int64{"tokens": 5000}, true
		asks := []compose.Ask{q}
		must.OK(t, compose.PeekTogether(t.Context(), 0, asks))
		check.All(t, "held of a look", []any{len(asks[0].Held), asks[0].Held[0].Cost}, 1, int64(5000))
		must.OK(t, compose.Together(t.Context(), "test", 0, asks))
		d := &asks[0].Decision
		check.All(t, "allowed, left and held", []any{d.Allowed, d.Results()[0].Remaining, asks[0].Held[0].Cost}, true, int64(0), int64(100))
		asks[0].Held[0].Told, asks[0].Held[0].Spent = true, 30
		compose.Settle(l, asks[0].Held, 0, false, core.Outcome{})
	}
	d := must.Get(l.Peek(t.Context(), "user:ann", 1))(t)
	check.Equal(t, "left when it is settled", d.Results()[0].Remaining, 70)
}

// failing is a store that does not answer.
type failing struct{ core.Store }

func (failing) Take(context.Context, []core.Check, []core.Result) error {
	return context.DeadlineExceeded
}

func TestTogetherInAnOutage(t *testing.T) {
	t.Parallel()
	store := failing{core.NewMemory()}
	a := limiter(t, store, core.PerHour(5).By(keyfuncs.User("user")).Named("a"))
	b := limiter(t, store, core.PerHour(5).By(keyfuncs.User("user")).Named("b").OnOutage(core.Deny))
	values := keyfuncs.Values{"user": "ann"}
	for range 20 {
		asks := []compose.Ask{{Limiter: a, Request: values}, {Limiter: b, Request: values}}
		must.OK(t, compose.Together(context.Background(), "test", 0, asks))
		must.Equal(t, "reasons", [2]core.Reason{asks[0].Decision.Reason, asks[1].Decision.Reason}, [2]core.Reason{core.ReasonDeniedTogether, core.ReasonOutageDenied})
	}
	asks := []compose.Ask{{Limiter: a, Request: values}}
	must.OK(t, compose.Together(context.Background(), "test", 0, asks))
	check.Equal(t, "alone", asks[0].Decision.Reason, core.ReasonOutageLocal)
	check.Equal(t, "remaining", asks[0].Decision.Results()[0].Remaining, 4)
}

// bounds notes until when a store may take.
type bounds struct {
	core.Store
	ends time.Time
}

func (b *bounds) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	b.ends, _ = ctx.Deadline()
	return b.Store.Take(ctx, checks, results)
}

// Working memory goes from one decision to the next. A caller's own bound does not.
func TestABoundEndsWithItsCall(t *testing.T) {
	t.Parallel()
	store := &bounds{Store: core.NewMemory()}
	l := must.Get(core.New(core.Config{Store: store, Timeout: time.Minute, Limits: []core.Limit{core.PerHour(1000).By(keyfuncs.Everyone())}}))(t)
	for range 100 {
		must.OK(t, compose.Together(t.Context(), "test", time.Second, []compose.Ask{{Limiter: l, Key: "k"}}))
		before := time.Now()
		l.AllowKey(t.Context(), "k", 1)
		if bound := store.ends.Sub(before); bound < time.Minute {
			t.Fatalf("a decision of a limiter with a minute had %v", bound)
		}
	}
}
