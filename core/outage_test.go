package core_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/storetest"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Trap 24: an outage is no denial and a denial no outage; what happens is what
// each limit says.
func TestOutagePolicies(t *testing.T) {
	t.Parallel()
	const n = 2 // units an hour
	limit := func(name string, o core.OutageAction) core.Limit { return everyone(n).Named(name).OnOutage(o) }
	for _, tt := range []struct {
		name   string
		limits []core.Limit
		units  int     // of a request, under the strictest limit
		first  outcome // of each of the first requests, until n units are used
		then   bool    // what comes after them is allowed, for the same reason
		names  string  // whose results there are
	}{
		{"by default, a bucket in the process stands in", []core.Limit{everyone(n)}, 1, outcome{true, core.ReasonOutageLocal}, false, "[default]"},
		{"Local is that default", []core.Limit{limit("a", core.Local)}, 1, outcome{true, core.ReasonOutageLocal}, false, "[a]"},
		{"Allow lets all through", []core.Limit{limit("a", core.Allow)}, 1, outcome{true, core.ReasonOutageAllowed}, true, "[]"},
		{"Deny refuses all", []core.Limit{limit("a", core.Deny)}, 1, outcome{false, core.ReasonOutageDenied}, false, "[]"},
		{"of Allow and Local, Local decides", []core.Limit{limit("a", core.Allow), limit("b", core.Local), limit("c", core.Allow)}, 1, outcome{true, core.ReasonOutageLocal}, false, "[b]"},
		{"of Local and Deny, Deny decides", []core.Limit{limit("a", core.Local), limit("b", core.Deny)}, 1, outcome{false, core.ReasonOutageDenied}, false, "[]"},
		{"of all three, Deny decides", []core.Limit{limit("a", core.Deny), limit("b", core.Local), limit("c", core.Allow)}, 1, outcome{false, core.ReasonOutageDenied}, false, "[]"},
		{"several Locals decide together", []core.Limit{limit("a", core.Local), limit("b", core.Local).Cost(2), limit("c", core.Local)}, 2, outcome{true, core.ReasonOutageLocal}, false, "[a b c]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := limiterOn(t, newFlaky(true), tt.limits...)
			for i := range n + 3 {
				want := tt.first
				if i >= n/tt.units {
					want.Allowed = tt.then
				}
				d := l.Allow(&request{})
				names := []string{}
				for _, r := range d.Results() {
					names = append(names, r.Rule.Name)
				}
				check.Equal(t, fmt.Sprintf("request %d", i+1), outcomeOf(d), want)
				check.Equal(t, "whose results there are", fmt.Sprint(names), tt.names)
				check.Is(t, "Err", d.Err, errDown)
				check.Equal(t, "a limit binds", binding(d) != "", len(names) > 0)
			}
		})
	}
}

func TestOutageDenialIsTheServersFault(t *testing.T) {
	t.Parallel()
	l := limiterOn(t, newFlaky(true), core.PerMinute(60).By(keyfuncs.Everyone()).Named("api").OnOutage(core.Deny))
	d := l.AllowKey(context.Background(), "k", 1)
	check.Equal(t, "status", d.Status(), http.StatusServiceUnavailable)
	check.Equal(t, "to wait", d.RetryAfter, time.Second)
	wantProblem(t, &d, `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporary Reduced Capacity","status":503,"detail":"Service temporarily unavailable. Retry in 1 second."}`)
	wantHeaders(t, &d, `"api";q=60;w=60`, "", "1")
}

func TestOutageDenialOfTheLocalBucketIsTheClientsFault(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLimiter(t, core.Config{Store: newFlaky(true), Replicas: 4, Limits: []core.Limit{
			core.PerMinute(60).By(keyfuncs.Everyone()).Named("api"),
		}})
		d := l.AllowKey(t.Context(), "k", 15)
		wantDecision(t, "a quarter of the limit", d, true, core.ReasonOutageLocal, 0)
		// Policy and remaining units are those of this process.
		wantHeaders(t, &d, `"api";q=15;w=60`, `"api";r=0;t=4`, "")

		d = l.AllowKey(t.Context(), "k", 1)
		wantDecision(t, "one more", d, false, core.ReasonOutageLocal, 0)
		check.Equal(t, "status", d.Status(), http.StatusTooManyRequests)
		wantProblem(t, &d, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"detail":"Rate limit exceeded. Retry in 4 seconds.","violated-policies":["api"]}`)
		wantHeaders(t, &d, `"api";q=15;w=60`, `"api";r=0;t=4`, "4")

		time.Sleep(d.RetryAfter)
		wantDecision(t, "after exactly RetryAfter", l.AllowKey(t.Context(), "k", 1), true, core.ReasonOutageLocal, 0)
	})
}

// Limits that were not asked are left out of RateLimit, and with it what would
// be made up; the policy stays what it is.
func TestOutageHeaders(t *testing.T) {
	t.Parallel()
	a, b := everyone(60).Named("a").OnOutage(core.Allow), core.PerSecond(5).By(keyfuncs.Everyone()).Named("b")
	const policy = `"a";q=60;w=3600, "b";q=5;w=1`
	for _, tt := range []struct {
		name   string
		limits []core.Limit
		limit  string
		retry  string
	}{
		{"all allowed", []core.Limit{a, b.OnOutage(core.Allow)}, "", ""},
		{"one of them local", []core.Limit{a, b}, `"b";r=4;t=1`, ""},
		{"one of them denied", []core.Limit{a, b.OnOutage(core.Deny)}, "", "1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := limiterOn(t, newFlaky(true), tt.limits...).Allow(&request{})
			wantHeaders(t, &d, policy, tt.limit, tt.retry)
		})
	}
}

// Trap 26: the processes together grant the limit, not the limit each.
func TestReplicasShareALimitDuringAnOutage(t *testing.T) {
	t.Parallel()
	grant := func(t *testing.T, limit core.Limit, replicas int) (granted int64) {
		l := newLimiter(t, core.Config{Store: newFlaky(true), Replicas: replicas, Limits: []core.Limit{limit.By(keyfuncs.Everyone())}})
		for l.Allow(&request{}).Allowed {
			granted++
		}
		return granted
	}
	synctest.Test(t, func(t *testing.T) { // in which no window ends
		for _, replicas := range []int{1, 2, 3, 7, 64} {
			for _, quota := range []int64{1, 10, 100} {
				for algorithm, limit := range storetest.Algorithms(quota, time.Hour) {
					sum := int64(0)
					for range replicas {
						granted := grant(t, limit, replicas)
						if granted < 1 {
							t.Errorf("%s of %d, %d replicas: one grants nothing", algorithm, quota, replicas)
						}
						sum += granted
					}
					if sum < quota || sum > quota+int64(replicas) {
						t.Errorf("%s of %d: %d replicas grant %d together", algorithm, quota, replicas, sum)
					}
				}
			}
		}
	})
}

func TestReplicasShareTheBurstToo(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, core.Config{Store: newFlaky(true), Replicas: 10, Limits: []core.Limit{
		core.PerHour(100).Burst(31).By(keyfuncs.Everyone()),
	}})
	d := l.Allow(&request{})
	wantDecision(t, "a tenth of the burst, rounded up, less one", d, true, core.ReasonOutageLocal, 3)
	b, _ := d.Binding()
	check.Equal(t, "quota, burst and window of the local rule", [3]int64{b.Rule.Quota, b.Rule.Burst, int64(b.Rule.Window)}, [3]int64{10, 4, int64(time.Hour)})
}

// What can never be allowed is not allowed by an outage either.
func TestOutageDoesNotAllowACostAboveTheLimit(t *testing.T) {
	t.Parallel()
	d := limiterOn(t, newFlaky(true), everyone(10)).AllowKey(t.Context(), "k", 11)
	wantDecision(t, "11 of 10", d, false, core.ReasonNeverFits, 10)
	check.Equal(t, "to wait", d.RetryAfter, 0)
}

// Trap 26: limiters that share a limit share its stand-in, or each would grant
// the whole of it.
func TestLimitersOfOneStoreShareTheStandIn(t *testing.T) {
	t.Parallel()
	store := newFlaky(true)
	passed := 0
	for range 3 {
		l := limiterOn(t, store, everyone(2).Named("shared"))
		for range 3 {
			if l.Allow(&request{}).Allowed {
				passed++
			}
		}
	}
	check.Equal(t, "requests of three limiters that passed a limit of 2", passed, 2)
}

// A share can be too odd to be counted exactly. It is rounded up then, and the
// whole limit is not granted by each process.
func TestOddSharesAreRoundedUp(t *testing.T) {
	t.Parallel()
	limit := core.Per(60_833_093_277, 24*time.Hour).By(keyfuncs.Everyone())
	l := newLimiter(t, core.Config{Store: newFlaky(true), Replicas: 2, Limits: []core.Limit{limit}})
	d := l.Allow(&request{})
	if b, ok := d.Binding(); !ok || b.Rule.Quota < 30_416_546_639 || b.Rule.Quota > 30_416_546_639+1000 {
		t.Errorf("half of 60,833,093,277 a day is granted as %d", b.Rule.Quota)
	}
}

// A cost that fits the limit but not the share of one process can still be
// paid: the share is at least one request.
func TestOutageWithACostAboveTheShare(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, core.Config{Store: newFlaky(true), Replicas: 5, Limits: []core.Limit{everyone(20).Cost(10)}})
	wantDecision(t, "the first export", l.Allow(&request{}), true, core.ReasonOutageLocal, 0)
	wantDecision(t, "the second export", l.Allow(&request{}), false, core.ReasonOutageLocal, 0)
}

func TestOutageKeepsKeysApart(t *testing.T) {
	t.Parallel()
	l := limiterOn(t, newFlaky(true), core.PerHour(1).By(keyfuncs.User("userID")), everyone(3).Named("all"))
	wantDecision(t, "alice", l.Allow(user("alice")), true, core.ReasonOutageLocal, 0, 2)
	wantDecision(t, "bob", l.Allow(user("bob")), true, core.ReasonOutageLocal, 0, 1)
	// All or none holds in the process as well.
	wantDecision(t, "alice again", l.Allow(user("alice")), false, core.ReasonOutageLocal, 0, 1)
	wantDecision(t, "nobody", l.Allow(&request{}), true, core.ReasonOutageLocal, 0, 0)
}

func TestTheStoreIsUsedAgainWhenItReturns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newFlaky(false)
		l := limiterOn(t, store, everyone(3))
		ask := func() core.Decision { return l.AllowKey(t.Context(), "k", 1) }

		wantDecision(t, "before the outage", ask(), true, core.ReasonWithinLimit, 2)
		store.down.Store(true)
		for i := range int64(3) {
			wantDecision(t, "during the outage", ask(), true, core.ReasonOutageLocal, 2-i)
		}
		wantDecision(t, "during the outage, one too many", ask(), false, core.ReasonOutageLocal, 0)
		store.down.Store(false)

		d := ask()
		wantDecision(t, "after the outage", d, true, core.ReasonWithinLimit, 1)
		check.Equal(t, "Err after the outage", d.Err, nil)
		// What was granted here has been charged there since.
		wantDecision(t, "the next", ask(), false, core.ReasonLimitExceeded, 0)

		// Trap 26: a store that comes and goes hands out no second local budget.
		store.down.Store(true)
		wantDecision(t, "during the next outage", ask(), false, core.ReasonOutageLocal, 0)
	})
}

func TestResetForgetsTheLocalBucketToo(t *testing.T) {
	t.Parallel()
	store := newFlaky(true)
	l := limiterOn(t, store, everyone(1))
	ctx := context.Background()
	wantDecision(t, "the only one", l.AllowKey(ctx, "k", 1), true, core.ReasonOutageLocal, 0)
	wantDecision(t, "one too many", l.AllowKey(ctx, "k", 1), false, core.ReasonOutageLocal, 0)
	check.Is(t, "Reset while the store is out", l.Reset(ctx, "k"), errDown)
	wantDecision(t, "after a reset", l.AllowKey(ctx, "k", 1), true, core.ReasonOutageLocal, 0)
}

// A negative cost is the caller's mistake, whatever the store does.
func TestOutageWithANegativeCost(t *testing.T) {
	t.Parallel()
	store := newFlaky(true)
	d := limiterOn(t, store, everyone(1).OnOutage(core.Allow)).AllowKey(context.Background(), "k", -1)
	wantDecision(t, "a negative cost", d, false, core.ReasonInvalidCost)
	check.OK(t, d.Err)
	check.Equal(t, "calls of the store", store.calls.Load(), 0)
}

// Trap 25: a store that hangs costs a request the deadline, no more.
func TestASlowStoreIsCutAtTheTimeout(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		timeout, want time.Duration
	}{
		"by default": {0, 100 * time.Millisecond},
		"short":      {time.Millisecond, time.Millisecond},
		"long":       {3 * time.Second, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := newFlaky(true)
				store.hang = true
				l := newLimiter(t, core.Config{Store: store, Timeout: tt.timeout, Limits: []core.Limit{everyone(5)}})
				start := time.Now() // of a clock that moves only while all wait

				d := l.Allow(&request{})
				check.Equal(t, "a store that hangs took", time.Since(start), tt.want)
				wantDecision(t, "a store that hangs", d, true, core.ReasonOutageLocal, 4)
				check.Is(t, "Err", d.Err, context.DeadlineExceeded)
				check.Equal(t, "the time that Take was given", store.deadline(t, start), tt.want)

				start = time.Now()
				_, err := l.Peek(t.Context(), "k", 1)
				check.Is(t, "Peek", err, context.DeadlineExceeded)
				check.Equal(t, "Peek took", time.Since(start), tt.want)
				start = time.Now()
				check.Is(t, "Reset", l.Reset(t.Context(), "k"), context.DeadlineExceeded)
				check.Equal(t, "Reset took", time.Since(start), tt.want)
			})
		})
	}
}

// Trap 29: a client that hangs up neither dodges the charge nor makes an outage.
func TestAClientThatHangsUpIsCharged(t *testing.T) {
	t.Parallel()
	parent := context.WithValue(context.Background(), tag{}, "trace")
	gone, cancel := context.WithCancel(parent)
	cancel()
	late, cancelLate := context.WithDeadline(parent, time.Now().Add(-time.Hour))
	defer cancelLate()
	for name, ctx := range map[string]context.Context{"gone": gone, "late": late} {
		for call, ask := range map[string]func(*core.Limiter) core.Decision{
			"Allow":    func(l *core.Limiter) core.Decision { return l.Allow(&request{ctx: ctx}) },
			"AllowKey": func(l *core.Limiter) core.Decision { return l.AllowKey(ctx, "all", 1) },
		} {
			t.Run(fmt.Sprint(call, " for a client that is ", name), func(t *testing.T) {
				t.Parallel()
				store := newFlaky(false)
				l := newLimiter(t, core.Config{Store: store, Limits: []core.Limit{everyone(2)}, Timeout: time.Minute})
				var during error
				store.asked = func(ctx context.Context) { during = ctx.Err() }

				wantDecision(t, "the first", ask(l), true, core.ReasonWithinLimit, 1)
				wantDecision(t, "the second", ask(l), true, core.ReasonWithinLimit, 0)
				wantDecision(t, "the third", ask(l), false, core.ReasonLimitExceeded, 0)
				check.Equal(t, "the end of the store's context", during, nil)
				if left := store.deadline(t, time.Now()); left <= 0 || left > time.Minute {
					t.Errorf("the store was given %v, want the timeout", left)
				}
				check.Equal(t, "the value of the client's context that the store was given", store.seen, "trace")
			})
		}
		// In memory there is nothing to wait for.
		store, _ := at()
		wantDecision(t, "in memory", limiterOn(t, store, everyone(2)).Allow(&request{ctx: ctx}), true, core.ReasonWithinLimit, 1)
	}
}

// Peek and Reset decide nothing: they end with their caller.
func TestPeekAndResetEndWithTheirCaller(t *testing.T) {
	t.Parallel()
	store := newFlaky(true)
	store.hang = true
	l := newLimiter(t, core.Config{Store: store, Limits: []core.Limit{everyone(2)}, Timeout: time.Minute})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := l.Peek(ctx, "k", 1)
	check.Is(t, "Peek", err, context.Canceled)
	check.Is(t, "Reset", l.Reset(ctx, "k"), context.Canceled)
}
