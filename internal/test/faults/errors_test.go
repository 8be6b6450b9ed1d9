package faults_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/stdhttp"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
)

// refusal is a way in which a server answers without deciding.
type refusal struct {
	name  string
	class store.Class

	// key says that the error is about the keys of one request. It opens no breaker and
	// affects no other key.
	key bool

	// server starts the server; redistest.Start if nil.
	server func(t *testing.T) *redistest.Server

	// client makes the application's client; the server's own if nil.
	client func(t *testing.T, s *redistest.Server) *redis.Client

	// begin makes the server refuse, and returns a function that ends it. key is the
	// existing Redis key of the client "k". end is nil if only another server helps.
	begin func(t *testing.T, s *redistest.Server, key string) (end func())

	// first says that the server has refused from the start.
	first bool
}

var refusals = []refusal{
	{
		name: "READONLY", class: store.ClassReadOnly,
		begin: func(t *testing.T, s *redistest.Server, _ string) func() {
			s.ReadOnly(t)
			return func() { s.Writable(t) }
		},
	},
	{
		name: "LOADING", class: store.ClassLoading,
		begin: func(t *testing.T, s *redistest.Server, _ string) func() { return s.Loading(t) },
	},
	{
		name: "OOM", class: store.ClassMemory,
		begin: func(t *testing.T, s *redistest.Server, _ string) func() {
			s.FillMemory(t)
			return func() { s.FreeMemory(t) }
		},
	},
	{
		name: "BUSY", class: store.ClassBusy,
		begin: func(t *testing.T, s *redistest.Server, _ string) func() { return s.Busy(t, 0) },
	},
	{
		name: "MASTERDOWN", class: redisstore.ClassMasterDown,
		begin: func(t *testing.T, s *redistest.Server, _ string) func() {
			s.MasterDown(t)
			return func() { s.Writable(t) }
		},
	},
	{
		name: "MISCONF, its disk fails", class: store.ClassDisk,
		server: func(t *testing.T) *redistest.Server {
			return redistest.StartTCP(t, "--dir", t.TempDir(), "--save", "3600", "1000000")
		},
		begin: func(t *testing.T, s *redistest.Server, _ string) func() {
			c := s.ClientWith(t, &redis.Options{MaxRetries: -1, ReadTimeout: patience}) // which saves once
			dir := c.ConfigGet(t.Context(), "dir").Val()["dir"]
			if err := os.Remove(dir); err != nil { // it is empty
				t.Fatal(err)
			}
			if err := c.BgSave(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "a failed BGSAVE", func() bool {
				return strings.Contains(c.Info(t.Context(), "persistence").Val(), "rdb_last_bgsave_status:err")
			})
			return func() { s.ConfigSet(t, "stop-writes-on-bgsave-error", "no") }
		},
	},
	{
		name: "NOPERM, the command", class: store.ClassPermission,
		server: withUser("app", "~*", "+@all"),
		client: as("app"),
		begin: func(t *testing.T, s *redistest.Server, _ string) func() {
			s.User(t, "app", "~*", "+@all", "-@scripting")
			return func() { s.User(t, "app", "~*", "+@all") }
		},
	},
	{
		name: "NOPERM, a command within the script", class: store.ClassPermission,
		server: withUser("app", "~*", "+@all"),
		client: as("app"),
		begin: func(t *testing.T, s *redistest.Server, _ string) func() {
			s.User(t, "app", "~*", "+@all", "-@string")
			return func() { s.User(t, "app", "~*", "+@all") }
		},
	},
	{
		name: "NOPERM, the keys", class: store.ClassPermission,
		server: withUser("app", "~*", "+@all"),
		client: as("app"),
		begin: func(t *testing.T, s *redistest.Server, _ string) func() {
			s.User(t, "app", "~others:*", "+@all")
			return func() { s.User(t, "app", "~*", "+@all") }
		},
	},
	{
		name: "NOAUTH", class: store.ClassLogin,
		begin: func(t *testing.T, s *redistest.Server, _ string) func() {
			admin := redis.NewClient(&redis.Options{Network: s.Network(), Addr: s.Addr(), Password: "secret"})
			t.Cleanup(func() { _ = admin.Close() })
			s.ConfigSet(t, "requirepass", "secret")
			if err := admin.ClientKillByFilter(t.Context(), "type", "normal").Err(); err != nil { // else connections that are logged in stay so
				t.Fatal(err)
			}
			return func() {
				if err := admin.ConfigSet(t.Context(), "requirepass", "").Err(); err != nil {
					t.Error(err)
				}
			}
		},
	},
	{
		name: "WRONGPASS", class: store.ClassLogin, first: true,
		server: func(t *testing.T) *redistest.Server {
			redistest.Since(t, 6, 0, "ACLs")
			return redistest.Start(t)
		},
		client: as("app"),
		begin: func(t *testing.T, s *redistest.Server, _ string) func() {
			return func() { s.User(t, "app", "~*", "+@all") }
		},
	},
	{
		name: "no EVALSHA", class: store.ClassUnsupported, first: true,
		server: func(t *testing.T) *redistest.Server {
			return redistest.Start(t, "--rename-command", "EVALSHA", "")
		},
	},
	{
		name: "no EVAL", class: store.ClassUnsupported, first: true,
		server: func(t *testing.T) *redistest.Server {
			return redistest.Start(t, "--rename-command", "EVAL", "")
		},
	},
	{
		name: "WRONGTYPE", class: redisstore.ClassType, key: true,
		begin: func(t *testing.T, s *redistest.Server, key string) func() {
			c := s.Client(t)
			mustRun(t, c.Del(t.Context(), key))
			mustRun(t, c.LPush(t.Context(), key, "of another application"))
			return func() { mustRun(t, c.Del(context.Background(), key)) }
		},
	},
	{
		name: "VALUE, of another version", class: store.ClassValue, key: true,
		begin: func(t *testing.T, s *redistest.Server, key string) func() {
			c := s.Client(t)
			mustRun(t, c.Set(t.Context(), key, "\xffof a version to come", 0))
			return func() { mustRun(t, c.Del(context.Background(), key)) }
		},
	},
	{
		name: "VALUE, cut short", class: store.ClassValue, key: true,
		begin: func(t *testing.T, s *redistest.Server, key string) func() {
			c := s.Client(t)
			value := c.Get(t.Context(), key).Val()
			mustRun(t, c.Set(t.Context(), key, value[:len(value)/2], 0))
			return func() { mustRun(t, c.Del(context.Background(), key)) }
		},
	},
}

func mustRun(t *testing.T, cmd redis.Cmder) {
	t.Helper()
	if err := cmd.Err(); err != nil {
		t.Errorf("%v: %v", cmd.Args()[0], err)
	}
}

func withUser(name string, rules ...string) func(t *testing.T) *redistest.Server {
	return func(t *testing.T) *redistest.Server {
		s := redistest.Start(t)
		s.User(t, name, rules...)
		return s
	}
}

func as(user string) func(t *testing.T, s *redistest.Server) *redis.Client {
	return func(t *testing.T, s *redistest.Server) *redis.Client { return s.ClientAs(t, user) }
}

// start starts the server that refuses, and returns a client of the application's.
func (r *refusal) start(t *testing.T) (*redistest.Server, *redis.Client) {
	t.Helper()
	start, client := r.server, r.client
	if start == nil {
		start = func(t *testing.T) *redistest.Server { return redistest.Start(t) }
	}
	if client == nil {
		client = func(t *testing.T, s *redistest.Server) *redis.Client { return s.Client(t) }
	}
	s := start(t)
	return s, client(t, s)
}

// outcome is how an outage action decides a request.
type outcome struct {
	policy  core.OutageAction
	allowed bool
	reason  core.Reason
	status  int
}

var outcomes = map[string]outcome{
	"Local": {core.Local, true, core.ReasonOutageLocal, http.StatusOK},
	"Allow": {core.Allow, true, core.ReasonOutageAllowed, http.StatusOK},
	"Deny":  {core.Deny, false, core.ReasonOutageDenied, http.StatusServiceUnavailable},
}

// wantOutage fails unless the policy made the decision, because of an error of one of
// the classes.
func (o outcome) wantOutage(t *testing.T, what string, d core.Decision, classes ...store.Class) {
	t.Helper()
	if !slices.Contains(classes, classOf(d)) || d.Allowed != o.allowed || d.Reason != o.reason || !d.Allowed && d.Status() != o.status {
		t.Errorf("%s: allowed=%v because %v, class %q, error %v; want allowed=%v because %v, one of %q",
			what, d.Allowed, d.Reason, classOf(d), d.Err, o.allowed, o.reason, classes)
	}
}

// app is an application under test: a limiter on a store of its own.
type app struct {
	*core.Limiter
	outcome
	name   string // of the policy
	prefix string
	heard  *audience
	node   string
}

// appQuota is the quota of each of its clients.
const appQuota = 1000

// newApp makes an application whose checks have so much time that only an answer ends
// them.
func newApp(t *testing.T, s *redistest.Server, c *redis.Client, policy string) *app {
	t.Helper()
	prefix, o := redistest.Prefix(t), outcomes[policy]
	store := redisstore.New(c, redisstore.Config{Prefix: prefix})
	return &app{newPatient(t, store, atMost(appQuota, "api").OnOutage(o.policy)), o, policy, prefix, listen(store), s.Addr()}
}

// newApps makes an application of each policy.
func newApps(t *testing.T, s *redistest.Server, c *redis.Client) (apps []*app) {
	t.Helper()
	for policy := range outcomes {
		apps = append(apps, newApp(t, s, c, policy))
	}
	return apps
}

// ask asks for one unit for a client.
func (a *app) ask(key string) core.Decision { return a.AllowKey(context.Background(), key, 1) }

// wantOutage fails unless the policy made the decision, because of an error of one of the classes, and
// nothing that is told of it holds the planted key.
func (a *app) wantOutage(t *testing.T, what string, d core.Decision, classes ...store.Class) {
	t.Helper()
	a.outcome.wantOutage(t, a.name+", "+what, d, classes...)
	if text := everything(d, a.heard); leaks(text) {
		t.Fatalf("%s: the key can be read:\n%s", what, text)
	}
}

// However Redis refuses: the outage action of each application on it makes the decisions, and no error,
// event or log line contains the key.
func TestErrorsEndInThePolicyUnderTheirNames(t *testing.T) {
	t.Parallel()
	for _, r := range refusals {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			s, client := r.start(t)
			apps := newApps(t, s, client)
			var ends []func()
			for i, a := range apps {
				key := ""
				if !r.first {
					key = a.learn(t, s)
				}
				if r.begin != nil && (r.key || i == len(apps)-1) {
					ends = append(ends, r.begin(t, s, key))
				}
			}
			for _, a := range apps {
				if r.key {
					a.refusesKey(t, r.class)
				} else {
					a.refusesAll(t, r.class)
				}
			}
			if r.begin == nil {
				return // it does not end
			}
			for _, end := range ends {
				end()
			}
			for _, a := range apps {
				took := eventually(t, "a decision by Redis", func() bool { return a.ask(planted).Reason == core.ReasonWithinLimit })
				if a.name == "Local" {
					figure(t, "decided by Redis again after", took)
				}
				if r.key {
					continue
				}
				if n := a.heard.atLeast(1, store.EventBreakerClosed); n != 1 {
					t.Errorf("%s: the breaker closed %d times, want once; events: %v", a.name, n, a.heard)
				}
			}
		})
	}
}

// learn has the server decide for the planted key's client, and returns its Redis key.
func (a *app) learn(t *testing.T, s *redistest.Server) string {
	t.Helper()
	if d := a.ask(planted); d.Reason != core.ReasonWithinLimit {
		t.Fatalf("before the fault: %v, %v", d.Reason, d.Err)
	}
	keys, err := s.Client(t).Keys(t.Context(), a.prefix+"*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys %q, %v, want one", keys, err)
	}
	return keys[0]
}

// refusesAll asks until the breaker has opened. The outage action must make every decision.
func (a *app) refusesAll(t *testing.T, class store.Class) {
	t.Helper()
	asked := 0
	for ; asked < 100; asked++ {
		d := a.ask(planted)
		if asked == 0 && classOf(d) == store.ClassConnection {
			// The connection from before the fault has ended. That is an error of its own class.
			a.wantOutage(t, "the first decision", d, store.ClassConnection)
			continue
		}
		if classOf(d) == store.ClassOpen {
			a.wantOutage(t, "with the breaker open", d, store.ClassOpen)
			break
		}
		a.wantOutage(t, fmt.Sprint("decision ", asked+1), d, class)
	}
	if asked == 100 {
		t.Errorf("100 failing decisions did not open the breaker; events: %v", a.heard)
	}
	for _, kind := range []store.EventKind{store.EventStoreError, store.EventBreakerOpened} {
		if !a.heard.heard(kind, class) {
			t.Errorf("no event %q of class %q; events: %v", kind, class, a.heard)
		}
	}
	for _, e := range a.heard.of(store.EventStoreError) {
		if e.Node != a.node || e.Err == nil {
			t.Errorf("the event names node %q and error %v, want node %q", e.Node, e.Err, a.node)
		}
	}
	if n := a.heard.atLeast(1, store.EventBreakerOpened); n != 1 {
		t.Errorf("the breaker opened %d times, want once; events: %v", n, a.heard)
	}
}

// refusesKey asks often. The outage action must make every decision for the key, and
// Redis all others.
func (a *app) refusesKey(t *testing.T, class store.Class) {
	t.Helper()
	for n := range 20 {
		a.wantOutage(t, fmt.Sprint("decision ", n+1), a.ask(planted), class)
		if d := a.ask("other"); d.Reason != core.ReasonWithinLimit {
			t.Errorf("another key: %v, %v", d.Reason, d.Err)
		}
	}
	if n := a.heard.count(store.EventBreakerOpened); n != 0 {
		t.Errorf("an error of one key opened the breaker %d times; events: %v", n, a.heard)
	}
	if !a.heard.heard(store.EventStoreError, class) {
		t.Errorf("no event of class %q; events: %v", class, a.heard)
	}
}

// A batch holds the checks of many requests. A check that Redis can't decide fails
// alone.
func TestAKeyThatCantBeReadHarmsNoOtherInItsBatch(t *testing.T) {
	t.Parallel()
	for _, r := range refusals {
		if !r.key {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			proxy := redistest.StartProxy(t, s)
			a := newApp(t, s, proxy.Client(t), "Local")
			defer r.begin(t, s, a.learn(t, s))()
			proxy.Delay(5 * time.Millisecond) // so that checks wait for each other
			const goroutines = 64
			requests := long.Rounds(5, 20)
			before := s.Calls(t, "evalsha")
			atOnce(goroutines, func(g int) {
				for range requests {
					if g%8 == 0 {
						a.wantOutage(t, "the key that can't be read", a.ask(planted), r.class)
					} else if d := a.ask(fmt.Sprint("k", g)); d.Reason != core.ReasonWithinLimit {
						t.Errorf("another key: %v, %v", d.Reason, d.Err)
					}
				}
			})
			figure(t, "checks per call", float64(goroutines*requests)/float64(s.Calls(t, "evalsha")-before))
			if n := a.heard.count(store.EventBreakerOpened); n != 0 {
				t.Errorf("the breaker opened; events: %v", a.heard)
			}
			for g := range goroutines {
				if g%8 == 0 {
					continue
				}
				if left := remaining(t, a.Limiter, fmt.Sprint("k", g)); left != int64(appQuota-requests) {
					t.Errorf("another key has %d left, want %d", left, 1000-requests)
				}
			}
		})
	}
}

// A server that has forgotten the script gets it again. No request fails, not in
// pipelines of many calls either.
func TestScriptFlushIsNoErrorAtAll(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := redistest.StartProxy(t, s)
	a := newApp(t, s, proxy.Client(t), "Deny")
	const goroutines, flushes = 512, 20 // more keys than one call takes
	requests := long.Rounds(2, 10)
	proxy.Delay(5 * time.Millisecond)
	done := make(chan struct{})
	var flusher sync.WaitGroup
	flusher.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(3 * time.Millisecond):
				s.ScriptFlush(t)
			}
		}
	})
	atOnce(goroutines, func(g int) {
		for range requests {
			if d := a.ask(fmt.Sprint("k", g)); d.Reason != core.ReasonWithinLimit {
				t.Errorf("%v, %v", d.Reason, d.Err)
			}
		}
	})
	close(done)
	flusher.Wait()
	for range flushes { // and one by one
		s.ScriptFlush(t)
		if d := a.ask("k"); d.Reason != core.ReasonWithinLimit {
			t.Errorf("%v, %v", d.Reason, d.Err)
		}
	}
	stats := s.Commandstats(t)
	figure(t, "times the script was forgotten", stats["script|flush"].Calls)
	figure(t, "times its source was sent again", stats["eval"].Calls)
	figure(t, "errors that anybody saw", a.heard.count(store.EventStoreError))
	if stats["eval"].Calls < flushes {
		t.Errorf("the source was sent %d times after %d flushes", stats["eval"].Calls, flushes)
	}
	if a.heard.String() != "none" {
		t.Errorf("events: %v", a.heard)
	}
	for g := range goroutines {
		if left := remaining(t, a.Limiter, fmt.Sprint("k", g)); left != int64(appQuota-requests) {
			t.Errorf("key %d has %d left after %d requests of 1000", g, left, requests)
		}
	}
}

// A client for a single server talks to a node of a Cluster. No decision is wrong, and
// the errors have a class.
func TestAClientOfOneServerOnACluster(t *testing.T) {
	t.Parallel()
	t.Run("CROSSSLOT", func(t *testing.T) {
		t.Parallel()
		s := redistest.StartCluster(t)
		for policy, outcome := range outcomes {
			backend := redisstore.New(s.Client(t), redisstore.Config{Prefix: redistest.Prefix(t)})
			heard := listen(backend)
			per := func(name string, key keyfuncs.Func) core.Limit {
				return atMostOf(1000, name, key).OnOutage(outcome.policy)
			}
			l := newPatient(t, backend, per("client", keyfuncs.ClientIP()), per("all", keyfuncs.Everyone()))
			for n := range 20 {
				d := l.Allow(stdhttp.Of(httptest.NewRequest(http.MethodGet, "/", http.NoBody)))
				outcome.wantOutage(t, fmt.Sprint(policy, ", decision ", n+1), d, redisstore.ClassSlots)
			}
			if d := l.AllowKey(t.Context(), "k", 1); d.Reason != core.ReasonWithinLimit { // one key, one slot
				t.Errorf("%s: limits of one key: %v, %v", policy, d.Reason, d.Err)
			}
			if !heard.heard(store.EventStoreError, redisstore.ClassSlots) || heard.count(store.EventBreakerOpened) != 0 {
				t.Errorf("%s: events: %v", policy, heard)
			}
		}
	})
	t.Run("MOVED", func(t *testing.T) {
		t.Parallel()
		s := redistest.SharedCluster(t).Nodes()[0]
		for _, a := range newApps(t, s, s.Client(t)) {
			moved, own := 0, 0
			for n := range 60 {
				switch d := a.ask(fmt.Sprint("k", n)); d.Reason {
				case core.ReasonWithinLimit:
					own++
				default:
					moved++
					a.wantOutage(t, fmt.Sprint("key ", n), d, redisstore.ClassMoved)
				}
			}
			if moved == 0 || own == 0 {
				t.Errorf("%s: of 60 keys %d were decided and %d moved, want some of both", a.name, own, moved)
			}
			if !a.heard.heard(store.EventStoreError, redisstore.ClassMoved) || a.heard.count(store.EventBreakerOpened) != 0 {
				t.Errorf("%s: events: %v", a.name, a.heard)
			}
		}
	})
}
