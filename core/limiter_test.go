package core_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/storetest"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestNewSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	good := []core.Limit{everyone(10)}
	for _, tt := range []struct {
		name   string
		config core.Config
		want   string
	}{
		{"nothing at all", core.Config{}, "weblimit: Config.Store is missing"},
		{"no store", core.Config{Limits: good}, "weblimit: Config.Store is missing"},
		{"no limits", core.Config{Store: core.NewMemory()}, "weblimit: Config.Limits is empty"},
		{"no limits in a slice", core.Config{Store: core.NewMemory(), Limits: []core.Limit{}}, "weblimit: Config.Limits is empty"},
		{"too many limits", core.Config{Store: core.NewMemory(), Limits: make([]core.Limit, 256)}, "weblimit: Config.Limits has 256 limits, the most is 255"},
		{"a timeout below a millisecond", core.Config{Store: core.NewMemory(), Limits: good, Timeout: time.Millisecond - 1}, "weblimit: Config.Timeout must be at least 1ms, got 999.999µs"},
		{"a negative timeout", core.Config{Store: core.NewMemory(), Limits: good, Timeout: -time.Second}, "weblimit: Config.Timeout must be at least 1ms, got -1s"},
		{"a timeout above five minutes", core.Config{Store: core.NewMemory(), Limits: good, Timeout: time.Hour}, "weblimit: Config.Timeout must be at most 5m0s, got 1h0m0s: requests would wait for a store that hangs for as long, and no outage would begin"},
		{"negative replicas", core.Config{Store: core.NewMemory(), Limits: good, Replicas: -1}, "weblimit: Config.Replicas must be at least 1, got -1"},
		{"two limits without a name", core.Config{Store: core.NewMemory(), Limits: []core.Limit{everyone(10), everyone(20)}}, `weblimit: limit "default": two limits of one limiter have this name; give each its own with Named`},
		{"two limits of one name", core.Config{Store: core.NewMemory(), Limits: []core.Limit{everyone(10).Named("a"), everyone(9).Named("b"), everyone(10).Named("a")}}, `weblimit: limit "a": two limits of one limiter have this name; give each its own with Named`},
		{"a bad limit behind a good one", core.Config{Store: core.NewMemory(), Limits: []core.Limit{everyone(10), everyone(0).Named("b")}}, `weblimit: limit "b": quota must be at least 1, got 0`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l, err := core.New(tt.config)
			check.All(t, "New", []any{l, err}, nil, tt.want)
			check.Equal(t, "the panic of Must", fmt.Sprint(panicOf(func() { core.Must(core.New(tt.config)) })), tt.want)
		})
	}
}

func TestForLimitsPanicsWhereNewFails(t *testing.T) {
	t.Parallel()
	for want, run := range map[string]func(){
		"weblimit: Config.Store is missing":                          func() { core.ForLimits(nil, []core.Limit{everyone(1)}) },
		"weblimit: Config.Limits is empty":                           func() { core.ForLimits(core.NewMemory(), nil) },
		`weblimit: limit "default": quota must be at least 1, got 0`: func() { core.ForLimits(core.NewMemory(), []core.Limit{everyone(0)}) },

		`weblimit: limit "default": By is missing: say whose requests are counted, such as By(keyfuncs.ClientIP()); AllowKey takes the key instead and ignores it, so any will do there; Guard is for handlers that give the key, and takes none`: func() { core.ForLimits(core.NewMemory(), []core.Limit{core.PerHour(1)}) },
		`weblimit: limit "x": two limits of one limiter have this name; give each its own with Named`: func() { core.ForLimits(core.NewMemory(), []core.Limit{everyone(1).Named("x"), everyone(1).Named("x")}) },
		`weblimit: limit "x": the store has a different limit of this name: quota 1 and 2; give each its own with Named`: func() {
			s := core.NewMemory()
			core.ForLimits(s, []core.Limit{everyone(1).Named("x")})
			core.ForLimits(s, []core.Limit{everyone(2).Named("x")})
		},
	} {
		err, ok := panicOf(run).(error)
		if !ok || err.Error() != want {
			t.Errorf("panics with %v, want %s", err, want)
		}
	}
	l := core.ForLimits(core.NewMemory(), []core.Limit{everyone(1)})
	wantDecision(t, "a limiter of ForLimits", l.AllowKey(context.Background(), "k", 1), true, core.ReasonWithinLimit, 0)
}

func panicOf(run func()) (value any) {
	defer func() { value = recover() }()
	run()
	return nil
}

// Trap 27: a store that is down at start-up does not stop the app.
func TestNewDoesNotTalkToTheStore(t *testing.T) {
	t.Parallel()
	store := newFlaky(true)
	limiterOn(t, store, everyone(1))
	check.Equal(t, "calls of the store", store.calls.Load(), 0)
}

// Changing the slice of a Config after New changes no limiter.
func TestNewKeepsNoSliceOfTheCaller(t *testing.T) {
	t.Parallel()
	store, _ := at()
	config := core.Config{Store: store, Limits: []core.Limit{everyone(2)}}
	l := newLimiter(t, config)
	config.Limits[0] = everyone(500)
	wantDecision(t, "after the change", l.AllowKey(context.Background(), "k", 1), true, core.ReasonWithinLimit, 1)
}

func TestAllowKey(t *testing.T) {
	t.Parallel()
	store, clock := at()
	ctx := context.Background()
	l := limiterOn(t, store, core.PerMinute(6).By(keyfuncs.ClientIP()).Cost(3).Named("minute"), core.PerHour(8).By(keyfuncs.User("id")).FixedWindow().Named("hour"))

	wantDecision(t, "the cost is the caller's and not the limits'", l.AllowKey(ctx, "k", 2), true, core.ReasonWithinLimit, 4, 6)
	wantDecision(t, "a cost of nothing asks", l.AllowKey(ctx, "k", 0), true, core.ReasonWithinLimit, 4, 6)
	wantDecision(t, "the rest of one limit", l.AllowKey(ctx, "k", 4), true, core.ReasonWithinLimit, 0, 2)

	d := l.AllowKey(ctx, "k", 1)
	wantDecision(t, "one too many", d, false, core.ReasonLimitExceeded, 0, 2)
	check.Equal(t, "a sixth of a minute, to wait", d.RetryAfter, 10*time.Second)
	wantDecision(t, "a cost of nothing fits always", l.AllowKey(ctx, "k", 0), true, core.ReasonWithinLimit, 0, 2)
	wantDecision(t, "another key", l.AllowKey(ctx, "other", 1), true, core.ReasonWithinLimit, 5, 7)

	clock.Advance(10*time.Second - time.Microsecond)
	wantDecision(t, "a microsecond too early", l.AllowKey(ctx, "k", 1), false, core.ReasonLimitExceeded, 0, 2)
	clock.Advance(time.Microsecond)
	wantDecision(t, "after exactly RetryAfter", l.AllowKey(ctx, "k", 1), true, core.ReasonWithinLimit, 0, 1)
}

// Trap 4: negative and overflowing costs are refused at the border.
func TestAllowKeyWithOddCosts(t *testing.T) {
	t.Parallel()
	for algorithm, limit := range storetest.Algorithms(10, time.Hour) {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			store, _ := at()
			ctx := context.Background()
			l := limiterOn(t, store, limit.By(keyfuncs.Everyone()))
			wantDecision(t, "three", l.AllowKey(ctx, "k", 3), true, core.ReasonWithinLimit, 7)
			for _, cost := range []int64{-1, math.MinInt64} {
				d := l.AllowKey(ctx, "k", cost)
				wantDecision(t, fmt.Sprint("a cost of ", cost), d, false, core.ReasonInvalidCost)
				if _, ok := d.Binding(); ok || d.RetryAfter != 0 || d.Err != nil {
					t.Errorf("a cost of %d: a limit binds or a wait helps: %+v", cost, d)
				}
			}
			for _, cost := range []int64{11, 1 << 53, math.MaxInt64 - 1, math.MaxInt64} {
				d := l.AllowKey(ctx, "k", cost)
				wantDecision(t, fmt.Sprint("a cost of ", cost), d, false, core.ReasonNeverFits, 7)
				check.Equal(t, fmt.Sprintf("a cost of %d was told to come back in", cost), d.RetryAfter, 0)
			}
			wantDecision(t, "the rest", l.AllowKey(ctx, "k", 7), true, core.ReasonWithinLimit, 0)
		})
	}
}

func TestAllowKeySharesTheBucketOfRequests(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, tt := range []struct {
		name string
		by   []keyfuncs.Func
		r    *request
		key  string
	}{
		{"a user's number", []keyfuncs.Func{keyfuncs.User("userID")}, user(42), keyfuncs.Encode("user", "42")},
		{"a user's name", []keyfuncs.Func{keyfuncs.User("userID")}, user("alice"), "user:alice"},
		{"a user's long name", []keyfuncs.Func{keyfuncs.User("userID")}, user(strings.Repeat("a", 300)), keyfuncs.Encode("user", strings.Repeat("a", 300))},
		{"an API key", []keyfuncs.Func{keyfuncs.APIKey()}, &request{headers: map[string]string{"X-Api-Key": "s3cret"}}, keyfuncs.Encode("apikey", "s3cret")},
		{"an address", []keyfuncs.Func{keyfuncs.ClientIP()}, &request{peer: "2001:db8::7"}, keyfuncs.Encode("ip", "2001:db8::8")},
		{"everyone", []keyfuncs.Func{keyfuncs.Everyone()}, &request{}, "all"},
		{"two keys", []keyfuncs.Func{keyfuncs.User("userID"), keyfuncs.Everyone()}, user(42), keyfuncs.Encode("user", "42") + "|all"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store, _ := at()
			l := limiterOn(t, store, core.PerHour(5).By(tt.by...))
			wantDecision(t, "the request", l.Allow(tt.r), true, core.ReasonWithinLimit, 4)
			wantDecision(t, "the job", l.AllowKey(ctx, tt.key, 3), true, core.ReasonWithinLimit, 1)
			wantDecision(t, "the request again", l.Allow(tt.r), true, core.ReasonWithinLimit, 0)
			wantDecision(t, "the job again", l.AllowKey(ctx, tt.key, 1), false, core.ReasonLimitExceeded, 0)
		})
	}
}

// Traps 20, 33 and 42: whatever a caller makes a key of, it stays apart from all
// others, and no store sees more than 256 bytes of harmless text.
func TestAllowKeyTakesAnyString(t *testing.T) {
	t.Parallel()
	store := newFlaky(false)
	l := limiterOn(t, store, everyone(5))
	mega := strings.Repeat("k", 1<<20)
	keys := []string{
		"", " ", "a", "A", "a ", " a", "{", "}", "{}", "{a}", "a{b}c", "}{", "a|b", "a:b", "a#b",
		"key#", "key#a", "\x00", "a\x00", "a\r\nb", "\xff", "\xff\xfe", "é", "e\u0301", "日本語",
		strings.Repeat("k", 256), strings.Repeat("k", 257), mega, mega + "k", mega[1:] + "{",
	}
	for _, key := range keys {
		wantDecision(t, fmt.Sprintf("the first of %.20q", key), l.AllowKey(context.Background(), key, 2), true, core.ReasonWithinLimit, 3)
	}
	for _, key := range keys {
		wantDecision(t, fmt.Sprintf("the second of %.20q", key), l.AllowKey(context.Background(), key, 1), true, core.ReasonWithinLimit, 2)
	}
	seen := map[string]bool{}
	for _, key := range store.keys {
		seen[string(key)] = true
		odd := func(r rune) bool { return r < ' ' || r > '~' || r == '{' || r == '}' }
		if len(key) == 0 || len(key) > 256 || strings.ContainsFunc(string(key), odd) {
			t.Errorf("a store saw the key %.300q", key)
		}
	}
	check.Equal(t, "different keys", len(seen), len(keys))
}

func TestPeekChargesNothing(t *testing.T) {
	t.Parallel()
	store, _ := at()
	ctx := context.Background()
	l := limiterOn(t, store, everyone(10).Named("a"), everyone(4).SlidingLog().Named("b"))
	peek := func(cost int64) core.Decision {
		return must.Get(l.Peek(ctx, "k", cost))(t)
	}
	wantDecision(t, "before all", peek(4), true, core.ReasonWithinLimit, 10, 4)
	l.AllowKey(ctx, "k", 3)
	for range 3 {
		wantDecision(t, "what fits", peek(1), true, core.ReasonWithinLimit, 7, 1)
		wantDecision(t, "nothing", peek(0), true, core.ReasonWithinLimit, 7, 1)
		d := peek(2)
		wantDecision(t, "what does not fit", d, false, core.ReasonLimitExceeded, 7, 1)
		check.Equal(t, "to wait for what does not fit", d.RetryAfter, time.Hour)
		never := peek(math.MaxInt64)
		check.All(t, "peeking at what never fits", []any{outcomeOf(never), never.RetryAfter}, outcome{false, core.ReasonNeverFits}, "0s")
	}
	wantDecision(t, "after all", l.AllowKey(ctx, "k", 1), true, core.ReasonWithinLimit, 6, 0)

	d, err := l.Peek(ctx, "k", -1)
	check.All(t, "a negative cost", []any{d.Allowed, err}, false, "weblimit: cost must not be negative, got -1")
}

func TestResetForgetsOneKeyUnderAllLimits(t *testing.T) {
	t.Parallel()
	store, _ := at()
	ctx := context.Background()
	l := limiterOn(t, store, everyone(10).Named("a"), everyone(4).FixedWindow().Named("b"))
	other := limiterOn(t, store, everyone(10).Named("c"))
	for _, key := range []string{"k", "neighbour"} {
		l.AllowKey(ctx, key, 4)
		other.AllowKey(ctx, key, 4)
	}
	wantDecision(t, "before", l.AllowKey(ctx, "k", 1), false, core.ReasonLimitExceeded, 6, 0)
	must.OK(t, l.Reset(ctx, "k"))
	wantDecision(t, "after", l.AllowKey(ctx, "k", 4), true, core.ReasonWithinLimit, 6, 0)
	wantDecision(t, "another key", l.AllowKey(ctx, "neighbour", 0), true, core.ReasonWithinLimit, 6, 0)
	wantDecision(t, "another limiter's limit", other.AllowKey(ctx, "k", 0), true, core.ReasonWithinLimit, 6)
	if err := l.Reset(ctx, "never seen"); err != nil {
		t.Errorf("a key that was never seen: %v", err)
	}
}

func TestPeekAndResetReturnTheStoresError(t *testing.T) {
	t.Parallel()
	store := newFlaky(true)
	l := limiterOn(t, store, everyone(1).OnOutage(core.Allow))
	if d, err := l.Peek(context.Background(), "k", 1); !errors.Is(err, errDown) || d.Allowed {
		t.Errorf("Peek: %+v and error %v, want no decision and %v", d, err, errDown)
	}
	check.Is(t, "Reset", l.Reset(context.Background(), "k"), errDown)
}

func TestAllowDecidesSeveralLimitsTogether(t *testing.T) {
	t.Parallel()
	store, clock := at()
	l := limiterOn(t, store,
		core.PerSecond(5).Burst(3).By(keyfuncs.User("userID")).Named("user"),
		core.PerDay(10).FixedWindow().By(keyfuncs.User("userID")).Cost(3).Named("daily"),
		core.PerHour(4).By(keyfuncs.Everyone()).Named("all"))

	wantDecision(t, "alice", l.Allow(user("alice")), true, core.ReasonWithinLimit, 2, 7, 3)
	wantDecision(t, "bob", l.Allow(user("bob")), true, core.ReasonWithinLimit, 2, 7, 2)
	wantDecision(t, "alice's second", l.Allow(user("alice")), true, core.ReasonWithinLimit, 1, 4, 1)
	wantDecision(t, "alice's third", l.Allow(user("alice")), true, core.ReasonWithinLimit, 0, 1, 0)

	// Trap 7: what one limit denies is charged to no other.
	for range 3 {
		wantDecision(t, "bob, denied for all", l.Allow(user("bob")), false, core.ReasonLimitExceeded, 2, 7, 0)
	}
	clock.Advance(15 * time.Minute)
	d := l.Allow(user("alice"))
	wantDecision(t, "alice, denied for the day", d, false, core.ReasonLimitExceeded, 3, 1, 1)
	check.Equal(t, "the limit that denied", binding(d), "daily")
	wantDecision(t, "bob again", l.Allow(user("bob")), true, core.ReasonWithinLimit, 2, 4, 0)
}

// A missing key is one shared bucket, never a free pass.
func TestRequestsThatLackTheKeyShareABucket(t *testing.T) {
	t.Parallel()
	store, _ := at()
	l := limiterOn(t, store,
		core.PerHour(2).By(keyfuncs.User("userID"), keyfuncs.Everyone()).Named("user"),
		core.PerHour(9).By(keyfuncs.ClientIP()).Named("ip"))

	wantDecision(t, "no user", l.Allow(&request{peer: "192.0.2.1"}), true, core.ReasonWithinLimit, 1, 8)
	wantDecision(t, "no user, from elsewhere", l.Allow(&request{peer: "192.0.2.2"}), true, core.ReasonWithinLimit, 0, 8)
	wantDecision(t, "no user, once more", l.Allow(&request{peer: "192.0.2.3"}), false, core.ReasonLimitExceeded, 0, 9)
	wantDecision(t, "neither user nor address", l.Allow(&request{}), false, core.ReasonLimitExceeded, 0, 9)
	wantDecision(t, "an empty user", l.Allow(user("")), false, core.ReasonLimitExceeded, 0, 9)

	wantDecision(t, "a user without address", l.Allow(user("alice")), true, core.ReasonWithinLimit, 1, 8)
	wantDecision(t, "a user of a telling name", l.Allow(user("(missing)")), true, core.ReasonWithinLimit, 1, 7)
}

// The bucket of requests without the key is shared with no other: all keys of keyfuncs but
// Everyone's have a kind, and ":" or "#" behind it.
func TestTheSharedBucketIsNobodysOwn(t *testing.T) {
	t.Parallel()
	store := newFlaky(false)
	limiterOn(t, store, core.PerHour(2).By(keyfuncs.User("userID"))).Allow(&request{})
	everyone, _ := keyfuncs.Everyone().Key(&request{})
	if key := string(store.keys[0]); key == "" || key == everyone || strings.ContainsAny(key, ":#") {
		t.Errorf("requests without a key are counted as %q", key)
	}
}

func TestMoreLimitsThanFitInADecision(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 4, 5, 12} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			store, _ := at()
			var limits []core.Limit
			var want []int64
			for i := range n {
				limits = append(limits, everyone(int64(20+i)).Named(fmt.Sprint("limit-", i)))
				want = append(want, int64(19+i))
			}
			d := limiterOn(t, store, limits...).Allow(&request{})
			wantDecision(t, "the first request", d, true, core.ReasonWithinLimit, want...)
			for i, r := range d.Results() {
				check.Equal(t, fmt.Sprintf("result %d, in the order of Config.Limits", i), r.Rule.Name, fmt.Sprint("limit-", i))
			}
			check.Equal(t, "what binds", binding(d), "limit-0")
		})
	}
}

// A decision is a value of its own: handlers and logs may keep it.
func TestDecisionsStayAsTheyWere(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 4, 5, 9} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			store, clock := at()
			var limits []core.Limit
			for i := range n {
				limits = append(limits, core.PerHour(50).By(keyfuncs.User("userID")).Named(fmt.Sprint("limit-", i)))
			}
			l := limiterOn(t, store, limits...)
			first := l.Allow(user("alice"))
			kept := slices.Clone(first.Results())
			for i := range 100 {
				clock.Advance(time.Second)
				d := l.Allow(user(i % 7))
				d.Results()[0].Remaining = -1 // neither does a copy reach the original
				l.AllowKey(context.Background(), strings.Repeat("x", i), 3)
			}
			again := first
			if !slices.Equal(first.Results(), kept) || !slices.Equal(again.Results(), kept) {
				t.Errorf("100 requests later the first decision reads %+v, it was %+v", first.Results(), kept)
			}
		})
	}
}

func TestWhichLimitBinds(t *testing.T) {
	t.Parallel()
	left := func(remaining int64) core.Result {
		return core.Result{Allowed: true, Charged: true, Remaining: remaining}
	}
	idle := func(remaining int64) core.Result { return core.Result{Allowed: true, Remaining: remaining} }
	wait := func(d time.Duration) core.Result { return core.Result{RetryAfter: d} }
	never := core.Result{Remaining: 3}
	for _, tt := range []struct {
		name    string
		results []core.Result
		binding int
		retry   time.Duration
	}{
		{"the only one", []core.Result{left(5)}, 0, 0},
		{"allowed: the one with the fewest remaining", []core.Result{left(5), left(2), left(7)}, 1, 0},
		{"allowed: the first of equals", []core.Result{left(5), left(2), left(2)}, 1, 0},
		{"denied: the one that denies, not the one with less remaining", []core.Result{idle(0), wait(time.Second), idle(0)}, 1, time.Second},
		{"denied: the longest wait, in front", []core.Result{wait(9 * time.Second), wait(time.Second)}, 0, 9 * time.Second},
		{"denied: the longest wait, behind", []core.Result{wait(time.Second), idle(0), wait(9 * time.Second)}, 2, 9 * time.Second},
		{"denied: the first of equal waits", []core.Result{wait(time.Second), wait(time.Second)}, 0, time.Second},
		{"never possible comes before any wait, in front", []core.Result{never, wait(time.Hour)}, 0, 0},
		{"never possible comes before any wait, behind", []core.Result{wait(time.Hour), idle(0), never}, 2, 0},
		{"never possible: the first of them", []core.Result{wait(time.Hour), never, never, wait(time.Minute)}, 1, 0},
		{"among more than four: the fewest", []core.Result{left(9), left(9), left(9), left(9), left(9), left(1)}, 5, 0},
		{"among more than four: the longest wait", []core.Result{wait(1), idle(0), idle(0), idle(0), idle(0), wait(2)}, 5, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			limits := make([]core.Limit, len(tt.results))
			denied := false
			for i := range limits {
				limits[i] = everyone(10).Named(fmt.Sprint("limit-", i))
				denied = denied || !tt.results[i].Allowed
			}
			d := decided(t, limits, tt.results...)
			want := core.ReasonWithinLimit
			switch {
			case denied && tt.retry == 0:
				want = core.ReasonNeverFits
			case denied:
				want = core.ReasonLimitExceeded
			}
			check.OK(t, d.Err)
			check.Equal(t, "decided", outcomeOf(d), outcome{!denied, want})
			b, ok := d.Binding()
			if want := fmt.Sprint("limit-", tt.binding); !ok || b.Rule.Name != want || b.Result != tt.results[tt.binding] {
				t.Errorf("binding is %q with %+v, want %q", b.Rule.Name, b.Result, want)
			}
			check.Equal(t, "to wait", d.RetryAfter, tt.retry)
		})
	}
}

// Trap 9: exact under concurrency.
func TestConcurrentRequestsGetExactlyTheQuota(t *testing.T) {
	t.Parallel()
	for algorithm, limit := range storetest.Algorithms(100, time.Hour) {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			store, _ := at()
			l := limiterOn(t, store,
				limit.By(keyfuncs.User("userID")).Named("user"),
				limit.By(keyfuncs.Everyone()).Named("all"))
			var allowed, wrong atomic.Int64
			atOnce(64, func(i int) {
				for range 10 {
					d := l.Allow(user(i % 4))
					if d.Allowed {
						allowed.Add(1)
					}
					if len(d.Results()) != 2 || d.Results()[0].Rule.Name != "user" || d.Results()[1].Rule.Name != "all" {
						wrong.Add(1)
					}
				}
			})
			check.Equal(t, "requests of 640 that passed, and mixed up decisions", [2]int64{allowed.Load(), wrong.Load()}, [2]int64{100, 0})
		})
	}
}
