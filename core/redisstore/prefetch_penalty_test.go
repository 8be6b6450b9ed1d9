package redisstore_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// leasing is a configuration that takes up to a tenth of a hot key's quota ahead, for up to age.
func leasing(prefix string, age time.Duration) redisstore.Config {
	return redisstore.Config{Prefix: prefix, Prefetch: redisstore.Prefetch{Fraction: 0.1, MaxAge: age}}
}

// heat asks for a check until the store holds units of its key. Many ask at once: a key is hot by how
// many do within the age of a slice, and one after the other may be too slow on a busy machine.
func heat(t *testing.T, s *redisstore.Store, c core.Check) {
	t.Helper()
	const atOnce = 128
	for n := 0; s.Held(c) == 0 && !t.Failed(); n += atOnce {
		if n > 50_000 {
			t.Fatalf("no slice after %d requests", n)
		}
		var all sync.WaitGroup
		for range atOnce {
			all.Go(func() {
				if r, err := takeOne(t, s, c); err != nil || !r.Allowed {
					t.Errorf("got %+v, %v, and no slice", r, err)
				}
			})
		}
		all.Wait()
	}
	if t.Failed() {
		t.FailNow()
	}
}

// exhaust takes what Redis has left of a key.
func exhaust(t *testing.T, s *redisstore.Store, c core.Check) (denials int) {
	t.Helper()
	wait.Until(t, "all that is left comes back", func() bool { // a slice may be on its way
		c.Cost = peek(t, s, c).Remaining
		if c.Cost == 0 || take(t, s, c)[0].Allowed {
			return true
		}
		denials++
		return false
	})
	return denials
}

func TestAHotKeyWithAPenaltyIsPrefetched(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := redisstore.New(server.Client(t), leasing("", time.Minute))
	rule := mustRule(t, core.Per(100_000_000, 365*24*time.Hour).Penalty(core.Block{After: 3, Within: time.Hour, For: time.Hour}))
	before := server.Calls(t, "evalsha")
	for range 10_000 {
		if r := take(t, store, checkOf("k", rule, 1))[0]; !r.Charged || r.Remaining >= rule.Quota || r.Remaining < rule.Quota-rule.Quota/10-10_000 {
			t.Fatalf("got %+v", r)
		}
	}
	if got := server.Calls(t, "evalsha") - before; got > 2000 { // slices come in the background
		t.Errorf("10,000 requests of one key cost Redis %d calls", got)
	}
}

// A limit with a penalty leaves other limits of a request their slices, and each of its denials counts
// once. What a denied request spent of a slice comes back.
func TestSlicesBesideALimitWithAPenalty(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	for name, login := range map[string]core.Limit{
		"a log":    core.PerHour(3).SlidingLog(), // which is never prefetched
		"a bucket": core.PerHour(3),
	} {
		prefix := redistest.Prefix(t)
		s := redisstore.New(server.Client(t), leasing(prefix, time.Minute))
		exact := redisstore.New(server.Client(t), redisstore.Config{Prefix: prefix})
		global := checkOf("all", mustRule(t, core.Per(1_000_000, hammerWindow).FixedWindow().Named("global")), 1)
		rule := mustRule(t, login.Named("login").Penalty(core.Block{After: 3, Within: time.Hour, For: time.Hour}))
		granted := int64(0)
		for n := 0; s.Held(global) == 0 || n < 200; n++ {
			if n == 100_000 {
				t.Fatalf("%s: no slice of the global limit", name)
			}
			take(t, s, global, checkOf(fmt.Sprint("client", n), rule, 1))
			granted++
		}
		for n := range 8 {
			r := take(t, s, global, checkOf("offender", rule, 1))
			if want := n < 3; r[0].Charged != want || r[1].Charged != want {
				t.Errorf("%s, request %d: %+v", name, n, r)
			}
			if want := n >= 5; r[1].Blocked != want {
				t.Errorf("%s, request %d: %+v, want the block after three denials", name, n, r[1])
			}
			if n < 3 {
				granted++
			}
		}
		wait.For(t, name+": what is used and not held was granted", func() error { // slices come and go in the background
			if used, held := 1_000_000-peek(t, exact, global).Remaining, s.Held(global); used-held != granted {
				return fmt.Errorf("%d units used, %d of them held, want %d granted", used, held, granted)
			}
			return nil
		})
	}
}

// Redis can deny what would fit while another process holds units. Such a denial counts towards no
// block. It keeps everybody from taking more ahead, so it is soon over.
func TestADenialWhileAnotherProcessHoldsUnitsDoesNotCount(t *testing.T) {
	t.Parallel()
	const age = 300 * time.Millisecond
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	a, b := redisstore.New(server.Client(t), leasing(prefix, age)), redisstore.New(server.Client(t), leasing(prefix, age))
	rule := mustRule(t, core.Per(100_000, hammerWindow).FixedWindow().Penalty(core.Block{After: 3, Within: time.Hour, For: time.Hour}))
	c := checkOf("k", rule, 1)
	heat(t, a, c)
	exhaust(t, b, c)
	denials := 0 // that may count
	for {
		r := take(t, b, c)[0]
		if a.Held(c) == 0 {
			if !r.Allowed { // perhaps after the slice had come back
				denials++
			}
			break
		}
		if r.Blocked {
			t.Fatal("blocked while another process holds units")
		}
	}
	wait.Until(t, "the slice comes back", func() bool { return a.Held(c) == 0 })
	time.Sleep(age + age/10) // by Redis's clock: two ages after the last slice was taken
	denials += exhaust(t, b, c)
	wait.Until(t, "a block begins", func() bool { // at the third denial, unless the first ones came too early to count
		r := take(t, b, c)[0]
		if !r.Allowed { // else units came back late
			denials++
		}
		return r.Blocked
	})
	if denials < 3 {
		t.Errorf("blocked at denial %d, want the third one that counts at the earliest", denials)
	}
}

// A key with denials is not prefetched until these are forgotten, so its block never begins while a
// process holds units.
func TestAKeyWithDenialsIsNotPrefetched(t *testing.T) {
	t.Parallel()
	const within = time.Second
	server := redistest.Start(t)
	s := redisstore.New(server.Client(t), leasing("", time.Minute))
	rule := mustRule(t, core.Per(100_000, hammerWindow).FixedWindow().Penalty(core.Block{After: 100, Within: within, For: time.Hour}))
	c, large := checkOf("k", rule, 1), checkOf("k", rule, 100_001)
	asked := time.Now() // the denial counts for longer than until within has passed
	take(t, s, large)
	before, requests := server.Calls(t, "evalsha"), int64(0)
	for ; time.Since(asked) < within/2; requests++ {
		r, held := take(t, s, c)[0], s.Held(c)
		if time.Since(asked) >= within {
			break // the machine stood still meanwhile
		}
		if !r.Allowed || held > 0 {
			t.Fatalf("got %+v, and %d units ahead", r, held)
		}
		if requests%1000 == 999 { // no window is used up
			must.OK(t, s.Refund(t.Context(), []core.Check{checkOf("k", rule, 1000)}, []core.Result{{Charged: true, At: time.Now().UnixMicro()}}))
		}
	}
	if calls := server.Calls(t, "evalsha") - before; calls > requests+requests/20+10 {
		t.Errorf("%d requests took %d calls: a key with denials is asked for too often", requests, calls)
	}
	time.Sleep(within - time.Since(asked)) // by Redis's clock
	heat(t, s, c)
}

// A block by hand ends the slices of other processes within a round trip or so, counted in round trips
// of PING that the other process makes after the block.
func TestABlockEndsTheSlicesOfOtherProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Cluster")
	}
	t.Parallel()
	single := redistest.Start(t)
	for name, connect := range map[string]func() redis.UniversalClient{
		"a server":  func() redis.UniversalClient { return single.Client(t) },
		"a Cluster": func() redis.UniversalClient { return redistest.SharedCluster(t).Client(t) },
	} {
		t.Run(name, func(t *testing.T) {
			prefix := redistest.Prefix(t)
			client := connect()
			config := leasing(prefix, time.Minute)
			config.DenialCache.Disabled = name == "a Cluster" // which it does not need
			a, b := redisstore.New(connect(), redisstore.Config{Prefix: prefix}), redisstore.New(client, config)
			rule := mustRule(t, core.Per(1_000_000, hammerWindow).FixedWindow().Penalty(core.Block{After: 3, Within: time.Hour, For: time.Hour}))
			heat(t, b, checkOf("first", rule, 1))
			wait.Until(t, "the store listens", b.Hears)
			wantWithinARoundTrip(t, "a block", client, func(n int) (stale func() bool) {
				c := checkOf(fmt.Sprint("k", n), rule, 1)
				heat(t, b, c)
				must.OK(t, a.Block(t.Context(), []core.Check{c}, time.Hour))
				return func() bool { return take(t, b, c)[0].Allowed }
			})
		})
	}
}

// What is left of a slice comes back when the key is blocked.
func TestABlockedKeyGetsItsSlicesBack(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	a, b := redisstore.New(server.Client(t), redisstore.Config{Prefix: prefix}), redisstore.New(server.Client(t), leasing(prefix, time.Hour/8))
	rule := mustRule(t, core.Per(1_000_000, hammerWindow).FixedWindow().Penalty(core.Block{After: 3, Within: time.Hour, For: time.Hour}))
	unblocked := mustRule(t, core.Per(1_000_000, hammerWindow).FixedWindow()) // says what remains of a blocked key
	heat(t, b, checkOf("first", rule, 1))
	wait.Until(t, "the store listens", b.Hears)
	for name, block := range map[string]func(core.Check) error{
		"in this process":    func(c core.Check) error { return b.Block(t.Context(), []core.Check{c}, time.Hour) },
		"in another process": func(c core.Check) error { return a.Block(t.Context(), []core.Check{c}, time.Hour) },
	} {
		c, granted := checkOf(name, rule, 1), int64(0)
		for n := 0; n < 1000 || b.Held(c) == 0; n++ {
			take(t, b, c)
			granted++
		}
		must.OK(t, block(c))
		wait.Until(t, "the slice ends: blocked "+name, func() bool { return b.Held(c) == 0 })
		wait.Until(t, "the units come back: blocked "+name, func() bool {
			return peek(t, a, checkOf(name, unblocked, 1)).Remaining == 1_000_000-granted
		})
		if r := take(t, b, c)[0]; !r.Blocked {
			t.Errorf("blocked %s: got %+v", name, r)
		}
	}
}

// Where the message is lost, a blocked client can spend what is held, for no longer than a slice lasts.
func TestASliceOfABlockedKeyLastsNoLongerThanItsAge(t *testing.T) {
	t.Parallel()
	const age = 300 * time.Millisecond
	server := redistest.Start(t)
	server.User(t, "deaf", "resetkeys", "~*", "-@all", "+evalsha", "+eval", "+time", "+get", "+mget", "+psetex", "+del")
	rule := mustRule(t, core.Per(1_000_000, hammerWindow).FixedWindow().Penalty(core.Block{After: 3, Within: time.Hour, For: time.Hour}))
	a, b := redisstore.New(server.Client(t)), redisstore.New(server.ClientAs(t, "deaf"), leasing("", age))
	c := checkOf("k", rule, 1)
	heat(t, b, c)
	must.OK(t, a.Block(t.Context(), []core.Check{c}, time.Hour))
	blocked := time.Now() // every slice was taken before
	held, granted := b.Held(c), int64(0)
	if r := take(t, b, c)[0]; r.Allowed {
		granted++
	}
	if rest := b.Held(c); rest > 0 { // a slice may have been on its way
		held = max(held, rest+granted)
	}
	time.Sleep(age - time.Since(blocked) + 20*time.Millisecond) // a slice that is over sends nothing that could be waited for
	for range 10 {
		if r := take(t, b, c)[0]; !r.Blocked {
			t.Errorf("got %+v when the slice is over", r)
		}
	}
	if granted > held {
		t.Errorf("%d requests passed after the block, and %d units were held", granted, held)
	}
}

// A client can't cause messages: its denials and the blocks that they begin publish nothing. A block by
// hand publishes one, if somebody holds units.
func TestABlockIsPublishedOnceAndOnlyWhileUnitsAreHeld(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	a, b := redisstore.New(server.Client(t), redisstore.Config{Prefix: prefix}), redisstore.New(server.Client(t), leasing(prefix, time.Minute))
	rule := mustRule(t, core.Per(1_000_000, hammerWindow).FixedWindow().Penalty(core.Block{After: 3, Within: time.Hour, For: time.Hour}))
	heat(t, b, checkOf("first", rule, 1))
	wait.Until(t, "the store listens", b.Hears)
	keys := published(t, server, prefix)
	want := func(what string, want ...string) {
		t.Helper()
		check.Slices(t, what+": published", keys(), want)
	}
	block := func(key string) {
		t.Helper()
		must.OK(t, a.Block(t.Context(), []core.Check{checkOf(key, rule, 0)}, time.Hour))
	}
	for n := range 50 {
		key := fmt.Sprint("offender", n)
		for range 10 {
			take(t, b, checkOf(key, rule, 1_000_001))
		}
	}
	want("500 denials of 50 keys, which begin 50 blocks")
	heat(t, b, checkOf("k", rule, 1))
	for range 100 {
		take(t, a, checkOf("k", rule, 1_000_001))
	}
	want("100 denials of a key while units of it are held")
	block("other")
	want("a block of a key that nobody holds units of")
	block("k")
	want("a block of a key that is held", "blocked{k}")
	block("k")
	want("a second one")
}

// What was written before the clock was set back keeps no denial from counting.
func TestASliceBindsNothingWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	var now atomic.Int64
	now.Store(1.7e15)
	at := func(config redisstore.Config) *redisstore.Store {
		return redisstore.NewAt(server.Client(t), now.Load, config)
	}
	a, b := at(leasing(prefix, time.Minute)), at(redisstore.Config{Prefix: prefix})
	rule := mustRule(t, core.PerHour(100_000).Penalty(core.Block{After: 3, Within: time.Hour, For: time.Hour}))
	c, large := checkOf("k", rule, 1), checkOf("k", rule, 100_001)
	heat(t, a, c)
	for n := range 5 {
		if r := take(t, b, large)[0]; r.Blocked {
			t.Fatalf("denial %d while units are held: %+v", n, r)
		}
	}
	now.Add(-(24 * time.Hour).Microseconds())
	for range 3 {
		take(t, b, large)
	}
	if r := take(t, b, large)[0]; !r.Blocked {
		t.Errorf("got %+v after three denials, want the block", r)
	}
}

// Denials that are left out, while units are held, keep slices from being taken for as long as denials
// count. So a client can't go on with it.
func TestDenialsAreLeftOutOnceInTheTimeThatTheyCount(t *testing.T) {
	t.Parallel()
	const age = 300 * time.Millisecond
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	s := redisstore.New(server.Client(t), leasing(prefix, age))
	rule := mustRule(t, core.Per(1_000_000, hammerWindow).FixedWindow().Penalty(core.Block{After: 3, Within: time.Hour, For: time.Hour}))
	var c, large core.Check
	for n := range 100 {
		key := fmt.Sprint("k", n)
		c, large = checkOf(key, rule, 1), checkOf(key, rule, 1_000_001)
		heat(t, s, c)
		take(t, s, large)
		if s.Held(c) > 0 { // else the slice may have been over before the denial, which counts then
			break
		}
	}
	denied := time.Now()
	for time.Since(denied) < 3*age {
		take(t, s, c)
		since := time.Since(denied)
		if held := s.Held(c); held > 0 && since > 2*age {
			t.Fatalf("%d units are held %v after a denial", held, since)
		}
	}
	for n := range 3 {
		if r := take(t, s, large)[0]; r.Blocked != (n == 2) {
			t.Errorf("denial %d: %+v, want the third one to begin a block", n, r)
		}
	}
}

// After a reset by another process, units that were held before can be spent for as long as the slice lasts.
func TestASliceOutlivesAResetElsewhereByItsAge(t *testing.T) {
	t.Parallel()
	const age = 300 * time.Millisecond
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	a, b := redisstore.New(server.Client(t), redisstore.Config{Prefix: prefix}), redisstore.New(server.Client(t), leasing(prefix, age))
	var checks []core.Check
	for _, limit := range []core.Limit{
		core.Per(100_000, hammerWindow).FixedWindow(), core.PerHour(100_000),
		core.Per(100_000, hammerWindow).FixedWindow().Penalty(core.Block{After: 3, Within: time.Hour, For: time.Hour}),
	} {
		c := checkOf(limit.String(), mustRule(t, limit), 1)
		heat(t, b, c)
		must.OK(t, a.Reset(t.Context(), []core.Check{c}))
		checks = append(checks, c)
	}
	time.Sleep(age + 20*time.Millisecond) // a slice that is over sends nothing that could be waited for
	for _, c := range checks {
		if held := b.Held(c); held > 0 {
			t.Errorf("%s: %d units outlived the reset by more than %v", c.Key, held, age)
		}
	}
}
