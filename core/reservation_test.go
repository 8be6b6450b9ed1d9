package core_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// unitsLeft returns the remaining units of a limiter's first limit.
func unitsLeft(tb testing.TB, l *core.Limiter, key string) int64 {
	tb.Helper()
	d := must.Get(l.Peek(context.Background(), key, 0))(tb)
	return d.Results()[0].Remaining
}

// inHandler is the context that a handler has after a decision.
func inHandler(ctx context.Context, d core.Decision) context.Context { return core.NewContext(ctx, d) }

func TestRefundOnOutcomes(t *testing.T) {
	t.Parallel()
	ok, missing, broken := core.Outcome{Status: 200}, core.Outcome{Status: 404}, core.Outcome{Status: 502}
	panicked, late := core.Outcome{Status: 500, Panicked: true}, core.Outcome{Status: 504, TimedOut: true}
	// What the client did, whatever the status.
	gone := []core.Outcome{
		{Status: 200, Canceled: true},
		{Status: 502, Canceled: true},
		{Status: 200, Canceled: true, Panicked: true},
		{Status: 499},
		{Status: 500, Err: fmt.Errorf("query: %w", context.Canceled)},
		{Status: 101, Hijacked: true, Panicked: true},
	}
	slow := core.Outcome{Status: 503, TimedOut: true, Waited: time.Second}
	for name, c := range map[string]struct {
		on       func(core.Outcome) bool
		refunded []core.Outcome
		kept     []core.Outcome
	}{
		"ServerErrors": {core.ServerErrors, []core.Outcome{broken, panicked, late}, append(gone, ok, missing, slow)},
		"Failures":     {core.Failures, []core.Outcome{missing, broken, panicked, late}, append(gone, ok, slow)},
		"Successes":    {core.Successes, []core.Outcome{ok}, append(gone, missing, broken, panicked, late, core.Outcome{Status: 200, TimedOut: true})},
		"Canceled":     {core.Canceled, append(gone, late), []core.Outcome{ok, missing, broken, panicked}},
	} {
		unknown := []core.Outcome{{}, {Err: errors.New("wrong password")}, {Duration: time.Second}}
		c.kept = append(c.kept, unknown...)
		l := limiterOn(t, core.NewMemory(), forAll(core.PerDay(100).FixedWindow()).RefundOn(c.on))
		for want, outcomes := range map[int64][]core.Outcome{100: c.refunded, 99: c.kept} {
			for i, o := range outcomes {
				key := fmt.Sprint(want, i)
				d := l.AllowKey(t.Context(), key, 1)
				check.Equal(t, name+": left before the outcome", unitsLeft(t, l, key), 99)
				d.Settle(o)
				d.Settle(core.Outcome{Status: 200}) // only the first counts
				d.Settle(core.Outcome{Status: 500})
				check.Equal(t, fmt.Sprintf("%s: left after %+v", name, o), unitsLeft(t, l, key), want)
			}
		}
	}
}

func TestOnlyWhatAsksForItIsReserved(t *testing.T) {
	t.Parallel()
	reserved := func(l *core.Limiter) [2]bool {
		d := l.AllowKey(t.Context(), "k", 1)
		return [2]bool{d.Reserved(), adapter.ReadsOutcome(&d)}
	}
	plain := limiterOn(t, core.NewMemory(), forAll(core.PerDay(1)))
	check.Equal(t, "what is reserved, and whether the outcome is wanted", reserved(plain), [2]bool{false, false})
	estimate := limiterOn(t, core.NewMemory(), forAll(core.PerDay(1)).Estimate(1))
	check.Equal(t, "what is reserved, and whether the outcome is wanted", reserved(estimate), [2]bool{true, false})
	refund := limiterOn(t, core.NewMemory(), forAll(core.PerDay(1)).RefundOn(core.Failures))
	check.Equal(t, "what is reserved, and whether the outcome is wanted", reserved(refund), [2]bool{true, true})
	d := refund.AllowKey(t.Context(), "k", 1)
	check.Equal(t, "a denied request is allowed, and has something reserved", [2]bool{d.Allowed, d.Reserved()}, [2]bool{})
	var none core.Decision
	none.Settle(core.Outcome{})
}

// Trap 44: a refund after the window rolled.
func TestRefundsBelongToTheirWindow(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{
		"fixed window":   core.PerMinute(10).FixedWindow(),
		"sliding window": core.PerMinute(10).SlidingWindow(),
		"sliding log":    core.PerMinute(10).SlidingLog(),
		"token bucket":   core.PerMinute(10),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				l := limiterOn(t, core.NewMemory(), forAll(limit).RefundOn(core.Failures))
				d := l.AllowKey(t.Context(), "k", 5)
				time.Sleep(3 * time.Minute)
				l.AllowKey(t.Context(), "k", 5)
				d.Settle(core.Outcome{Status: 500})
				check.Equal(t, "left of the new window", unitsLeft(t, l, "k"), 5)
			})
		})
	}
}

// A bucket that is in use all the time gives back all of a charge, however long
// the request took: it has regained what was charged before.
func TestABucketGivesBackWhatItHasNotRegained(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := limiterOn(t, core.NewMemory(), forAll(core.PerMinute(60)).RefundOn(core.Failures))
		l.AllowKey(t.Context(), "k", 40)
		d := l.AllowKey(t.Context(), "k", 20)
		time.Sleep(20 * time.Second)
		d.Settle(core.Outcome{Status: 500})
		check.Equal(t, "left, with 20 regained and 20 given back", unitsLeft(t, l, "k"), 40)
		d = l.AllowKey(t.Context(), "k", 10)
		time.Sleep(25 * time.Second) // of the 20 before and these 10, 5 are left
		d.Settle(core.Outcome{Status: 500})
		check.Equal(t, "left, all of it", unitsLeft(t, l, "k"), 60)
		// An idle client's charge is regained in time, and not given back as well.
		d = l.AllowKey(t.Context(), "k", 10)
		time.Sleep(time.Minute)
		l.AllowKey(t.Context(), "k", 30)
		d.Settle(core.Outcome{Status: 500})
		check.Equal(t, "left, with nothing to give back", unitsLeft(t, l, "k"), 30)
	})
}

func TestChargeTakesThePlaceOfTheEstimate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spent []int64
		want  int64 // of 1000, after an estimate of 100
	}{
		"nothing said": {nil, 900},
		"nothing":      {[]int64{0}, 1000},
		"less":         {[]int64{20, 10}, 970},
		"as much":      {[]int64{60, 40}, 900},
		"more":         {[]int64{60, 60, 60}, 820},
		"far more":     {[]int64{100, 900, 5000}, 0},
	} {
		l := limiterOn(t, core.NewMemory(), forAll(core.PerDay(1000).FixedWindow()).Estimate(100))
		d := l.AllowKey(t.Context(), "k", 100)
		ctx := inHandler(t.Context(), d)
		for _, n := range c.spent {
			if err := core.Spend(ctx, n); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		d.Settle(core.Outcome{Status: 200})
		check.Equal(t, name+": left", unitsLeft(t, l, "k"), c.want)
	}
}

// Trap 49: a refund must not give back units that were reported with Spend.
func TestARefundLeavesWhatChargeHasTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after []int64 // told before the end and after it
		want          int64   // of 1000, after an estimate of 100
	}{
		"nothing said":      {nil, nil, 1000},
		"a part":            {[]int64{20, 10}, nil, 970},
		"all of it":         {[]int64{100}, nil, 900},
		"more":              {[]int64{90, 90}, nil, 820},
		"far more":          {[]int64{100, 400}, nil, 500},
		"only afterwards":   {nil, []int64{30}, 970},
		"on both sides":     {[]int64{30}, []int64{30, 60}, 880},
		"nothing, and more": {[]int64{0}, []int64{0, 7}, 993},
	} {
		for _, algorithm := range []core.Limit{
			core.PerDay(1000).FixedWindow(), core.PerDay(1000), core.PerDay(1000).SlidingLog(), core.PerDay(1000).SlidingWindow(), core.PerMonth(1000, time.UTC),
		} {
			l := limiterOn(t, core.NewMemory(), forAll(algorithm).Estimate(100).RefundOn(core.ServerErrors))
			d := l.AllowKey(t.Context(), "k", 100)
			ctx := inHandler(t.Context(), d)
			charge := func(units []int64) {
				for _, n := range units {
					if err := core.Spend(ctx, n); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
			charge(c.before)
			d.Settle(core.Outcome{Status: 502})
			d.Settle(core.Outcome{Status: 502})
			charge(c.after)
			check.Equal(t, name+": left", unitsLeft(t, l, "k"), c.want)
		}
	}
}

// A long stream is charged while it runs, one estimate at a time, and what comes
// after the handler as well.
func TestChargesReachTheStoreInTime(t *testing.T) {
	t.Parallel()
	l := limiterOn(t, core.NewMemory(), forAll(core.PerDay(1000).FixedWindow()).Estimate(100))
	d := l.AllowKey(t.Context(), "k", 100)
	ctx := inHandler(t.Context(), d)
	for _, step := range []struct{ spend, left int64 }{{150, 900}, {49, 900}, {1, 800}, {100, 700}} {
		must.OK(t, core.Spend(ctx, step.spend))
		check.Equal(t, fmt.Sprintf("left after %d more", step.spend), unitsLeft(t, l, "k"), step.left)
	}
	d.Settle(core.Outcome{})
	must.OK(t, core.Spend(ctx, 7))
	check.Equal(t, "left after a late charge", unitsLeft(t, l, "k"), 693)
}

func TestChargeWhereThereIsNoEstimate(t *testing.T) {
	t.Parallel()
	l := limiterOn(t, core.NewMemory(), forAll(core.PerDay(10)).RefundOn(core.Failures))
	for name, ctx := range map[string]context.Context{
		"no limiter":  t.Context(),
		"no estimate": inHandler(t.Context(), l.AllowKey(t.Context(), "k", 1)),
	} {
		check.Is(t, name, core.Spend(ctx, 1), core.ErrNoEstimate)
	}
	if err := core.Spend(t.Context(), -1); err == nil || errors.Is(err, core.ErrNoEstimate) {
		t.Errorf("negative units: %v", err)
	}
}

// The estimates of all limiters around a handler are corrected, past those that
// have none.
func TestChargeReachesOuterLimiters(t *testing.T) {
	t.Parallel()
	outer := limiterOn(t, core.NewMemory(), forAll(core.PerDay(1000)).Estimate(10))
	middle := limiterOn(t, core.NewMemory(), forAll(core.PerDay(1000)).RefundOn(core.Failures))
	plain := limiterOn(t, core.NewMemory(), forAll(core.PerDay(1000)))
	inner := limiterOn(t, core.NewMemory(), forAll(core.PerDay(1000)).Estimate(20))
	ctx := t.Context()
	var all []core.Decision
	for _, l := range []*core.Limiter{outer, middle, plain, inner} {
		d := l.Allow(&request{ctx: ctx})
		all, ctx = append(all, d), inHandler(ctx, d)
	}
	must.OK(t, core.Spend(ctx, 5))
	for _, d := range all {
		d.Settle(core.Outcome{Status: 200})
	}
	for i, want := range map[int]int64{0: 995, 1: 999, 2: 999, 3: 995} {
		l := []*core.Limiter{outer, middle, plain, inner}[i]
		check.Equal(t, fmt.Sprintf("left of limiter %d", i), unitsLeft(t, l, "all"), want)
	}
}

// However many requests come at once, their estimates hold them back: what is spent beyond
// the limit is what those under way cost beyond their estimates.
func TestParallelRequestsOverrunByTheirEstimatesErrorOnly(t *testing.T) {
	t.Parallel()
	const limit, estimate, requests = 10_000, 500, 64
	l := limiterOn(t, core.NewMemory(), forAll(core.Per(limit, 24*time.Hour).FixedWindow()).Estimate(estimate))
	var mu sync.Mutex
	var spent, excess int64
	var wg sync.WaitGroup
	start := make(chan struct{})
	for n := range int64(requests) {
		wg.Go(func() {
			<-start
			for range 20 {
				d := l.AllowKey(context.Background(), "k", estimate)
				if !d.Allowed {
					return
				}
				cost := 200 + n*13%900 // from less than the estimate to more than double
				mu.Lock()
				spent += cost
				excess += max(cost-estimate, 0)
				mu.Unlock()
				check.OK(t, core.Spend(inHandler(context.Background(), d), cost))
				d.Settle(core.Outcome{Status: 200})
			}
		})
	}
	close(start)
	wg.Wait()
	if spent > limit+excess || spent < limit-estimate {
		t.Errorf("%d units spent of %d, want at most the %d by which estimates were too low more", spent, limit, excess)
	}
	check.Equal(t, fmt.Sprintf("left after %d were spent", spent), unitsLeft(t, l, "k"), max(limit-spent, 0))
}

// A store that is out decides here, and there it is settled.
func TestReservationsOfAnOutageAreSettledWhereTheyWereMade(t *testing.T) {
	t.Parallel()
	store := newFlaky(true)
	l := must.Get(core.New(core.Config{Store: store, Limits: []core.Limit{forAll(core.PerDay(2).FixedWindow()).RefundOn(core.Failures)}}))(t)
	for range 5 {
		d := l.AllowKey(t.Context(), "k", 1)
		must.Equal(t, "decided", outcomeOf(d), outcome{true, core.ReasonOutageLocal})
		d.Settle(core.Outcome{Status: 500})
	}
	drained(t, l)
}

// If a function of the application panics, its own charge stays, and the others are settled.
func TestARefundThatPanicsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	l := limiterOn(t, core.NewMemory(),
		forAll(core.PerDay(9)).Named("panics").RefundOn(func(core.Outcome) bool { panic("on purpose") }),
		running(9),
		forAll(core.PerDay(9)).Named("refunded").RefundOn(core.Failures),
	)
	d := l.AllowKey(t.Context(), "k", 1)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		d.Settle(core.Outcome{Status: 500})
	}()
	after := must.Get(l.Peek(t.Context(), "k", 0))(t)
	for i, want := range []int64{8, 9, 9} {
		check.Equal(t, after.Results()[i].Rule.Name+": left", after.Results()[i].Remaining, want)
	}
}

func TestDrainWaitsForTheFallbackToo(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	second := intercept(func(_ context.Context, call string, _ []core.Check) error {
		if call == "Refund" {
			<-released
		}
		return nil
	})
	l := newLimiter(t, core.Config{
		Store: newFlaky(true), Limits: []core.Limit{everyone(9).RefundOn(core.Canceled)}, Fallback: core.Fallback{Store: &second},
	})
	d := l.AllowKey(t.Context(), "k", 1)
	d.Settle(core.Outcome{Canceled: true})
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	check.Is(t, "Drain, which waits for the store that charged", l.Drain(soon), context.DeadlineExceeded)
	close(released)
	drained(t, l)
	wantDecision(t, "after Drain", l.AllowKey(t.Context(), "k", 9), true, core.ReasonOutageLocal, 0)
}
