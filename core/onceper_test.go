package core_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// doing is a request of alice with an operation's key, or without one.
func doing(operation string) *request {
	r := user("alice")
	if operation != "" {
		r.headers = map[string]string{"Idempotency-Key": operation}
	}
	return r
}

// oncely returns a limit of n operations an hour for each user.
func oncely(n int64) core.Limit {
	return core.PerHour(n).By(keyfuncs.User("userID")).OncePer(keyfuncs.Header("Idempotency-Key"), 2*time.Hour).Named("once")
}

// Trap 55: an operation is bound to the method and path of the request.
func TestAnOperationIsOfOneMethodAndPath(t *testing.T) {
	t.Parallel()
	long := "/" + strings.Repeat("x", 5000)
	l := limiterOn(t, core.NewMemory(), oncely(100))
	for i, target := range [][2]string{
		{"POST", "/pay"}, {"PUT", "/pay"}, {"POST", "/pay/"}, {"POST", "/"}, {"POST", long}, {"POST", long + "y"}, {"GET", "POST/pay"},
	} {
		for repeat := range 2 {
			r := doing("op")
			r.method, r.path = target[0], target[1]
			d := l.Allow(r)
			got := d.Results()[0]
			check.All(t, fmt.Sprintf("%s %.9s: repeated and left", target[0], target[1]), []any{got.Repeated, got.Remaining}, repeat == 1, 99-i)
		}
	}
}

// A request that costs 90 passed as a repeat of one that cost 1, three times.
func TestAnOperationIsOfOneCost(t *testing.T) {
	t.Parallel()
	l := limiterOn(t, core.NewMemory(), oncely(100).CostBy(func(r keyfuncs.Request) int64 {
		cost, _ := strconv.ParseInt(keyfuncs.HeaderOf(r, "X-Cost"), 10, 64)
		return cost
	}))
	for i, step := range []struct {
		cost     string
		allowed  bool
		repeated bool
		left     int64
	}{
		{"1", true, false, 99},
		{"1", true, true, 99},
		{"60", true, false, 39},
		{"60", true, true, 39},
		{"90", false, false, 39},
		{"1", true, true, 39},
		{"10", true, false, 29},
	} {
		r := doing("op")
		r.headers["X-Cost"] = step.cost
		d := l.Allow(r)
		got := d.Results()[0]
		check.All(t, fmt.Sprintf("request %d, which costs %s: allowed, repeated and left", i, step.cost),
			[]any{d.Allowed, got.Repeated, got.Remaining}, step.allowed, step.repeated, step.left)
	}
}

// A repeat of an operation takes nothing. If its handler does the work again, that is
// charged: an estimate that was not taken is no reason to work for free.
func TestARepeatCostsWhatItsHandlerTells(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spent   []int64
		outcome core.Outcome
		left    int64
	}{
		"nothing said":         {nil, core.Outcome{Status: 200}, 90},
		"answered from memory": {[]int64{0}, core.Outcome{Status: 200}, 90},
		"done again":           {[]int64{7, 5}, core.Outcome{Status: 200}, 78},
		"failed":               {nil, core.Outcome{Status: 500}, 90},
		"failed half way":      {[]int64{20}, core.Outcome{Status: 500}, 70},
	} {
		l := limiterOn(t, core.NewMemory(), oncely(100).FixedWindow().Estimate(10).RefundOn(core.ServerErrors))
		first := l.Allow(doing("op"))
		first.Settle(core.Outcome{Status: 200})
		d := l.Allow(doing("op"))
		for _, n := range c.spent {
			if err := core.Spend(inHandler(t.Context(), d), n); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		d.Settle(c.outcome)
		check.All(t, name+": left, and repeated", []any{unitsLeft(t, l, "user:alice"), d.Results()[0].Repeated}, c.left, true)
		again := l.Allow(doing("op"))
		check.Equal(t, name+": the mark is there", again.Results()[0].Repeated, true)
	}
}

func TestARepeatedOperationIsChargedOnce(t *testing.T) {
	t.Parallel()
	store, clock := at()
	l := limiterOn(t, store, oncely(2), everyone(6).Named("all"))
	for _, step := range []struct {
		what, operation string
		allowed         bool
		once, all       int64
		repeated        bool
	}{
		{"the first", "a", true, 1, 5, false},
		{"a repeat, which the other limit counts", "a", true, 1, 4, true},
		{"without an operation's key", "", true, 0, 3, false},
		{"another operation, when nothing is left", "b", false, 0, 3, false},
		{"a repeat, when nothing is left", "a", true, 0, 2, true},
		{"a longer key", string(make([]byte, 5000)), false, 0, 2, false},
	} {
		d := l.Allow(doing(step.operation))
		reason := core.ReasonWithinLimit
		if !step.allowed {
			reason = core.ReasonLimitExceeded
		}
		wantDecision(t, step.what, d, step.allowed, reason, step.once, step.all)
		r := d.Results()[0]
		check.Equal(t, step.what+": repeated and charged", [2]bool{r.Repeated, r.Charged}, [2]bool{step.repeated, step.allowed && !step.repeated})
	}
	clock.Advance(time.Hour)
	wantDecision(t, "a repeat in the next hour", l.Allow(doing("a")), true, core.ReasonWithinLimit, 2, 5)
	wantDecision(t, "what was denied left no mark", l.Allow(doing("b")), true, core.ReasonWithinLimit, 1, 4)
	clock.Advance(time.Hour)
	wantDecision(t, "the first, when it is forgotten", l.Allow(doing("a")), true, core.ReasonWithinLimit, 1, 5)
	wantDecision(t, "a key without a request", l.AllowKey(t.Context(), "k", 1), true, core.ReasonWithinLimit, 1, 5)
	wantDecision(t, "and again", l.AllowKey(t.Context(), "k", 1), true, core.ReasonWithinLimit, 0, 4)
}

func TestOncePerIsPartOfTheRule(t *testing.T) {
	t.Parallel()
	with, without := mustRule(t, oncely(2)), mustRule(t, core.PerHour(2).Named("once"))
	check.All(t, "rules", []any{with.Once, without.Once, *with == *without}, 2*time.Hour, time.Duration(0), false)
	backend := core.NewMemory()
	limiterOn(t, backend, oncely(2))
	for name, limit := range map[string]core.Limit{
		"none":          core.PerHour(2).By(keyfuncs.User("userID")).Named("once"),
		"another ttl":   oncely(2).OncePer(keyfuncs.Header("Idempotency-Key"), time.Hour),
		"another field": oncely(2).OncePer(keyfuncs.Header("X-Request-Id"), 2*time.Hour),
	} {
		if _, err := core.New(core.Config{Store: backend, Limits: []core.Limit{limit}}); err == nil {
			t.Errorf("%s: shares a name with a different limit", name)
		}
	}
	limiterOn(t, backend, oncely(2))

	many := make([]core.Limit, store.MaxChecks/2+1)
	for i := range many {
		many[i] = oncely(2).Named(fmt.Sprint("limit", i))
	}
	if _, err := core.New(core.Config{Store: backend, Limits: many}); err == nil {
		t.Error("more limits with OncePer than a call can decide")
	}
	limiterOn(t, backend, many[1:]...)
	if _, err := core.New(core.Config{Store: core.NewMemory(), Limits: []core.Limit{everyone(1)}, Fallback: core.Fallback{Limits: many}}); err == nil {
		t.Error("more limits with OncePer in a fallback than a call can decide")
	}
}

func TestATierChargesOperationsOnceToo(t *testing.T) {
	t.Parallel()
	l := limiterAt(t, everyone(100).OncePer(keyfuncs.Header("Idempotency-Key"), time.Hour).Tiers(plan))
	r := on(core.PerHour(5).FixedWindow(), 1)
	r.headers = map[string]string{"Idempotency-Key": "op"}
	wantDecision(t, "the first", l.Allow(r), true, core.ReasonWithinLimit, 4)
	wantDecision(t, "a repeat", l.Allow(r), true, core.ReasonWithinLimit, 4)
	base := on(core.Limit{}, 1)
	base.headers = r.headers
	wantDecision(t, "a repeat under other numbers", l.Allow(base), true, core.ReasonWithinLimit, 99)
}

// On either side of an outage an operation is charged once, and what was granted
// locally is not charged again by the operation's repeat.
func TestARepeatAcrossAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newFlaky(false)
		l := limiterOn(t, store, oncely(3))
		wantDecision(t, "before", l.Allow(doing("a")), true, core.ReasonWithinLimit, 2)
		store.down.Store(true)
		wantDecision(t, "a repeat, locally new", l.Allow(doing("a")), true, core.ReasonOutageLocal, 2)
		wantDecision(t, "a local repeat", l.Allow(doing("a")), true, core.ReasonOutageLocal, 2)
		wantDecision(t, "a new one", l.Allow(doing("b")), true, core.ReasonOutageLocal, 1)
		store.down.Store(false)
		wantDecision(t, "a repeat of before", l.Allow(doing("a")), true, core.ReasonWithinLimit, 2)
		wantDecision(t, "the local one again", l.Allow(doing("b")), true, core.ReasonWithinLimit, 1)
		wantDecision(t, "nothing was reconciled", l.Allow(doing("b")), true, core.ReasonWithinLimit, 1)
	})
}
