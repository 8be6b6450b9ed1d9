package redisstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/storetest"
	"github.com/weblimit/weblimit/keyfuncs"
)

func TestARequestIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := redisstore.New(server.Client(t), redisstore.Config{DenialCache: redisstore.DenialCache{Disabled: true}})
	checks := []core.Check{
		checkOf("user:1", mustRule(t, core.PerDay(10).Named("a")), 1),
		checkOf("user:1", mustRule(t, core.Per(100, hammerWindow).FixedWindow().Named("b")), 1),
		checkOf("all", mustRule(t, core.PerHour(2).SlidingLog().Named("c")), 1),
	}
	take(t, store, checks...) // loads the script
	before := server.Commandstats(t)
	for range 5 {
		take(t, store, checks...)
	}
	after := server.Commandstats(t)
	check.Equal(t, "calls that 5 requests under three limits made", after["evalsha"].Calls-before["evalsha"].Calls, 5)
	if got := after["eval"].Calls - before["eval"].Calls; got != 0 {
		t.Errorf("the script's source was sent %d times to a server that knows it", got)
	}
	results := take(t, store, checks...)
	for i, want := range []int64{8, 98, 0} {
		check.Equal(t, fmt.Sprintf("limit %d: remain after four requests that the third limit denied", i+1), results[i].Remaining, want)
	}
}

// A key that never expires would lock its client out for ever. One that expires too early
// would refill early. One that every request extends would never end.
func TestEveryKeyExpiresWhenItIsFullAgain(t *testing.T) {
	t.Parallel()
	store, server, prefix := newStore(t, redisstore.Config{DenialCache: redisstore.DenialCache{Disabled: true}}) // or Redis would not be asked
	client := server.Client(t)
	for name, limit := range storetest.Algorithms(2, hammerWindow) {
		rule, key := mustRule(t, limit), prefix+"{"+name+"}"
		expiry := func() time.Time {
			t.Helper()
			// PEXPIRETIME is of Redis 7.0.
			const script = "local now = redis.call('TIME') return {now[1] * 1000 + math.floor(now[2] / 1000), redis.call('PTTL', KEYS[1])}"
			soonest := int64(math.MaxInt64) // of some: Redis can stand still between the two, which makes it later
			for range 5 {
				at, err := client.Eval(t.Context(), script, []string{key}).Int64Slice()
				if err != nil || at[1] < 0 {
					t.Fatalf("%s: now and time to live: %v, %v", name, at, err)
				}
				soonest = min(soonest, at[0]+at[1])
			}
			return time.UnixMilli(soonest)
		}
		// Redis takes the time once for TIME and once for the expiry. If it stands still in between, the expiry is
		// as much too early, so one of some attempts counts.
		for attempt := 1; ; attempt++ {
			first := take(t, store, checkOf(name, rule, 1))[0]
			full := time.UnixMicro(first.At).Add(first.ResetAfter)
			at := expiry()
			if !at.Before(full) && !at.After(full.Add(10*time.Second)) {
				break
			}
			if attempt == 5 {
				t.Errorf("%s: full again at %v, expires at %v", name, full, at)
				break
			}
			must.OK(t, store.Reset(t.Context(), []core.Check{checkOf(name, rule, 0)}))
		}
		take(t, store, checkOf(name, rule, 1))
		// A notice may write the value again, and Redis stand still in between, as above, so one of some attempts counts. A denial
		// that extended the expiry would do so by the time that has passed, each time.
		for attempt := 1; ; attempt++ {
			before, began := expiry(), time.Now()
			for range 3 {
				time.Sleep(20 * time.Millisecond)
				if take(t, store, checkOf(name, rule, 1))[0].Allowed {
					t.Fatalf("%s: a third request of 2 passed", name)
				}
			}
			passed := time.Since(began)
			moved := expiry().Sub(before)
			if moved.Abs() < passed/2 {
				break
			}
			if attempt == 5 {
				t.Errorf("%s: denied requests moved the expiry by %v in %v", name, moved, passed)
				break
			}
		}
	}
}

func TestALostExpiryIsRepairedByTheNextCheck(t *testing.T) {
	t.Parallel()
	store, server, prefix := newStore(t)
	client, rule := server.Client(t), mustRule(t, core.PerHour(5))
	take(t, store, checkOf("k", rule, 1))
	must.OK(t, client.Persist(t.Context(), prefix+"{k}").Err())
	take(t, store, checkOf("k", rule, 1))
	if ttl := client.PTTL(t.Context(), prefix+"{k}").Val(); ttl <= 0 {
		t.Errorf("time to live after the next check: %v", ttl)
	}
}

func TestNothingIsStoredForNothing(t *testing.T) {
	t.Parallel()
	store, server, prefix := newStore(t)
	client, rule := server.Client(t), mustRule(t, core.PerHour(5))
	want := func(what string, keys int) {
		t.Helper()
		if got := client.Keys(t.Context(), prefix+"*").Val(); len(got) != keys {
			t.Errorf("%s: keys %q, want %d", what, got, keys)
		}
	}
	take(t, store, checkOf("k", rule, 0))
	want("a check of cost 0", 0)
	take(t, store, checkOf("k", rule, 6))
	want("a check that can never fit", 0)
	checks := []core.Check{checkOf("k", rule, 2)}
	results := take(t, store, checks...)
	want("a charge", 1)
	must.OK(t, store.Refund(t.Context(), checks, results))
	want("a charge given back", 0)
	take(t, store, checks...)
	must.OK(t, store.Reset(t.Context(), checks))
	want("a reset", 0)
}

func TestAllLimitsOfAKeyAreOneValue(t *testing.T) {
	t.Parallel()
	store, server, prefix := newStore(t)
	var checks []core.Check
	for _, limit := range storetest.Algorithms(100, time.Hour) {
		checks = append(checks, checkOf("user:1", mustRule(t, limit), 1))
	}
	take(t, store, checks...)
	keys := server.Client(t).Keys(t.Context(), prefix+"*").Val()
	if len(keys) != 1 || keys[0] != prefix+"{user:1}" {
		t.Errorf("keys %q, want one", keys)
	}
}

// A node that does not know the script has not run it, so sending it again is safe.
func TestScriptIsSentAgainToANodeThatForgotIt(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	store, rule := redisstore.New(client), mustRule(t, core.PerHour(10))
	for n := int64(1); n <= 5; n++ {
		must.OK(t, client.ScriptFlush(t.Context()).Err())
		must.Equal(t, fmt.Sprintf("request %d after SCRIPT FLUSH: remain", n), take(t, store, checkOf("k", rule, 1))[0].Remaining, 10-n)
	}
}

func TestForeignValuesAreAnOutageAndNotACountOfZero(t *testing.T) {
	t.Parallel()
	store, server, prefix := newStore(t)
	client, rule := server.Client(t), mustRule(t, core.PerHour(10))
	values := map[string]string{"string": "someone else's", "newer": "\x03\x00\x00\x00\x00", "short": "\x02\x00"}
	redistest.Prepare(t, client, func(p redis.Pipeliner) {
		p.LPush(t.Context(), prefix+"{list}", "x")
		for key, value := range values {
			p.Set(t.Context(), prefix+"{"+key+"}", value, 0)
		}
	})
	for key, want := range map[string]string{"list": "WRONGTYPE", "string": "unknown version", "newer": "unknown version", "short": "too short"} {
		err := store.Take(t.Context(), []core.Check{checkOf(key, rule, 1)}, make([]core.Result, 1))
		if err == nil || !strings.HasPrefix(err.Error(), "weblimit: store ") || !strings.Contains(err.Error(), want) {
			t.Errorf("a %s: got %v, want an error with %q", key, err, want)
		}
	}
	for key, value := range values {
		if got := client.Get(t.Context(), prefix+"{"+key+"}").Val(); got != value {
			t.Errorf("a %s: %q was overwritten by %q", key, value, got)
		}
	}
	limiter := core.Must(core.New(core.Config{Store: store, Limits: []core.Limit{core.PerHour(10).By(keyfuncs.Everyone())}}))
	if d := limiter.AllowKey(t.Context(), "list", 1); d.Reason != core.ReasonOutageLocal || d.Err == nil {
		t.Errorf("a limiter decided %v with error %v", d.Reason, d.Err)
	}
}

func TestStoresOfOtherPrefixesShareNothing(t *testing.T) {
	t.Parallel()
	a, server, prefix := newStore(t)
	b := redisstore.New(server.Client(t), redisstore.Config{Prefix: prefix + "b"})
	same := redisstore.New(server.Client(t), redisstore.Config{Prefix: prefix})
	rule := mustRule(t, core.PerHour(10))
	take(t, a, checkOf("k", rule, 4))
	check.Equal(t, "another prefix: remain", take(t, b, checkOf("k", rule, 0))[0].Remaining, 10)
	check.Equal(t, "the same prefix: remain", take(t, same, checkOf("k", rule, 0))[0].Remaining, 6)
}

// If a connection breaks after the command was sent, it is unknown whether it ran. Sending
// it again could charge twice.
func TestACheckThatMayHaveRunIsNotSentAgain(t *testing.T) {
	t.Parallel()
	listener := must.Get(net.Listen("unix", filepath.Join(t.TempDir(), "s")))(t)
	defer func() { _ = listener.Close() }()
	var sent atomic.Int64
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go breakAfterScript(conn, &sent)
		}
	}()
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: listener.Addr().String(), MaxRetries: 5})
	defer func() { _ = client.Close() }()
	err := redisstore.New(client).Take(t.Context(), []core.Check{checkOf("k", mustRule(t, core.PerHour(1)), 1)}, make([]core.Result, 1))
	if err == nil || sent.Load() != 1 {
		t.Errorf("the script was sent %d times, error %v; want once and an error", sent.Load(), err)
	}
	if client.Options().MaxRetries != 5 {
		t.Errorf("the application's own client now retries %d times", client.Options().MaxRetries)
	}
}

// breakAfterScript answers HELLO, and closes the connection when it gets a script.
func breakAfterScript(conn net.Conn, sent *atomic.Int64) {
	defer func() { _ = conn.Close() }()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		switch strings.ToLower(lines.Text()) {
		case "hello", "client":
			_, _ = conn.Write([]byte("-ERR unknown command\r\n"))
		case "evalsha", "eval":
			sent.Add(1)
			return
		}
	}
}

func TestAFrozenServerIsLeftAtTheDeadline(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store, rule := redisstore.New(server.Client(t)), mustRule(t, core.PerHour(5))
	take(t, store, checkOf("k", rule, 1))
	server.Freeze(t)
	defer server.Thaw(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := store.Take(ctx, []core.Check{checkOf("k", rule, 1)}, make([]core.Result, 1))
	var timeout net.Error
	if !errors.Is(err, context.DeadlineExceeded) && (!errors.As(err, &timeout) || !timeout.Timeout()) {
		t.Errorf("got %v, want a time-out", err)
	}
}

func TestNewPanicsWithoutAClient(t *testing.T) {
	t.Parallel()
	var single *redis.Client
	var cluster *redis.ClusterClient
	for want, client := range map[string]redis.UniversalClient{
		"weblimit: redisstore.New: the client is nil":                        nil,
		"weblimit: redisstore.New: the client is a nil *redis.Client":        single,
		"weblimit: redisstore.New: the client is a nil *redis.ClusterClient": cluster,
	} {
		check.Equal(t, "panicked with", fmt.Sprint(panicOf(func() { redisstore.New(client) })), want)
	}
}

// panicOf returns what a function panics with, or nil.
func panicOf(f func()) (with any) {
	defer func() { with = recover() }()
	f()
	return nil
}
