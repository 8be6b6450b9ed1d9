package redisstore_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/storetest"
	"github.com/weblimit/weblimit/keyfuncs"
)

// On a Cluster a script can use the keys of one slot. Checks in several slots are decided
// in several calls, and still all or nothing.
func TestCluster(t *testing.T) {
	t.Parallel()
	server := redistest.StartCluster(t)
	client := server.ClusterClient(t)

	t.Run("answers", func(t *testing.T) {
		storetest.RunRandom(t, onRedis(client, redisstore.Config{}))
	})
	t.Run("answers while holds are removed late", func(t *testing.T) { // the clock has moved on, or back, by then
		t.Parallel()
		storetest.RunRandom(t, func(t *testing.T, clock *storetest.Clock) core.Store {
			s := onRedis(client, redisstore.Config{})(t, clock).(*redisstore.Store)
			s.AroundRemovals(func(remove func()) {
				time.Sleep(time.Duration(rand.IntN(4000)) * time.Microsecond) // a fault: the goroutine had no processor
				clock.Still(remove)
			})
			return s
		})
	})
	t.Run("slots are those of the server", func(t *testing.T) {
		t.Parallel()
		for i := range 300 {
			key := fmt.Sprintf("w:%d{user:%d}", i%7, i)
			switch i % 5 {
			case 1:
				key = fmt.Sprintf("{tag%d}:{user:%d}", i%3, i)
			case 2:
				key = fmt.Sprintf("{}%d{x}", i)
			case 3:
				key = fmt.Sprintf("no tag {%d", i)
			}
			want := client.ClusterKeySlot(t.Context(), key).Val()
			if got := redisstore.SlotOf(key); int64(got) != want {
				t.Errorf("%q is in slot %d, the server says %d", key, got, want)
			}
		}
	})
	t.Run("blocks of all masters are listed", func(t *testing.T) {
		t.Parallel()
		wantBlocksListed(t, redisstore.New(client, redisstore.Config{Prefix: redistest.Prefix(t)}))
	})
	t.Run("what one slot charged is given back when another denies", func(t *testing.T) {
		t.Parallel()
		store := redisstore.New(client, redisstore.Config{Prefix: redistest.Prefix(t)})
		var checks []core.Check
		for i, quota := range []int64{10, 20, 1} {
			checks = append(checks, checkOf(fmt.Sprint("key", i), mustRule(t, core.PerDay(quota).Named(fmt.Sprint("limit", i))), 1))
		}
		take(t, store, checks...)
		for range 3 {
			results := take(t, store, checks...)
			for i, want := range []int64{9, 19, 0} {
				if results[i].Remaining != want || results[i].Charged || results[i].Allowed != (i < 2) {
					t.Errorf("limit %d of a denied request: %+v, want %d remaining", i, results[i], want)
				}
			}
		}
	})
	t.Run("where a slot has denied, all are asked before any is charged", func(t *testing.T) {
		t.Parallel()
		prefix := redistest.Prefix(t)
		store := redisstore.New(client, redisstore.Config{Prefix: prefix, DenialCache: redisstore.DenialCache{Disabled: true}})
		must.OK(t, client.ConfigSet(t.Context(), "notify-keyspace-events", "K$").Err())
		pattern := "__keyspace@0__:" + prefix
		events := client.PSubscribe(t.Context(), pattern+"*")
		t.Cleanup(func() { _ = events.Close() })
		must.Do(events.Receive(t.Context()))(t)
		written := func() (n int) { // since the last time
			must.OK(t, client.Publish(t.Context(), pattern, "now").Err())
			for must.Get(events.ReceiveMessage(t.Context()))(t).Payload != "now" {
				n++
			}
			return n
		}
		first := 0
		for usedUp, n := 0, 0; usedUp < 3; n++ { // the slot of one of these is asked last
			var checks []core.Check
			for i := range 3 {
				quota := int64(10)
				if i == usedUp {
					quota = 1
				}
				checks = append(checks, checkOf(fmt.Sprint("key", n, i), mustRule(t, core.PerDay(quota).Named(fmt.Sprint("limit", i))), 1))
			}
			take(t, store, checks...)
			written()
			began := time.Now()
			take(t, store, checks...)
			first += written()
			take(t, store, checks...)
			next := written()
			if time.Since(began) < time.Second/2 { // else the machine stood still, and the denial is none of the last second
				check.Equal(t, fmt.Sprintf("limit %d is used up, and said so: writes by the next denial", usedUp), next, 0)
				usedUp++
			}
		}
		if first == 0 {
			t.Error("no first denial has charged anything, and given it back")
		}
	})
	t.Run("alternatives in several slots are asked in turn", func(t *testing.T) {
		t.Parallel()
		alternativesInTurn(t, redisstore.New(client, redisstore.Config{Prefix: redistest.Prefix(t)}))
	})
	t.Run("what one slot charged is given back when another fails", func(t *testing.T) {
		t.Parallel()
		prefix := redistest.Prefix(t)
		store := redisstore.New(client, redisstore.Config{Prefix: prefix})
		rule := mustRule(t, core.PerDay(10))
		must.OK(t, client.LPush(t.Context(), prefix+"{broken}", "x").Err())
		results := []core.Result{{Charged: true}, {Charged: true}} // of an earlier call
		err := store.Take(t.Context(), []core.Check{checkOf("fine", rule, 3), checkOf("broken", rule, 1)}, results)
		if err == nil || results[0].Charged || results[1].Charged {
			t.Errorf("results %+v, error %v; want an error and nothing charged", results, err)
		}
		check.Equal(t, "of 10 remain where the charge should have been given back", take(t, store, checkOf("fine", rule, 0))[0].Remaining, 10)
	})
	t.Run("a forgotten script is sent again to the calls that need it", func(t *testing.T) {
		t.Parallel()
		store := redisstore.New(client, redisstore.Config{Prefix: redistest.Prefix(t)})
		rule := mustRule(t, core.PerDay(10))
		checks := []core.Check{checkOf("a", rule, 1), checkOf("b", rule, 1), checkOf("c", rule, 1)}
		for n := int64(1); n <= 3; n++ {
			must.OK(t, client.ScriptFlush(t.Context()).Err())
			for i, r := range take(t, store, checks...) {
				check.Equal(t, fmt.Sprintf("check %d: remain", i), r.Remaining, 10-n)
			}
		}
	})
	t.Run("operations of any client key are in its slot", func(t *testing.T) {
		t.Parallel()
		store := redisstore.New(client, redisstore.Config{Prefix: redistest.Prefix(t)})
		rule := onceRule(t, core.PerDay(10))
		for _, key := range []string{"", "}", "}x{y}", "\x00", "{", "x}y", "user:1"} {
			if first, again := take(t, store, operation(key, rule, "op"))[0], take(t, store, operation(key, rule, "op"))[0]; !first.Charged || !again.Repeated {
				t.Errorf("key %q: charged %v, then repeated %v", key, first.Charged, again.Repeated)
			}
			results := take(t, store, operation(key, rule, "refunded"))
			if err := store.Refund(t.Context(), []core.Check{operation(key, rule, "refunded")}, results); err != nil || results[0].Remaining != 9 {
				t.Errorf("key %q: %d of 10 remain after a refund, want 9; %v", key, results[0].Remaining, err)
			}
		}
	})
	t.Run("a hash tag in the prefix makes one call of many keys", func(t *testing.T) {
		t.Parallel()
		store := redisstore.New(client, redisstore.Config{Prefix: "{" + redistest.Prefix(t) + "}:"})
		rule := mustRule(t, core.PerDay(10))
		for _, r := range take(t, store, checkOf("a", rule, 1), checkOf("b", rule, 1), checkOf("c", rule, 11)) {
			if r.Charged || r.Remaining != 10 {
				t.Errorf("%+v, want nothing charged", r)
			}
		}
	})
}

// alternativesInTurn asks for a rate beside a choice of two budgets, whose keys are in three slots.
func alternativesInTurn(t *testing.T, store *redisstore.Store) {
	t.Helper()
	rate := checkOf("client", mustRule(t, core.PerDay(7).Named("rate")), 1)
	plan := checkOf("tenant", mustRule(t, core.PerDay(2).Named("plan").OncePer(keyfuncs.Header("Idempotency-Key"), time.Hour)), 1)
	pool := checkOf("everyone", mustRule(t, core.PerDay(3).Named("pool").OncePer(keyfuncs.Header("Idempotency-Key"), time.Hour)), 1)
	pool.Or = true
	step := func(what string, once string, want ...string) {
		t.Helper()
		checks := []core.Check{rate, plan, pool}
		if once != "" {
			checks[1].Once, checks[2].Once = []byte(once), []byte(once)
		}
		var got []string
		for i, r := range take(t, store, checks...) {
			if r.Charged || r.Repeated {
				got = append(got, checks[i].Rule.Name)
			}
			if r.PassedOver && (r.Charged || r.Repeated) {
				t.Errorf("%s: %s was passed over, and charged", what, checks[i].Rule.Name)
			}
		}
		check.Slices(t, what, got, want)
	}
	step("the plan has room", "", "rate", "plan")
	step("the plan has room once more", "", "rate", "plan")
	step("the plan is used up", "order-1", "rate", "pool")
	step("a repeat stays with the pool", "order-1", "rate", "pool")
	step("the pool has room", "", "rate", "pool")
	step("and once more", "", "rate", "pool")
	step("nothing has room", "")
	must.OK(t, store.Reset(t.Context(), []core.Check{plan}))
	step("the plan has room again", "", "rate", "plan")
	step("the rate is used up: nothing is charged", "")
	must.OK(t, store.Reset(t.Context(), []core.Check{rate}))
	shadowed := []core.Check{rate, plan, pool}
	shadowed[1].Shadow, shadowed[2].Shadow = true, true
	for i, want := range []int64{6, 5, 4} { // one unit of the plan is left, and then nothing of both
		if results := take(t, store, shadowed...); results[0].Remaining != want || results[1].Charged != (i == 0) || results[2].Charged {
			t.Errorf("request %d with a choice in shadow mode: %+v, want %d left of the rate", i, results, want)
		}
	}
	results := make([]core.Result, 3)
	must.OK(t, store.Peek(t.Context(), []core.Check{rate, plan, pool}, results))
	for i, want := range []int64{4, 0, 0} {
		if results[i].Remaining != want {
			t.Errorf("limit %d has %d left, want %d", i, results[i].Remaining, want)
		}
	}
}
