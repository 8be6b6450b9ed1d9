package core_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/storetest"
	"github.com/weblimit/weblimit/keyfuncs"
)

const (
	badName    = `the name must be 1 to 64 of A-Z a-z 0-9 . _ -`
	century    = 100 * 365 * 24 * time.Hour
	madeBy     = `a limit starts with Per, PerSecond, PerMinute, PerHour, PerDay, PerWeek, PerMonth or Concurrent`
	upToBurst  = `UpToBurst belongs to an estimate (Estimate, EstimateBy): a cost that is known can't be less than it is`
	eitherCost = `a limit has either a cost (Cost, CostBy) or an estimate of it (Estimate, EstimateBy), got both`
	sayWho     = `By is missing: say whose requests are counted, such as By(keyfuncs.ClientIP()); AllowKey takes the key instead and ignores it, so any will do there; Guard is for handlers that give the key, and takes none`
	tooLarge   = `quota %d and burst %d per 1s are too large to count exactly`
)

// Trap 8: zero, negative, sub-second and the largest integers are errors at
// construction, never "unlimited" and never "deny for ever".
func TestBadLimitsAreErrors(t *testing.T) {
	t.Parallel()
	all := keyfuncs.Everyone()
	long := strings.Repeat("n", 65)
	for _, tt := range []struct {
		name  string
		limit core.Limit
		want  string // after `weblimit: limit "default": `, or whole
	}{
		{"no quota", core.PerSecond(0), "quota must be at least 1, got 0"},
		{"a negative quota", core.PerMinute(-1), "quota must be at least 1, got -1"},
		{"the smallest quota there is", core.PerHour(math.MinInt64), "quota must be at least 1, got -9223372036854775808"},
		{"a quota above 2^51", core.PerSecond(1<<52 + 1), fmt.Sprintf(tooLarge, int64(1<<52+1), int64(1<<52+1))},
		{"the largest quota there is", core.PerSecond(math.MaxInt64), fmt.Sprintf(tooLarge, int64(math.MaxInt64), int64(math.MaxInt64))},
		{"a fixed window's quota above 2^51", core.PerSecond(1<<51 + 1).FixedWindow(), fmt.Sprintf(tooLarge, int64(1<<51+1), int64(1<<51+1))},
		{"a sliding window's quota above 2^51", core.PerSecond(1<<51 + 1).SlidingWindow(), fmt.Sprintf(tooLarge, int64(1<<51+1), int64(1<<51+1))},
		{"a sliding log's quota above 5000", core.PerDay(5001).SlidingLog(), "a sliding log remembers each request: quota must be at most 5000, got 5001 (SlidingWindow has no such bound)"},

		{"no window", core.Per(1, 0), "window must be at least 1ms, got 0s"},
		{"a negative window", core.Per(1, -time.Minute), "window must be at least 1ms, got -1m0s"},
		{"the smallest window there is", core.Per(1, math.MinInt64), "window must be at least 1ms, got -2562047h47m16.854775808s"},
		{"a window of half a millisecond", core.Per(1, 500*time.Microsecond), "window must be at least 1ms, got 500µs"},
		{"a window just below a millisecond", core.Per(1, time.Millisecond-1), "window must be at least 1ms, got 999.999µs"},
		{"a window with an odd nanosecond", core.Per(1, time.Second+1), "window must be a whole number of microseconds, got 1.000000001s"},
		{"a window above a century", core.Per(1, century+time.Microsecond), "window must be at most 100 years, got 876000h0m0.000001s"},
		{"the largest window there is", core.Per(1, math.MaxInt64), "window must be a whole number of microseconds, got 2562047h47m16.854775807s"},
		{"the largest whole window there is", core.Per(1, time.Duration(math.MaxInt64).Truncate(time.Microsecond)), "window must be at most 100 years, got 2562047h47m16.854775s"},

		{"no burst", core.PerSecond(5).Burst(0), "burst must be at least 1, got 0"},
		{"a negative burst", core.PerSecond(5).Burst(-3), "burst must be at least 1, got -3"},
		{"the smallest burst there is", core.PerSecond(5).Burst(math.MinInt64), "burst must be at least 1, got -9223372036854775808"},
		{"the largest burst there is", core.PerSecond(5).Burst(math.MaxInt64), fmt.Sprintf(tooLarge, 5, int64(math.MaxInt64))},
		{"a burst that takes more than a century to refill", core.PerSecond(5).Burst(1 << 50), "burst must refill within 100 years"},
		{"a burst on a fixed window", core.PerSecond(5).Burst(10).FixedWindow(), "Burst belongs to a token bucket, not to a fixed window"},
		{"a burst on a sliding window", core.PerSecond(5).SlidingWindow().Burst(10), "Burst belongs to a token bucket, not to a sliding window"},
		{"a burst on a sliding log", core.PerSecond(5).Burst(5).SlidingLog(), "Burst belongs to a token bucket, not to a sliding log"},

		{"two windows", core.PerSecond(5).FixedWindow().SlidingWindow(), "a limit has one algorithm, got a fixed window and a sliding window; for both, make two limits"},
		{"a log in a bucket", core.PerSecond(5).SlidingLog().TokenBucket(), "a limit has one algorithm, got a sliding log and a token bucket; for both, make two limits"},
		{"a leaky window", core.PerSecond(5).FixedWindow().LeakyBucket(time.Second), "a limit has one algorithm, got a fixed window and a token bucket; for both, make two limits"},
		{"a leaky bucket as a window", core.PerSecond(5).LeakyBucket(time.Second).SlidingWindow(), "a limit has one algorithm, got a token bucket and a sliding window; for both, make two limits"},
		{"three algorithms, the last the first", core.PerSecond(5).FixedWindow().SlidingLog().FixedWindow(), "a limit has one algorithm, got a sliding log and a fixed window; for both, make two limits"},
		{"a cost up to the burst", core.PerSecond(5).Cost(2).UpToBurst(), upToBurst},
		{"a computed cost up to the burst", core.PerSecond(5).CostBy(costing).UpToBurst(), upToBurst},
		{"an estimate above the burst", core.PerSecond(5).Estimate(6), "cost 6 can never fit: the limit holds at most 5"},
		{"a cost and an estimate", core.PerSecond(5).Cost(2).Estimate(3), eitherCost},
		{"an estimate and a cost", core.PerSecond(5).Estimate(3).Cost(2), eitherCost},
		{"a cost that is computed and an estimate", core.PerSecond(5).CostBy(costing).Estimate(3), eitherCost},
		{"a computed estimate and a cost", core.PerSecond(5).EstimateBy(costing).Cost(2), eitherCost},
		{"a computed estimate and a computed cost", core.PerSecond(5).EstimateBy(costing).CostBy(costing), eitherCost},

		{"no cost", core.PerSecond(5).Cost(0), "cost must be at least 1, got 0"},
		{"a negative cost", core.PerSecond(5).Cost(-1), "cost must be at least 1, got -1"},
		{"the smallest cost there is", core.PerSecond(5).Cost(math.MinInt64), "cost must be at least 1, got -9223372036854775808"},
		{"a cost above the quota", core.PerSecond(5).Cost(6), "cost 6 can never fit: the limit holds at most 5"},
		{"a cost above the burst", core.PerSecond(50).Burst(5).Cost(6), "cost 6 can never fit: the limit holds at most 5"},
		{"a cost above a window's quota", core.PerSecond(5).FixedWindow().Cost(6), "cost 6 can never fit: the limit holds at most 5"},
		{"a cost that would overflow", core.PerSecond(5).Cost(math.MaxInt64), "cost 9223372036854775807 can never fit: the limit holds at most 5"},

		{"jitter on a token bucket", core.PerSecond(5).Jitter(), "jitter belongs to windows, not to a token bucket"},
		{"jitter on a sliding log", core.PerSecond(5).Jitter().SlidingLog(), "jitter belongs to windows, not to a sliding log"},
		{"no slots", core.Concurrent(0), "quota must be at least 1, got 0"},
		{"more slots than can be kept", core.Concurrent(5001), "a concurrency limit can be at most 5000, got 5001"},
		{"a cost above the slots", core.Concurrent(5).Cost(6), "cost 6 can never fit: the limit holds at most 5"},
		{"no lease", core.Concurrent(5).Lease(0), "the lease must be from 1s to 24h, in whole microseconds, got 0s"},
		{"a lease that ends between renewals", core.Concurrent(5).Lease(time.Second - time.Microsecond), "the lease must be from 1s to 24h, in whole microseconds, got 999.999ms"},
		{"a lease of more than a day", core.Concurrent(5).Lease(25 * time.Hour), "the lease must be from 1s to 24h, in whole microseconds, got 25h0m0s"},
		{"a lease with an odd nanosecond", core.Concurrent(5).Lease(time.Second + 1), "the lease must be from 1s to 24h, in whole microseconds, got 1.000000001s"},
		{"a lease of a rate", core.PerSecond(5).Lease(time.Minute), "Lease belongs to a concurrency limit, not to a token bucket"},
		{"a negative debt", core.PerHour(5).Debt(-1), "the debt must be at least 0, got -1"},
		{"a debt that is too large", core.PerHour(5).Debt(1 << 52), "a debt of 4503599627370496 units beyond 5 is too large to count exactly"},
		{"a debt that takes two centuries", core.Per(1, 100*365*24*time.Hour).Debt(2), "a debt of 2 units beyond 1 is too large to count exactly"},
		{"slots that are owed", core.Concurrent(5).Debt(1), "a debt belongs to limits that count requests, not to a concurrency limit"},
		{"jitter of windows that begin with first use", core.PerHour(5).FromFirstUse().Jitter(), "jitter belongs to windows of the clock: those that begin with first use are spread as their first requests are"},
		{"a sliding window that begins with first use", core.PerHour(5).FromFirstUse().SlidingWindow(), "a limit has one algorithm, got a fixed window and a sliding window; for both, make two limits"},
		{"a burst of windows that begin with first use", core.PerHour(5).FromFirstUse().Burst(6), "Burst belongs to a token bucket, not to a fixed window"},
		{"slots from first use", core.Concurrent(5).FromFirstUse(), "a concurrency limit can have no other algorithm, got a fixed window"},
		{"a calendar from first use", core.PerMonth(5, time.UTC).FromFirstUse(), "a limit per month or calendar day can't be a fixed window: its window is the calendar's"},
		{"a burst of slots", core.Concurrent(5).Burst(6), "a concurrency limit can have neither Burst nor Jitter"},
		{"jitter of slots", core.Concurrent(5).Jitter(), "a concurrency limit can have neither Burst nor Jitter"},
		{"slots in a window", core.Concurrent(5).FixedWindow(), "a concurrency limit can have no other algorithm, got a fixed window"},
		{"slots in a bucket", core.Concurrent(5).TokenBucket(), "a concurrency limit can have no other algorithm, got a token bucket"},
		{"slots that are taken once", core.Concurrent(5).OncePer(keyfuncs.Header("Idempotency-Key"), time.Hour), "OncePer belongs to limits that count requests, not to a concurrency limit"},

		{"operations without a key function", core.PerSecond(5).OncePer(keyfuncs.Func{}, time.Hour), "OncePer: keyfuncs: the zero Func makes no key, use a constructor such as keyfuncs.ClientIP"},
		{"operations that are known for no time", core.PerSecond(5).OncePer(all, 0), "OncePer: the ttl must be from 1s to 31 days, in whole microseconds, got 0s"},
		{"operations that are known for a moment", core.PerSecond(5).OncePer(all, time.Second-time.Microsecond), "OncePer: the ttl must be from 1s to 31 days, in whole microseconds, got 999.999ms"},
		{"operations that are known for two months", core.PerSecond(5).OncePer(all, 61*24*time.Hour), "OncePer: the ttl must be from 1s to 31 days, in whole microseconds, got 1464h0m0s"},
		{"repeats of nothing", core.PerSecond(5).Repeats(3), "Repeats belongs to OncePer: it sets how many repeats of an operation are free"},
		{"no repeats", core.PerSecond(5).OncePer(all, time.Hour).Repeats(0), "free repeats must be from 1 to 1000, got 0"},
		{"too many repeats", core.PerSecond(5).OncePer(all, time.Hour).Repeats(1001), "free repeats must be from 1 to 1000, got 1001"},
		{"operations that are known for an odd nanosecond", core.PerSecond(5).OncePer(all, time.Second+1), "OncePer: the ttl must be from 1s to 31 days, in whole microseconds, got 1.000000001s"},

		{"an outage action that does not exist", core.PerSecond(5).OnOutage(core.OutageAction(3)), "unknown outage action 3"},

		{"no name", core.PerSecond(5).Named(""), `weblimit: limit "": ` + badName},
		{"a name that is too long", core.PerSecond(5).Named(long), `weblimit: limit "` + long + `": ` + badName},
		{"a name with a space", core.PerSecond(5).Named("per key"), `weblimit: limit "per key": ` + badName},
		{"a name with a quote", core.PerSecond(5).Named(`a";q=1`), `weblimit: limit "a\";q=1": ` + badName},
		{"a name with a backslash", core.PerSecond(5).Named(`a\b`), `weblimit: limit "a\\b": ` + badName},
		{"a name with a line break", core.PerSecond(5).Named("a\r\nSet-Cookie: b"), `weblimit: limit "a\r\nSet-Cookie: b": ` + badName},
		{"a name with a NUL", core.PerSecond(5).Named("a\x00"), `weblimit: limit "a\x00": ` + badName},
		{"a name in another alphabet", core.PerSecond(5).Named("клиент"), `weblimit: limit "клиент": ` + badName},
		{"a name that is no UTF-8", core.PerSecond(5).Named("a\xff"), `weblimit: limit "a\xff": ` + badName},
		{"a name with braces", core.PerSecond(5).Named("{a}"), `weblimit: limit "{a}": ` + badName},

		{"the zero limit", core.Limit{}, `weblimit: limit "": ` + madeBy},
		{"the zero limit with a name", core.Limit{}.Named("zero").Burst(1), `weblimit: limit "zero": ` + madeBy},
		{"the zero limit with an algorithm", core.Limit{}.FixedWindow().Named("zero").Cost(1), `weblimit: limit "zero": quota must be at least 1, got 0`},
		{"a name besides other faults", core.PerSecond(0).Named("key").Burst(0), `weblimit: limit "key": quota must be at least 1, got 0`},
		{"a burst of a limit with a name", core.PerSecond(5).Named("key").Burst(0), `weblimit: limit "key": burst must be at least 1, got 0`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			want := tt.want
			if !strings.HasPrefix(want, "weblimit: ") {
				want = `weblimit: limit "default": ` + want
			}
			_, err := tt.limit.Rule()
			check.Equal(t, "Rule", fmt.Sprint(err), want)
			l, err := core.New(core.Config{Store: core.NewMemory(), Limits: []core.Limit{tt.limit.By(all)}})
			check.All(t, "New", []any{l, err}, nil, want)
		})
	}
}

// All algorithms share one set of checks; none may be forgotten by one of them.
func TestBadNumbersAreErrorsForEachAlgorithm(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]struct {
		quota  int64
		window time.Duration
	}{
		"no quota":                {0, time.Second},
		"a negative quota":        {-1, time.Second},
		"the smallest quota":      {math.MinInt64, time.Second},
		"the largest quota":       {math.MaxInt64, time.Second},
		"no window":               {1, 0},
		"a negative window":       {1, -time.Second},
		"half a millisecond":      {1, 500 * time.Microsecond},
		"an odd nanosecond":       {1, time.Second + 1},
		"more than a century":     {1, century + time.Microsecond},
		"the longest window":      {1, math.MaxInt64},
		"the largest of both":     {math.MaxInt64, math.MaxInt64},
		"the smallest of both":    {math.MinInt64, math.MinInt64},
		"the largest in a moment": {math.MaxInt64, time.Millisecond},
	} {
		for algorithm, limit := range storetest.Algorithms(bad.quota, bad.window) {
			if r, err := limit.Rule(); err == nil {
				t.Errorf("%s with %s: no error, but %+v", algorithm, name, r)
			} else if !strings.HasPrefix(err.Error(), "weblimit: limit ") || r != (core.Rule{}) {
				t.Errorf("%s with %s: error %q and rule %+v", algorithm, name, err, r)
			}
		}
	}
}

func TestWhoIsLimitedIsSaidOnPurpose(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		limit core.Limit
		want  string
	}{
		{"no By", core.PerHour(5), `weblimit: limit "default": ` + sayWho},
		{"a By of nothing", core.PerHour(5).Named("key").By(), `weblimit: limit "key": ` + sayWho},
		{"a bad key", core.PerHour(5).By(keyfuncs.Header("")), `weblimit: limit "default": ` + reason(keyfuncs.Header(""))},
		{"a bad key among good ones", core.PerHour(5).By(keyfuncs.Everyone(), keyfuncs.Cookie("a b")), `weblimit: limit "default": ` + reason(keyfuncs.Cookie("a b"))},
		{"the zero key", core.PerHour(5).By(keyfuncs.Func{}), `weblimit: limit "default": ` + reason(keyfuncs.Func{})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := tt.limit.Rule(); err != nil {
				t.Errorf("the numbers are good, and Rule says %v", err)
			}
			l, err := core.New(core.Config{Store: core.NewMemory(), Limits: []core.Limit{tt.limit}})
			check.All(t, "New", []any{l, err}, nil, tt.want)
		})
	}
}

func TestGoodLimitsAtTheEdges(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		limit  core.Limit
		quota  int64
		window time.Duration
		burst  int64
	}{
		{"one a millisecond", core.Per(1, time.Millisecond), 1, time.Millisecond, 1},
		{"one in an odd number of microseconds", core.Per(1, 1234567*time.Microsecond), 1, 1234567 * time.Microsecond, 1},
		{"one a century", core.Per(1, century), 1, century, 1},
		{"2^51 a second", core.PerSecond(1 << 51), 1 << 51, time.Second, 1 << 51},
		{"2^51 in a fixed window of a century", core.Per(1<<51, century).FixedWindow(), 1 << 51, century, 1 << 51},
		{"2^51 in a sliding window of a second", core.PerSecond(1 << 51).SlidingWindow(), 1 << 51, time.Second, 1 << 51},
		{"a sliding log of 5000", core.PerDay(5000).SlidingLog(), 5000, 24 * time.Hour, 5000},
		{"a burst below the quota", core.PerMinute(600).Burst(10), 600, time.Minute, 10},
		{"a burst that takes a century to refill", core.PerSecond(1).Burst(int64(century / time.Second)), 1, time.Second, int64(century / time.Second)},
		{"a cost of the whole burst", core.PerMinute(600).Burst(10).Cost(10), 600, time.Minute, 10},
		{"jitter on a sliding window", core.PerMinute(6).Jitter().SlidingWindow(), 6, time.Minute, 6},
		{"a name of one letter", core.PerMinute(6).Named("x"), 6, time.Minute, 6},
		{"a name of all that is allowed", core.PerMinute(6).Named("AZaz09._-" + strings.Repeat("n", 55)), 6, time.Minute, 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := must.Get(tt.limit.Rule())(t)
			check.Equal(t, "quota, window and burst", [3]int64{r.Quota, int64(r.Window), r.Burst}, [3]int64{tt.quota, int64(tt.window), tt.burst})
		})
	}
}

func TestConstructorsDifferInTheirWindow(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limit core.Limit
		want  time.Duration
	}{
		"PerSecond": {core.PerSecond(3), time.Second},
		"PerMinute": {core.PerMinute(3), time.Minute},
		"PerHour":   {core.PerHour(3), time.Hour},
		"PerDay":    {core.PerDay(3), 24 * time.Hour},
		"PerWeek":   {core.PerWeek(3), 7 * 24 * time.Hour},
	} {
		r := must.Get(tt.limit.Rule())(t)
		check.All(t, name, []any{r.Name, r.Algorithm, r.Quota, r.Burst, r.Window, r.Jitter}, "default", store.TokenBucket, 3, 3, tt.want, false)
	}
}

func TestDecoratorsReturnCopies(t *testing.T) {
	t.Parallel()
	base := core.PerMinute(600).By(keyfuncs.Everyone(), keyfuncs.Route()).Named("base")
	before := fmt.Sprintf("%#v", base)
	for name, decorate := range map[string]func() core.Limit{
		"By":            func() core.Limit { return base.By(keyfuncs.ClientIP(), keyfuncs.Method()) },
		"Named":         func() core.Limit { return base.Named("other") },
		"Burst":         func() core.Limit { return base.Burst(7) },
		"TokenBucket":   func() core.Limit { return base.FixedWindow().TokenBucket().Cost(2) },
		"FixedWindow":   base.FixedWindow,
		"SlidingWindow": base.SlidingWindow,
		"SlidingLog":    base.SlidingLog,
		"Jitter":        base.Jitter,
		"FromFirstUse":  base.FromFirstUse,
		"Cost":          func() core.Limit { return base.Cost(5) },
		"OnOutage":      func() core.Limit { return base.OnOutage(core.Deny) },
	} {
		if changed := fmt.Sprintf("%#v", decorate()); changed == before {
			t.Errorf("%s changed nothing", name)
		}
		must.Equal(t, "the limit that "+name+" was called on", fmt.Sprintf("%#v", base), before)
	}
}

func TestByKeepsNoSliceOfTheCaller(t *testing.T) {
	t.Parallel()
	keys := []keyfuncs.Func{keyfuncs.User("userID"), keyfuncs.Everyone()}
	limit := core.PerHour(1).By(keys...)
	keys[0], keys[1] = keyfuncs.Func{}, keyfuncs.Func{}

	l := limiterAt(t, limit)
	wantDecision(t, "alice", l.Allow(user("alice")), true, core.ReasonWithinLimit, 0)
	wantDecision(t, "bob", l.Allow(user("bob")), true, core.ReasonWithinLimit, 0)
	wantDecision(t, "alice again", l.Allow(user("alice")), false, core.ReasonLimitExceeded, 0)
}

func TestRuleOfALimitIsComparable(t *testing.T) {
	t.Parallel()
	rule := func(l core.Limit) core.Rule {
		return must.Get(l.Rule())(t)
	}
	limit := core.PerMinute(60).Named("a")
	check.Equal(t, "the rule, of which key, cost and outage action are no part", rule(limit), rule(limit.By(keyfuncs.Everyone()).Cost(3).OnOutage(core.Allow)))
	check.Equal(t, "the rule with the burst that a limit has by default", rule(limit), rule(limit.Burst(60)))
	for name, other := range map[string]core.Limit{
		"name":      limit.Named("b"),
		"burst":     limit.Burst(61),
		"algorithm": limit.FixedWindow(),
		"quota":     core.PerMinute(61).Named("a"),
		"window":    core.PerSecond(60).Named("a"),
	} {
		if rule(limit) == rule(other) {
			t.Errorf("another %s makes no other rule", name)
		}
	}
	if rule(limit.FixedWindow()) == rule(limit.FixedWindow().Jitter()) {
		t.Error("jitter makes no other rule")
	}
	if rule(limit.FixedWindow()) == rule(limit.FromFirstUse()) {
		t.Error("first use makes no other rule")
	}
	check.Equal(t, "the rule of a window that begins with first use, named as such", rule(limit.FixedWindow().FromFirstUse().FromFirstUse()), rule(limit.FromFirstUse()))
}

// reason returns the error of a key function, without the prefix that the
// limit's error has already.
func reason(key keyfuncs.Func) string { return strings.TrimPrefix(key.Err().Error(), "weblimit: ") }
