package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// login is a limit of two a minute that blocks for ten minutes at the third of
// three denials within an hour.
func login() core.Limit {
	return loginBy(keyfuncs.ClientIP(), core.Block{After: 3, Within: time.Hour, For: 10 * time.Minute})
}

func loginBy(key keyfuncs.Func, block core.Block) core.Limit {
	return core.PerMinute(2).SlidingLog().By(key).Named("login").Penalty(block)
}

func TestBadPenaltiesAreErrors(t *testing.T) {
	t.Parallel()
	good := core.Block{After: 3, Within: time.Hour, For: time.Minute}
	for _, tt := range []struct {
		name string
		with func(*core.Block)
		want string // after `weblimit: limit "login": `
	}{
		{"nothing", func(b *core.Block) { *b = core.Block{} }, "Block.After must be from 1 to 2^31, got 0"},
		{"a negative number", func(b *core.Block) { b.After = -1 }, "Block.After must be from 1 to 2^31, got -1"},
		{"too large a number", func(b *core.Block) { b.After = 1<<31 + 1 }, "Block.After must be from 1 to 2^31, got 2147483649"},
		{"no time in which denials count", func(b *core.Block) { b.Within = 0 }, "Block.Within must be positive, got 0s"},
		{"less than a microsecond", func(b *core.Block) { b.Within = 1 }, "Block.Within must be a whole number of microseconds, got 1ns"},
		{"no length", func(b *core.Block) { b.For = 0 }, "Block.For must be positive, got 0s"},
		{"a negative length", func(b *core.Block) { b.For = -time.Second }, "Block.For must be positive, got -1s"},
		{"an odd length", func(b *core.Block) { b.For++ }, "Block.For must be a whole number of microseconds, got 1m0.000000001s"},
		{"more than 10 years", func(b *core.Block) { b.For = 11 * 365 * 24 * time.Hour }, "Block.For must be at most 10 years"},
		{"a negative factor", func(b *core.Block) { b.Factor = -1 }, "Block.Factor must be from 1 to 1000, got -1"},
		{"too large a factor", func(b *core.Block) { b.Factor = 1001 }, "Block.Factor must be from 1 to 1000, got 1001"},
		{"less at most than at first", func(b *core.Block) { b.Max = time.Second }, "Block.Max must be at least Block.For, got 1s and 1m0s"},
		{"a negative maximum", func(b *core.Block) { b.Max = -1 }, "Block.Max must be positive, got -1ns"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			block := good
			tt.with(&block)
			_, err := core.New(core.Config{Store: core.NewMemory(), Limits: []core.Limit{loginBy(keyfuncs.ClientIP(), block)}})
			check.Equal(t, "error", fmt.Sprint(err), `weblimit: limit "login": `+tt.want)
		})
	}
}

func TestDefaultsOfAPenalty(t *testing.T) {
	t.Parallel()
	b := core.Block{After: 3, Within: time.Hour, For: time.Minute}
	for want, block := range map[core.Block]core.Block{
		{After: 3, Within: time.Hour, For: time.Minute, Factor: 2, Max: 24 * time.Hour}:          b,
		{After: 3, Within: time.Hour, For: 48 * time.Hour, Factor: 2, Max: 48 * time.Hour}:       {After: 3, Within: time.Hour, For: 48 * time.Hour},
		{After: 3, Within: time.Hour, For: time.Minute, Factor: 1, Max: time.Minute}:             {After: 3, Within: time.Hour, For: time.Minute, Factor: 1, Max: time.Minute},
		{After: 1 << 31, Within: time.Microsecond, For: 1000, Factor: 1000, Max: 24 * time.Hour}: {After: 1 << 31, Within: time.Microsecond, For: 1000, Factor: 1000},
	} {
		rule := mustRule(t, core.PerHour(1).Penalty(block))
		check.All(t, "the block", []any{rule.Block, rule.Penalized()}, want, true)
	}
	plain := mustRule(t, core.PerHour(1))
	check.All(t, "a limit without a penalty", []any{plain.Block, plain.Penalized()}, core.Block{}, false)
}

func TestTooManyPenaltiesAreAnError(t *testing.T) {
	t.Parallel()
	var limits []core.Limit
	for i := range 128 {
		limits = append(limits, login().Named(fmt.Sprint("login", i)))
	}
	want := "weblimit: Config.Limits counts for 256 limits, with each OncePer and each Penalty for another: the most is 255"
	_, err := core.New(core.Config{Store: core.NewMemory(), Limits: limits})
	check.Equal(t, "error", fmt.Sprint(err), want)
	limiterOn(t, core.NewMemory(), limits[:127]...).AllowKey(t.Context(), "k", 1)
	want = "weblimit: Config.Fallback counts for 256 limits, with each OncePer and each Penalty for another: the most is 255"
	_, err = core.New(core.Config{Store: core.NewMemory(), Limits: limits[:1], Fallback: core.Fallback{Limits: limits}})
	check.Equal(t, "error", fmt.Sprint(err), want)
}

// A client is told why, and for how long; waiting exactly so long is enough, and
// a client that goes on is blocked for longer.
func TestABlockedClient(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := limiterOn(t, core.NewMemory(), login(), everyone(1000))
		ask := func() core.Decision { return l.AllowKey(t.Context(), "ip:192.0.2.1", 1) }
		for _, block := range []time.Duration{10 * time.Minute, 20 * time.Minute, 40 * time.Minute} {
			for _, want := range []core.Reason{core.ReasonWithinLimit, core.ReasonWithinLimit, core.ReasonLimitExceeded, core.ReasonLimitExceeded, core.ReasonBlocked, core.ReasonBlocked} {
				must.Equal(t, "decided", outcomeOf(ask()), outcome{want == core.ReasonWithinLimit, want})
			}
			time.Sleep(block / 2)
			d := ask()
			b, _ := d.Binding()
			check.All(t, "half way", []any{binding(d), b.Blocked, d.RetryAfter, d.Status()}, "login", true, block/2, http.StatusTooManyRequests)
			if log := d.LogValue().String(); !strings.Contains(log, "reason=blocked") || !strings.Contains(log, "limit=login") {
				t.Errorf("logged as %s", log)
			}
			time.Sleep(d.RetryAfter)
		}
		wantAllowed(t, "after exactly RetryAfter", ask())
	})
}

func TestTheBodyOfABlock(t *testing.T) {
	t.Parallel()
	penalty := core.Block{After: 3, Within: time.Hour, For: time.Hour}
	limits := []core.Limit{everyone(5).Named("a").Penalty(penalty), everyone(5).Named("b").Penalty(penalty)}
	const (
		head  = `{"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected","title":"Abnormal Usage Detected","status":429,"detail":"Blocked after exceeding the limit repeatedly.`
		over  = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"detail":"Rate limit exceeded.`
		never = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"detail":"The request costs more than the limit ever allows.`
	)
	blocked := func(d time.Duration) core.Result { return core.Result{Blocked: true, RetryAfter: d, Window: d} }
	exceeded := func(d time.Duration) core.Result { return core.Result{RetryAfter: d} }
	fine := core.Result{Allowed: true, Remaining: 3}
	for _, tt := range []struct {
		name    string
		results []core.Result
		reason  core.Reason
		want    string
	}{
		{"one limit blocks", []core.Result{blocked(time.Minute), fine}, core.ReasonBlocked, head + ` Retry in 60 seconds.","violated-policies":["a"]}`},
		{"a second is left", []core.Result{fine, blocked(1)}, core.ReasonBlocked, head + ` Retry in 1 second.","violated-policies":["b"]}`},
		{"another is exceeded for less", []core.Result{exceeded(time.Second), blocked(time.Minute)}, core.ReasonBlocked, head + ` Retry in 60 seconds.","violated-policies":["a","b"]}`},
		{"another is exceeded for longer", []core.Result{exceeded(time.Hour), blocked(time.Minute)}, core.ReasonLimitExceeded, over + ` Retry in 3600 seconds.","violated-policies":["a","b"]}`},
		{"another can never be paid", []core.Result{exceeded(0), blocked(time.Minute)}, core.ReasonNeverFits, never + `","violated-policies":["a","b"]}`},
	} {
		d := decided(t, limits, tt.results...)
		check.Equal(t, tt.name, outcomeOf(d), outcome{false, tt.reason})
		wantProblem(t, &d, tt.want)
	}
	d := decided(t, limits, blocked(90*time.Second), fine)
	wantHeaders(t, &d, `"a";q=5;w=3600, "b";q=5;w=3600`, `"a";r=0;t=90, "b";r=3;t=1`, "90")

	l := newLimiter(t, core.Config{Store: newScripted([]core.Result{blocked(time.Minute)}...), Limits: limits[:1], Details: map[string]func(core.Decision) string{
		"de": func(d core.Decision) string { return fmt.Sprint("Gesperrt: ", d.Reason == core.ReasonBlocked) },
	}})
	d = l.AllowKey(t.Context(), "k", 1)
	body, language := d.AppendProblem(nil, "de-CH")
	p := parseProblem(t, body)
	check.All(t, "in German", []any{p.Detail, language, p.Type}, "Gesperrt: true", "de", abnormalUsage)
}

func TestAShadowsBlockDeniesNobody(t *testing.T) {
	t.Parallel()
	l := limiterOn(t, core.NewMemory(), login().Shadow(), everyone(1000))
	for range 10 {
		if d := l.AllowKey(t.Context(), "k", 1); !d.Allowed {
			t.Fatalf("denied because %v", d.Reason)
		}
	}
	d := l.AllowKey(t.Context(), "k", 1)
	check.All(t, "reported", []any{d.Reason, d.Results()[0].Blocked}, core.ReasonShadowed, true)
}

// Trap: one client without a key has all others without one blocked.
func TestTheSharedBucketIsNeverBlocked(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		byUser := loginBy(keyfuncs.User("userID"), core.Block{After: 3, Within: time.Hour, For: 10 * time.Minute})
		for name, limit := range map[string]core.Limit{
			"plain":    byUser,
			"scaled":   byUser.Scale(func(context.Context) float64 { return 0.5 }),
			"tiers":    byUser.Tiers(func(keyfuncs.Request) core.Limit { return core.PerHour(2) }),
			"reserved": core.PerHour(4).By(keyfuncs.User("userID")).Named("login").KeepFree(0.5, keyfuncs.Methods("POST")).Penalty(core.Block{After: 3, Within: time.Hour, For: 10 * time.Minute}),
		} {
			l := limiterOn(t, core.NewMemory(), limit, everyone(1000))
			for range 20 {
				if d := l.Allow(&request{}); d.Reason == core.ReasonBlocked {
					t.Fatalf("%s: requests without a user are blocked", name)
				}
			}
			d := l.Allow(&request{})
			check.Equal(t, name+": a request without a user", outcomeOf(d), outcome{false, core.ReasonLimitExceeded})
			time.Sleep(d.RetryAfter)
			wantAllowed(t, name+": after exactly RetryAfter", l.Allow(&request{}))
			check.Equal(t, name+": blocked", len(blocksOf(t, l)), 0)
			for range 20 {
				l.Allow(user("mallory"))
			}
			check.Equal(t, name+": a user is denied because", l.Allow(user("mallory")).Reason, core.ReasonBlocked)
		}
	})
}

func TestATierKeepsThePenalty(t *testing.T) {
	t.Parallel()
	l := limiterOn(t, core.NewMemory(), login().Tiers(func(keyfuncs.Request) core.Limit {
		return core.PerHour(1).Penalty(core.Block{}) // whose penalty is not read
	}))
	var reasons []core.Reason
	for range 4 {
		d := l.Allow(&request{peer: "192.0.2.1"})
		reasons = append(reasons, d.Reason)
	}
	check.Slices(t, "reasons", reasons, []core.Reason{core.ReasonWithinLimit, core.ReasonLimitExceeded, core.ReasonLimitExceeded, core.ReasonBlocked})
}

// During an outage the process counts and blocks by itself, and the store hears
// nothing of it.
func TestBlocksDuringAnOutage(t *testing.T) {
	t.Parallel()
	store := newFlaky(true)
	l := newLimiter(t, core.Config{Store: store, Replicas: 2, Limits: []core.Limit{login()}})
	for i := range 5 {
		d := l.AllowKey(t.Context(), "k", 1)
		r := d.Results()[0]
		check.All(t, fmt.Sprintf("request %d", i+1), []any{d.Allowed, d.Reason, r.Blocked}, i == 0, core.ReasonOutageLocal, i >= 3)
		check.Equal(t, fmt.Sprintf("request %d: the body says that it is blocked", i+1), strings.Contains(problemBody(d), abnormalUsage), r.Blocked)
	}
	must.OK(t, l.Unblock(t.Context(), "k"))
	d := l.AllowKey(t.Context(), "k", 1)
	check.All(t, "after the block was lifted, what was used stays so: allowed and blocked", []any{d.Allowed, d.Results()[0].Blocked}, false, false)
	store.down.Store(false)
	if d := l.AllowKey(t.Context(), "k", 1); !d.Allowed {
		t.Errorf("the store denies because %v", d.Reason)
	}
	check.Equal(t, "blocks listed", len(blocksOf(t, l)), 0)
}

func blocksOf(t testing.TB, l *core.Limiter) []store.Blocked {
	t.Helper()
	var all []store.Blocked
	for b, err := range l.Blocks(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}

func TestBlocksThatCannotBeChanged(t *testing.T) {
	t.Parallel()
	l := limiterOn(t, core.NewMemory(), login(), everyone(5).Named("plain"), login().Named("trial").Shadow())
	for _, tt := range []struct {
		limit string
		d     time.Duration
		want  string
	}{
		{"log-in", time.Hour, `weblimit: the limiter has no limit "log-in"`},
		{"trial", time.Hour, `weblimit: limit "trial" blocks nobody: it is in shadow mode`},
		{"login", 0, `weblimit: limit "login": a block must be positive, got 0s`},
		{"login", 11 * 365 * 24 * time.Hour, `weblimit: limit "login": a block must be at most 10 years`},
	} {
		check.Equal(t, "error", fmt.Sprint(l.Block(t.Context(), tt.limit, "k", tt.d)), tt.want)
	}
}

// Without a deployment, while somebody is attacked: no limit needs a Penalty to block a client.
func TestAnyLimitBlocks(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string][]core.Limit{
		"one limit":      {core.PerHour(5).By(keyfuncs.ClientIP()).Named("plain")},
		"several limits": {everyone(50).Named("everyone"), core.PerHour(5).By(keyfuncs.ClientIP()).Named("plain")},
		"with a penalty": {login().Named("login"), core.PerHour(5).By(keyfuncs.ClientIP()).Named("plain")},
		"an operation":   {core.PerHour(5).By(keyfuncs.ClientIP()).Named("plain").OncePer(keyfuncs.Header("Idempotency-Key"), time.Hour)},
		"slots":          {core.Concurrent(5).By(keyfuncs.ClientIP()).Named("plain")},
		"a queue":        {core.PerHour(5).By(keyfuncs.ClientIP()).Named("plain").Wait(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := limiterOn(t, core.NewMemory(), limits...)
			other, blocked := &request{peer: "192.0.2.8"}, &request{peer: "192.0.2.7", headers: map[string]string{"Idempotency-Key": "a"}}
			must.Equal(t, "before", l.Allow(blocked).Allowed, true)
			must.OK(t, l.Block(t.Context(), "plain", "ip:192.0.2.7", time.Hour))
			for range 2 {
				d := l.Allow(blocked)
				check.All(t, "blocked", []any{d.Allowed, d.Reason, d.RetryAfter > 59*time.Minute}, false, core.ReasonBlocked, true)
			}
			check.Equal(t, "somebody else", l.Allow(other).Allowed, true)
			listed := blocksOf(t, l)
			must.Equal(t, "blocks", len(listed), 1)
			check.All(t, "the block", []any{listed[0].Limit, listed[0].Key, listed[0].Level}, "plain", "ip:192.0.2.7", int64(0))
			must.OK(t, l.Unblock(t.Context(), listed[0].Key))
			check.Equal(t, "after", l.Allow(blocked).Allowed, true)
		})
	}
}

// What is listed can be lifted and set again, however odd the key is.
func TestAListedKeyIsTakenAsItIs(t *testing.T) {
	t.Parallel()
	l := limiterOn(t, core.NewMemory(), core.PerHour(1).By(keyfuncs.User("id")).Named("user").Penalty(core.Block{After: 1, Within: time.Hour, For: time.Hour}))
	ask := map[string]func() core.Decision{
		"user:alice":       func() core.Decision { return l.Allow(&request{values: map[any]any{"id": "alice"}}) },
		"a key of its own": func() core.Decision { return l.AllowKey(t.Context(), "tenant:42", 1) },
		"a hashed key":     func() core.Decision { return l.AllowKey(t.Context(), "{odd}", 1) },
	}
	for name, ask := range ask {
		ask()
		must.Equal(t, name, ask().Reason, core.ReasonBlocked)
		listed := blocksOf(t, l)
		if len(listed) != 1 || listed[0].Limit != "user" || listed[0].Level != 1 {
			t.Fatalf("%s: listed %+v", name, listed)
		}
		must.OK(t, l.Unblock(t.Context(), listed[0].Key))
		if d := ask(); d.Reason == core.ReasonLimitExceeded || !d.Results()[0].Blocked {
			t.Errorf("%s: %v, want a block anew", name, d.Reason)
		}
		must.OK(t, errors.Join(l.Unblock(t.Context(), listed[0].Key), l.Block(t.Context(), "user", listed[0].Key, time.Minute)))
		check.Equal(t, name+": blocked by hand", ask().Reason, core.ReasonBlocked)
		must.OK(t, l.Reset(t.Context(), listed[0].Key))
		check.OK(t, l.Unblock(t.Context(), listed[0].Key))
		check.Equal(t, name+": still listed after Unblock", len(blocksOf(t, l)), 0)
	}
}

func TestAListEndsWithItsReader(t *testing.T) {
	t.Parallel()
	l := limiterOn(t, core.NewMemory(), login())
	for i := range 10 {
		must.OK(t, l.Block(t.Context(), "login", keyfuncs.Encode("ip", fmt.Sprint("192.0.2.", i)), time.Hour))
	}
	n := 0
	for _, err := range l.Blocks(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 3 {
			break
		}
	}
	check.Equal(t, "blocks read", n, 3)
}

// The list of a store in memory is bounded. Blocks that are not on it hold all the same.
func TestMoreBlocksThanAreListed(t *testing.T) {
	t.Parallel()
	m, clock := at()
	l := limiterOn(t, m, login())
	const most = 1 << 14 // what memstore.Store.Blocks says
	const blocks = most + 5000
	key := func(i int) string {
		return keyfuncs.Encode("ip", netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}).String())
	}
	for i := range blocks {
		must.OK(t, l.Block(t.Context(), "login", key(i), time.Hour))
	}
	listed := blocksOf(t, l)
	if n := len(listed); n > most || n < most/8*7 {
		t.Errorf("%d of %d blocks are listed", n, blocks)
	}
	for i := range blocks {
		must.Equal(t, "a block that is not listed", l.AllowKey(t.Context(), key(i), 1).Reason, core.ReasonBlocked)
	}
	clock.Advance(time.Hour)
	must.OK(t, l.Block(t.Context(), "login", "ip:192.0.2.7", time.Hour))
	if listed := blocksOf(t, l); len(listed) != 1 || listed[0].Key != "ip:192.0.2.7" {
		t.Errorf("after all others have ended: %d listed", len(listed))
	}
}

// blocking is a penalty that is soon there.
func blocking(l core.Limit) core.Limit {
	return l.Penalty(core.Block{After: 3, Within: time.Hour, For: time.Minute})
}

// A queue denies at once: each request that has no place in it is one strike, and a
// block is nothing to wait for.
func TestAQueueWithAPenalty(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLimiter(t, core.Config{
			Store: core.NewMemory(), MaxWaitingPerKey: 600,
			Limits: []core.Limit{blocking(forAll(core.PerSecond(1).LeakyBucket(10 * time.Minute)))},
		})
		var all sync.WaitGroup
		for range 601 { // one goes on at once, and the others wait
			all.Go(func() {
				if d := l.AllowKey(t.Context(), "k", 1); !d.Allowed {
					t.Errorf("in the queue: %v", d.Reason)
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		for i, want := range []core.Reason{core.ReasonLimitExceeded, core.ReasonLimitExceeded, core.ReasonBlocked, core.ReasonBlocked} {
			d := l.AllowKey(t.Context(), "k", 1)
			if d.Reason != want || want == core.ReasonBlocked && d.RetryAfter != time.Minute {
				t.Errorf("request %d: %v, retry after %v, want %v", i+1, d.Reason, d.RetryAfter, want)
			}
		}
		check.Equal(t, "denials took", time.Since(start), 0)
		all.Wait() // blocks end nobody's wait
		if d := l.AllowKey(t.Context(), "k", 1); !d.Allowed {
			t.Errorf("after the block: %v", d.Reason)
		}
	})
}

// A request that would wait for one limit is denied at once if another blocks it,
// even if it is the first that takes longer; and it is one strike.
func TestNobodyWaitsForTheEndOfABlock(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := limiterOn(t, core.NewMemory(),
			forAll(core.PerHour(1).FixedWindow().Wait(time.Hour)).Named("patient"),
			blocking(forAll(core.Per(1, 24*time.Hour))).Named("strict"))
		l.AllowKey(t.Context(), "k", 1)
		start := time.Now()
		for i := range 5 {
			d := l.AllowKey(t.Context(), "k", 1)
			check.All(t, fmt.Sprintf("request %d: allowed and blocked", i+1), []any{d.Allowed, d.Results()[1].Blocked}, false, i >= 2)
		}
		check.Equal(t, "denials took", time.Since(start), 0)
	})
}

// A tier can't have what is an error for the limit itself.
func TestATierOfAQueueWithAPenalty(t *testing.T) {
	t.Parallel()
	l := limiterOn(t, core.NewMemory(), blocking(core.PerHour(1).By(keyfuncs.Everyone()).Wait(time.Minute)).Tiers(func(keyfuncs.Request) core.Limit {
		return core.PerHour(5).FixedWindow()
	}))
	d := l.Allow(&request{})
	check.Equal(t, "the algorithm, which is the limit's own", d.Results()[0].Rule.Algorithm, store.TokenBucket)
}

// What a request gives back afterwards takes no strike back, and lifts no block.
func TestReservationsLeaveStrikes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for name, limit := range map[string]core.Limit{
			"refunds":   core.PerDay(1).RefundOn(core.Failures),
			"estimates": core.PerDay(1).Estimate(1),
			"slots":     core.Concurrent(1),
		} {
			l := limiterOn(t, core.NewMemory(), blocking(forAll(limit)).Named(name))
			d := l.AllowKey(t.Context(), "k", 1)
			for range 2 {
				l.AllowKey(t.Context(), "k", 1)
			}
			_ = core.Spend(core.NewContext(t.Context(), d), 0) // only one of them has an estimate
			d.Settle(core.Outcome{Status: 500})
			check.Equal(t, name+": left after the request", unitsLeft(t, l, "k"), 1)
			d = l.AllowKey(t.Context(), "k", 1)
			check.All(t, name+": the third strike", []any{d.Allowed, l.AllowKey(t.Context(), "k", 1).Reason}, true, core.ReasonBlocked)
			d.Settle(core.Outcome{Status: 500})
			check.Equal(t, name+": settled while blocked", l.AllowKey(t.Context(), "k", 1).Reason, core.ReasonBlocked)
		}
	})
}

// A limit with both counts for three, of a limiter and of a call.
func TestMarksAndPenaltiesCount(t *testing.T) {
	t.Parallel()
	var limits []core.Limit
	var checks []core.Check
	for i := range 86 {
		limit := login().Named(fmt.Sprint("login", i)).OncePer(keyfuncs.Header("Idempotency-Key"), time.Hour)
		limits = append(limits, limit)
		checks = append(checks, core.Check{Key: []byte("k"), Rule: mustRule(t, limit), Cost: 1, Once: []byte("op")})
	}
	want := "weblimit: Config.Limits counts for 258 limits, with each OncePer and each Penalty for another: the most is 255"
	_, err := core.New(core.Config{Store: core.NewMemory(), Limits: limits})
	check.Equal(t, "error", fmt.Sprint(err), want)
	limiterOn(t, core.NewMemory(), limits[:85]...)
	want = "weblimit: at most 255 checks, with their operations and penalties, can be decided together, got 258"
	check.Equal(t, "error", fmt.Sprint(counting.ValidChecks(checks, make([]core.Result, 86))), want)
	check.OK(t, counting.ValidChecks(checks[:85], make([]core.Result, 85)))
}

// A block of an address without its kind was no error, and blocked nobody.
func TestABlockThatWouldBlockNobodyIsAnError(t *testing.T) {
	t.Parallel()
	l := limiterOn(t, core.NewMemory(), login())
	for _, key := range []string{"192.0.2.7", "user:alice", "ip:alice", "ip:2001:db8::1"} {
		err := l.Block(t.Context(), "login", key, time.Hour)
		if err == nil || !strings.Contains(err.Error(), `counts by ip`) || !strings.Contains(err.Error(), `"ip:192.0.2.7"`) {
			t.Errorf("a block of %s: %v", key, err)
		}
	}
	check.Equal(t, "blocks", len(blocksOf(t, l)), 0)
	l.AllowKey(t.Context(), "job-7", 1)
	check.OK(t, l.Block(t.Context(), "login", "job-7", time.Hour))
	check.Equal(t, "a job that AllowKey has counted", l.AllowKey(t.Context(), "job-7", 1).Reason, core.ReasonBlocked)
}
