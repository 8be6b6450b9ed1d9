package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/storetest"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/keyfuncs"
)

// penalized returns a limit of n units a day that soon leads to a block.
func penalized(quota int64) core.Limit {
	return core.PerDay(quota).By(keyfuncs.User("id")).Named("login").
		Penalty(core.Block{After: 3, Within: time.Hour, For: time.Hour})
}

const (
	blockQuota   = 20
	blockAfter   = 30
	blockMinutes = "1 2 4 4" // of the blocks, one after the other
)

// blockReport is such a process's report of one round.
type blockReport struct {
	Counts  [3]int64 // admitted, denied, blocked
	Minutes int64    // of the block
	Blocks  int      // that are listed
}

// However many processes decide, a block begins after exactly the right number of
// denials, and lasts exactly as long as it should.
func TestBlocksAreExactAcrossProcesses(t *testing.T) {
	t.Parallel()
	total := make([]blockReport, len(strings.Fields(blockMinutes)))
	for _, reports := range reportsOf[[]blockReport](t, blocking) {
		for i, r := range reports {
			for j, n := range r.Counts {
				total[i].Counts[j] += n
			}
			total[i].Minutes += r.Minutes
			total[i].Blocks += r.Blocks
		}
	}
	for i, minutes := range strings.Fields(blockMinutes) {
		want := [3]int64{0, blockAfter - 1, hammerProcesses*hammerGoroutines*hammerRounds - blockAfter + 1}
		if i == 0 {
			want[0], want[2] = blockQuota, want[2]-blockQuota
		}
		check.Equal(t, fmt.Sprintf("round %d: admitted, denied, blocked", i+1), total[i].Counts, want)
		if got := fmt.Sprint(total[i].Minutes / hammerProcesses); got != minutes || total[i].Blocks != hammerProcesses {
			t.Errorf("round %d: each process saw %d blocks of %s minutes, want one of %s", i+1, total[i].Blocks/hammerProcesses, got, minutes)
		}
	}
}

// blocking is one process of TestBlocksAreExactAcrossProcesses. It reports each round.
var blocking = role("block", func(t *testing.T, client *redis.Client, prefix string) (reports []blockReport) {
	clock := storetest.NewClock()
	store := redisstore.NewAt(client, clock.Micros, redisstore.Config{Prefix: prefix})
	rule := mustRule(t, core.Per(blockQuota, hammerWindow).FixedWindow().Penalty(
		core.Block{After: blockAfter, Within: time.Minute, For: time.Minute, Max: 4 * time.Minute}))
	for round := range strings.Fields(blockMinutes) {
		awaitOthers(t, client, fmt.Sprint(prefix, "ready", round))
		report := blockReport{Counts: storetest.HammerBlocks(t, store, rule, "k", hammerGoroutines, hammerRounds)}
		awaitOthers(t, client, fmt.Sprint(prefix, "done", round))
		for b, err := range store.Blocks(t.Context(), []*core.Rule{rule}) {
			if err != nil {
				t.Fatal(err)
			}
			length := time.Duration(b.Until.UnixMicro()-clock.Micros()) * time.Microsecond
			report.Minutes, report.Blocks = int64(length/time.Minute), report.Blocks+1
			clock.Advance(length)
		}
		reports = append(reports, report)
	}
	return reports
})

// Processes with a denial cache and prefetched slices notice at once that a block begins, and
// within a round trip that it is lifted.
func TestABlockIsLiftedEverywhere(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	var limiters []*core.Limiter
	for range 2 {
		limiters = append(limiters, core.Must(core.New(core.Config{
			Store:   redisstore.New(server.Client(t), redisstore.Config{Prefix: prefix, DenialCache: redisstore.DenialCache{Age: time.Minute}, Prefetch: redisstore.Prefetch{Fraction: 0.5, MaxAge: time.Minute}}),
			Limits:  []core.Limit{penalized(5)},
			Timeout: time.Minute,
		})))
	}
	a, b := limiters[0], limiters[1]
	want := func(l *core.Limiter, reason core.Reason) {
		t.Helper()
		if d := l.AllowKey(t.Context(), "user:42", 1); d.Reason != reason {
			t.Errorf("%v, %v; want %v", d.Reason, d.Err, reason)
		}
	}
	lifted := func(l *core.Limiter, want core.Reason) {
		t.Helper()
		wait.Until(t, "the end of the block is heard", func() bool {
			d := l.AllowKey(t.Context(), "user:42", 1)
			if d.Reason != core.ReasonBlocked && d.Reason != want {
				t.Fatalf("%v, %v; want %v", d.Reason, d.Err, want)
			}
			return d.Reason == want
		})
	}
	for range 5 {
		want(a, core.ReasonWithinLimit)
	}
	for range 2 {
		lifted(a, core.ReasonLimitExceeded) // both processes count together
		want(b, core.ReasonLimitExceeded)
		want(a, core.ReasonBlocked)
		want(b, core.ReasonBlocked)
		want(a, core.ReasonBlocked)
		must.OK(t, b.Unblock(t.Context(), "user:42"))
	}
	lifted(a, core.ReasonLimitExceeded)
	must.OK(t, a.Reset(t.Context(), "user:42"))
	lifted(b, core.ReasonWithinLimit)
	must.OK(t, a.Block(t.Context(), "login", "user:43", time.Hour))
	if d := b.AllowKey(t.Context(), "user:43", 1); d.Reason != core.ReasonBlocked || d.RetryAfter <= 59*time.Minute {
		t.Errorf("blocked by hand in another process: %v for %v", d.Reason, d.RetryAfter)
	}
}

// A decision with a penalty is one call, like any other.
func TestAPenaltyIsPartOfTheRoundTrip(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := redisstore.New(server.Client(t))
	checks := []core.Check{checkOf("user:1", mustRule(t, penalized(2)), 1), checkOf("all", mustRule(t, core.PerDay(100).Named("all")), 1)}
	take(t, store, checks...)
	before := server.Commandstats(t)
	var last []core.Result
	for range 5 {
		last = take(t, store, checks...)
	}
	after := server.Commandstats(t)
	if got := after["evalsha"].Calls - before["evalsha"].Calls; got != 5 || !last[0].Blocked || last[1].Remaining != 98 {
		t.Errorf("5 requests made %d calls and ended in %+v", got, last)
	}
}

func TestAPenaltyExpiresWithItsLastMeaning(t *testing.T) {
	t.Parallel()
	store, server, prefix := newStore(t)
	client := server.Client(t)
	rule := mustRule(t, core.PerSecond(1).Penalty(core.Block{After: 2, Within: time.Hour, For: 10 * time.Minute, Max: 20 * time.Minute}))
	want := func(what string, d time.Duration) {
		t.Helper()
		if ttl := client.PTTL(t.Context(), prefix+"{k}").Val(); ttl > d+2*time.Second || ttl < d-10*time.Second {
			t.Errorf("%s expires in %v, want %v", what, ttl, d)
		}
	}
	take(t, store, checkOf("k", rule, 1))
	take(t, store, checkOf("k", rule, 2)) // can never fit
	want("a denial that counts", time.Hour)
	take(t, store, checkOf("k", rule, 2))
	want("a block", 30*time.Minute)
	for range 3 {
		take(t, store, checkOf("k", rule, 1))
	}
	want("a block that is asked for", 30*time.Minute)
	must.OK(t, store.Unblock(t.Context(), []core.Check{checkOf("k", rule, 0)}))
	want("what is left after the block was lifted", time.Second)
	must.OK(t, store.Reset(t.Context(), []core.Check{checkOf("k", rule, 0)}))
	must.OK(t, store.Block(t.Context(), []core.Check{checkOf("k", rule, 0)}, time.Minute))
	want("a block that was set", time.Minute)
	take(t, store, checkOf("k", rule, 1))
	must.OK(t, store.Unblock(t.Context(), []core.Check{checkOf("k", rule, 0)}))
	check.Equal(t, "keys left of nothing", client.Exists(t.Context(), prefix+"{k}").Val(), 0)
}

// A list skips keys that are not the store's, and finds each block once, among values
// with limits of every algorithm.
func TestBlocksAmongOthers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, prefix := server.Client(t), `odd*[pre]?fix\:`
	store := redisstore.New(client, redisstore.Config{Prefix: prefix, DenialCache: redisstore.DenialCache{Disabled: true}})
	rule := mustRule(t, penalized(1).OncePer(keyfuncs.Header("Idempotency-Key"), time.Hour))
	want := map[string]bool{}
	for i := range 700 {
		key := fmt.Sprint("user:", i)
		checks := []core.Check{checkOf(key, rule, 1)}
		for _, limit := range storetest.Algorithms(3_000_000_000, time.Hour) {
			if r, err := limit.Rule(); err == nil {
				checks = append(checks, checkOf(key, &r, 1))
			}
		}
		log := mustRule(t, core.PerHour(100).SlidingLog().Named("log"))
		checks = append(checks, checkOf(key, log, 1+int64(i%3)))
		slots := mustRule(t, core.Concurrent(100).Named("slots"))
		checks = append(checks, checkOf(key, slots, 1+int64(i%3)))
		checks[0].Once = []byte("first") // its marks are not to be listed
		take(t, store, checks...)
		if i%7 == 0 {
			want[key] = true
			for range 3 {
				take(t, store, checkOf(key, rule, 1))
			}
		}
	}
	counted := must.Get(client.Get(t.Context(), prefix+"{user:0}").Result())(t)
	redistest.Prepare(t, client, func(p redis.Pipeliner) {
		p.LPush(t.Context(), prefix+"{list}", "x")
		p.Set(t.Context(), prefix+"{string}", "someone else's", 0)
		p.Set(t.Context(), prefix+"{empty}", "", 0)
		p.Set(t.Context(), prefix+"{short}", "\x01\x00\x00\x00\x00\x61", 0)
		p.Set(t.Context(), prefix+"{cut short}", "\x01\x00\x00\x00\x00\x60\x00\x00\x00", 0)
		p.Set(t.Context(), "oddXpfixZ:{user:1}", counted, 0)
	})
	for b, err := range store.Blocks(t.Context(), []*core.Rule{rule}) {
		if err != nil || !want[b.Key] || b.Limit != "login" || b.Level != 1 || time.Until(b.Until) > time.Hour || time.Until(b.Until) < 50*time.Minute {
			t.Errorf("listed: %+v, %v", b, err)
		}
		delete(want, b.Key)
	}
	if len(want) > 0 {
		t.Errorf("%d blocks are not listed", len(want))
	}
	n := 0
	for _, err := range store.Blocks(t.Context(), []*core.Rule{rule}) {
		if n++; err != nil {
			t.Error(err)
		}
		break
	}
	check.Equal(t, "blocks that a reader that leaves got", n, 1)
}

func TestAListTellsOfServersThatFail(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.User(t, "narrow", "~*", "-@all", "+evalsha", "+eval", "+time", "+get", "+psetex")
	limiter := core.Must(core.New(core.Config{Store: redisstore.New(server.ClientAs(t, "narrow")), Limits: []core.Limit{penalized(1)}, Timeout: time.Minute}))
	if d := limiter.AllowKey(t.Context(), "k", 1); !d.Allowed || d.Err != nil {
		t.Errorf("without SCAN: %v, %v", d.Reason, d.Err)
	}
	n := 0
	for _, err := range limiter.Blocks(t.Context()) {
		var failed *store.Error
		if n++; !errors.As(err, &failed) || failed.Class != store.ClassPermission {
			t.Errorf("without SCAN: %v", err)
		}
	}
	check.Equal(t, "errors", n, 1)
}

func TestBlocksOnARing(t *testing.T) {
	t.Parallel()
	client, addrs := newRing(t)
	wantBlocksListed(t, redisstore.New(client, redisstore.Config{Prefix: redistest.Prefix(t)}))
	client.SetAddrs(map[string]string{"shard0": addrs["shard0"]})
	store := redisstore.New(client, redisstore.Config{Prefix: redistest.Prefix(t)})
	var failed error
	for _, err := range store.Blocks(t.Context(), []*core.Rule{mustRule(t, penalized(1))}) {
		failed = err
	}
	if failed == nil {
		t.Error("two shards are out, and the list says nothing of it")
	}
}

// wantBlocksListed blocks keys in many slots, and fails unless all are on the list.
func wantBlocksListed(t *testing.T, store core.Store) {
	t.Helper()
	limiter := core.Must(core.New(core.Config{Store: store, Limits: []core.Limit{penalized(1)}, Timeout: time.Minute}))
	want := map[string]bool{}
	for i := range 60 {
		key := fmt.Sprint("user:", i)
		for range 1 + i%5 {
			limiter.AllowKey(t.Context(), key, 1)
		}
		if i%5 >= 3 {
			want[key] = true
		}
	}
	for b, err := range limiter.Blocks(t.Context()) {
		if err != nil || !want[b.Key] || b.Level != 1 {
			t.Errorf("listed: %+v, %v", b, err)
		}
		delete(want, b.Key)
		check.OK(t, limiter.Unblock(t.Context(), b.Key))
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
	for b, err := range limiter.Blocks(t.Context()) {
		t.Errorf("still listed after all were lifted: %+v, %v", b, err)
	}
}

// However hot the key is, Redis decides until it is blocked. A cached denial would hide denials from
// the count.
func TestALimitWithAPenaltyIsAskedUntilTheKeyIsBlocked(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := redisstore.New(server.Client(t), redisstore.Config{DenialCache: redisstore.DenialCache{Age: time.Minute}})
	rule := mustRule(t, penalized(300))
	take(t, store, checkOf("k", rule, 1))
	before := server.Commandstats(t)["evalsha"].Calls
	const requests = 400
	for i := range requests {
		got := take(t, store, checkOf("k", rule, 1))[0]
		if got.Charged != (i < 299) || got.Blocked != (i >= 301) || got.Cached && i <= 301 {
			t.Fatalf("request %d: %+v", i+2, got)
		}
	}
	if calls := server.Commandstats(t)["evalsha"].Calls - before; calls < 302 {
		t.Errorf("302 requests until the block made %d calls", calls)
	}
}
