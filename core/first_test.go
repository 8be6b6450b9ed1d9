package core_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/weblimittest"
)

var (
	planLimit    = core.Per(3, time.Hour).FromFirstUse().By(keyfuncs.Everyone()).Named("plan")
	creditsLimit = core.Per(2, 24*time.Hour).FromFirstUse().By(keyfuncs.Everyone()).Named("credits")
	rateLimit    = core.PerMinute(100).By(keyfuncs.Everyone()).Named("rate")
)

func firstOf(t *testing.T, limits ...core.Limit) *core.Limiter {
	t.Helper()
	return core.Must(core.New(core.Config{Store: memstore.New(), Limits: limits}))
}

// The plan pays while it has room, then the credits do, and then the request waits for the plan.
func TestTheFirstWithRoomPays(t *testing.T) {
	t.Parallel()
	l := firstOf(t, rateLimit, core.First(planLimit, creditsLimit))
	for i, want := range []string{"plan", "plan", "plan", "credits", "credits"} {
		d := l.AllowKey(t.Context(), "alice", 1)
		if paid := d.PaidBy(); !d.Allowed || len(paid) != 2 || paid[0] != "rate" || paid[1] != want {
			t.Fatalf("request %d: allowed %v, paid by %v, want %s", i, d.Allowed, paid, want)
		}
	}
	d := l.AllowKey(t.Context(), "alice", 1)
	if b, _ := d.Binding(); d.Allowed || b.Rule.Name != "plan" || d.RetryAfter > time.Hour || len(d.PaidBy()) != 0 {
		t.Errorf("got %v by %s, wait %v, paid by %v: want a denial that ends with the plan's window", d.Allowed, b.Rule.Name, d.RetryAfter, d.PaidBy())
	}
	if d = l.AllowKey(t.Context(), "bob", 3); !d.Allowed || d.PaidBy()[1] != "plan" {
		t.Errorf("another client: %v, paid by %v", d.Allowed, d.PaidBy())
	}
	if d = l.AllowKey(t.Context(), "carol", 4); d.Allowed || d.Reason != core.ReasonNeverFits {
		t.Errorf("4 units: got %v, %v; want that it never fits", d.Allowed, d.Reason)
	}
}

// A request that another limit denies is charged to no alternative.
func TestAChoiceIsPartOfAllOrNothing(t *testing.T) {
	t.Parallel()
	l := firstOf(t, core.PerMinute(1).By(keyfuncs.Everyone()).Named("rate"), core.First(planLimit, creditsLimit))
	l.AllowKey(t.Context(), "alice", 1)
	d := l.AllowKey(t.Context(), "alice", 1)
	check.Equal(t, "allowed", d.Allowed, false)
	for _, r := range d.Results() {
		if r.Charged {
			t.Errorf("%s was charged for a denied request", r.Rule.Name)
		}
	}
	check.Equal(t, "what is left", left(t, l, "alice"), "rate 0, plan 2, credits 2")
}

// What is settled goes to the limit that was charged.
func TestSettlementsGoToWhoPaid(t *testing.T) {
	t.Parallel()
	l := firstOf(t, core.First(planLimit.Estimate(2).RefundOn(core.ServerErrors), creditsLimit.Estimate(2).RefundOn(core.ServerErrors)))
	first, second := l.AllowKey(t.Context(), "alice", 2), l.AllowKey(t.Context(), "alice", 2)
	check.Slices(t, "who paid", append(first.PaidBy(), second.PaidBy()...), []string{"plan", "credits"})
	check.OK(t, core.Spend(core.NewContext(t.Context(), second), 1))
	second.Settle(core.Outcome{Status: 200})
	check.Equal(t, "what is left", left(t, l, "alice"), "plan 1, credits 1")
	first.Settle(core.Outcome{Status: 500})
	check.Equal(t, "what is left after a refund", left(t, l, "alice"), "plan 3, credits 1")
}

// An estimate of nothing asks for one unit: else the first limit would be charged without room.
func TestAnEstimateOfNothingNeedsRoom(t *testing.T) {
	t.Parallel()
	free := func(keyfuncs.Request) int64 { return 0 }
	l := firstOf(t, core.First(planLimit.EstimateBy(free), creditsLimit.EstimateBy(free)))
	var paid []string
	for range 5 {
		d := l.Allow(keyfuncs.Values{}.WithContext(t.Context()))
		paid = append(paid, d.PaidBy()...)
	}
	check.Slices(t, "who paid", paid, []string{"plan", "plan", "plan", "credits", "credits"})
}

// left returns what each limit has left for a key.
func left(t *testing.T, l *core.Limiter, key string) string {
	t.Helper()
	d, err := l.Peek(t.Context(), key, 1)
	check.OK(t, err)
	var left []string
	for _, r := range d.Results() {
		left = append(left, fmt.Sprint(r.Rule.Name, " ", r.Remaining))
	}
	return strings.Join(left, ", ")
}

// Conditions and keys say which alternatives a request has.
func TestWhatDoesNotApplyIsNoAlternative(t *testing.T) {
	t.Parallel()
	paying := keyfuncs.Matches(func(r keyfuncs.Request) bool { return r.Value("plan") == "paid" })
	l := firstOf(t, rateLimit, core.First(planLimit.When(paying), creditsLimit))
	for plan, want := range map[string]string{"paid": "plan", "free": "credits"} {
		d := l.Allow(keyfuncs.Values{"plan": plan}.WithContext(t.Context()))
		check.Slices(t, plan, d.PaidBy(), []string{"rate", want})
	}
	none := firstOf(t, rateLimit, core.First(planLimit, creditsLimit).When(paying))
	d := none.Allow(keyfuncs.Values{"plan": "free"}.WithContext(t.Context()))
	check.Slices(t, "without the choice", d.PaidBy(), []string{"rate"})
}

// A choice in shadow mode is judged, and denies nothing.
func TestAShadowChoiceDeniesNothing(t *testing.T) {
	t.Parallel()
	l := firstOf(t, rateLimit, core.First(planLimit, creditsLimit).Shadow())
	for range 5 {
		l.AllowKey(t.Context(), "alice", 1)
	}
	d := l.AllowKey(t.Context(), "alice", 1)
	check.Equal(t, "reason", d.Reason, core.ReasonShadowed)
	check.Equal(t, "what is left", left(t, l, "alice"), "rate 94, plan 0, credits 0")
}

// A block by hand under one limit is a block of the client.
func TestABlockOfOneAlternativeDenies(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	l := core.Must(core.New(core.Config{Store: s, Limits: []core.Limit{core.First(planLimit, creditsLimit)}}))
	rule, err := planLimit.Rule()
	check.OK(t, err)
	check.OK(t, s.Block(t.Context(), []core.Check{{Key: []byte("alice"), Rule: &rule}}, time.Minute))
	d := l.AllowKey(t.Context(), "alice", 1)
	check.Equal(t, "reason", d.Reason, core.ReasonBlocked)
	check.Equal(t, "another client", l.AllowKey(t.Context(), "bob", 1).Allowed, true)
}

// Of a batch, one alternative grants what it has room for.
func TestABatchIsChargedToOneAlternative(t *testing.T) {
	t.Parallel()
	l := firstOf(t, core.First(planLimit, creditsLimit))
	for _, want := range []struct {
		n, granted int64
		paid       string
	}{{2, 2, "plan"}, {9, 2, "credits"}, {9, 1, "plan"}} {
		granted, d := l.AllowKeyAtMost(t.Context(), "alice", want.n)
		if granted != want.granted || d.PaidBy()[0] != want.paid {
			t.Errorf("%d units: %d granted, paid by %v; want %d by %s", want.n, granted, d.PaidBy(), want.granted, want.paid)
		}
	}
	if granted, _ := l.AllowKeyAtMost(t.Context(), "alice", 1); granted != 0 {
		t.Errorf("%d more units granted", granted)
	}
}

// Headers show the limit that pays and no other.
func TestHeadersShowWhoPays(t *testing.T) {
	t.Parallel()
	l := firstOf(t, core.First(planLimit, creditsLimit))
	for range 3 {
		l.AllowKey(t.Context(), "alice", 1)
	}
	d, h := l.AllowKey(t.Context(), "alice", 1), http.Header{}
	d.SetHeaders(h)
	check.Contains(t, "RateLimit", h.Get("RateLimit"), `"credits";r=1;t=`)
	check.Equal(t, "limits in it", len(strings.Split(h.Get("RateLimit"), ",")), 1)
	check.Equal(t, "RateLimit-Policy", h.Get("RateLimit-Policy"), `"credits";q=2;w=86400`)
}

// What a choice can't do is an error at construction.
func TestChoicesThatCantWork(t *testing.T) {
	t.Parallel()
	for want, limit := range map[string]core.Limit{
		"First needs two limits or more":           core.First(planLimit),
		"First within First":                       core.First(planLimit, core.First(creditsLimit, rateLimit)),
		"First has no name":                        core.First(planLimit, creditsLimit).Named("budget"),
		"First has no numbers":                     core.First(planLimit, creditsLimit).SlidingWindow(),
		"Cost belongs to the limits in First":      core.First(planLimit, creditsLimit).Cost(2),
		"Shadow belongs to the whole of First":     core.First(planLimit, creditsLimit.Shadow()),
		"OnOutage belongs to the whole":            core.First(planLimit, creditsLimit.OnOutage(core.Deny)),
		"a limit in First can't have a Penalty":    core.First(planLimit, creditsLimit.Penalty(core.Block{After: 1, Within: time.Hour, For: time.Hour})),
		"nobody waits for a limit in First":        core.First(planLimit, core.PerMinute(1).By(keyfuncs.Everyone()).Wait(time.Second)),
		"SpillOver is for a limit in First":        core.First(planLimit, creditsLimit.Estimate(1).SpillOver()),
		"SpillOver needs an Estimate":              core.First(planLimit.SpillOver(), creditsLimit),
		"that has another one behind it":           planLimit.Estimate(1).SpillOver(),
		"two limits of one limiter have this name": core.First(planLimit, planLimit),
	} {
		_, err := core.New(core.Config{Store: memstore.New(), Limits: []core.Limit{limit}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got the error %v, want %q in it", err, want)
		}
	}
	if _, err := core.First(planLimit, creditsLimit).Rule(); err == nil {
		t.Error("a choice has a rule")
	}
}

// In an outage the stand-in makes the same choice, with its share of each limit.
func TestAChoiceInAnOutage(t *testing.T) {
	t.Parallel()
	s := weblimittest.New(t)
	l := core.Must(core.New(core.Config{Store: s, Replicas: 1, Limits: []core.Limit{core.First(planLimit, creditsLimit).OnOutage(core.Local)}}))
	s.Fail()
	var paid []string
	for range 5 {
		d := l.AllowKey(t.Context(), "alice", 1)
		check.Equal(t, "reason", d.Reason, core.ReasonOutageLocal)
		paid = append(paid, d.PaidBy()...)
	}
	check.Slices(t, "who paid", paid, []string{"plan", "plan", "plan", "credits", "credits"})
	check.Equal(t, "a sixth request", l.AllowKey(t.Context(), "alice", 1).Allowed, false)
}

// Costs beyond the room of the limit that has paid go on to the next, and each unit is charged once.
func TestCostsSpillOver(t *testing.T) {
	t.Parallel()
	third := core.PerHour(50).FromFirstUse().By(keyfuncs.Everyone()).Named("overage").Estimate(1)
	for cost, want := range map[int64]string{
		2: "plan 1, credits 2, overage 50",
		3: "plan 0, credits 2, overage 50",
		4: "plan 0, credits 1, overage 50",
		9: "plan 0, credits 0, overage 46",
	} {
		l := firstOf(t, core.First(planLimit.Estimate(1).SpillOver(), creditsLimit.Estimate(1).SpillOver(), third))
		d := l.AllowKey(t.Context(), "alice", 1)
		check.OK(t, core.Spend(core.NewContext(t.Context(), d), cost))
		d.Settle(core.Outcome{Status: 200})
		check.Equal(t, fmt.Sprint("what is left after ", cost), left(t, l, "alice"), want)
	}
	l := firstOf(t, core.First(planLimit.Estimate(1), creditsLimit.Estimate(1)))
	d := l.AllowKey(t.Context(), "alice", 1)
	check.OK(t, core.Spend(core.NewContext(t.Context(), d), 5))
	d.Settle(core.Outcome{Status: 200})
	check.Equal(t, "without SpillOver", left(t, l, "alice"), "plan 0, credits 2")
}

// A cost that is given back was charged nowhere else.
func TestRefundsDoNotSpillOver(t *testing.T) {
	t.Parallel()
	l := firstOf(t, core.First(planLimit.Estimate(2).RefundOn(core.ServerErrors).SpillOver(), creditsLimit.Estimate(2)))
	d := l.AllowKey(t.Context(), "alice", 2)
	d.Settle(core.Outcome{Status: 500})
	check.Equal(t, "what is left", left(t, l, "alice"), "plan 3, credits 2")
}
