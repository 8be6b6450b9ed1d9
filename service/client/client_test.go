package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/service"
	"github.com/weblimit/weblimit/service/client"
)

// policies are policies by name, in code.
type policies map[string][]core.Limit

func (p policies) Limiter(config core.Config, name string) (*core.Limiter, error) {
	limits, ok := p[name]
	if !ok {
		return nil, core.ErrNoPolicy
	}
	config.Limits, config.Version = limits, "v7"
	return core.New(config)
}

var testPolicies = policies{
	"user":    {core.Per(50, 10_000*time.Hour).FixedWindow().By(keyfuncs.User("user")).Named("user"), core.PerMonth(1000, time.UTC).By(keyfuncs.User("user")).Named("month")},
	"key":     {core.PerHour(5).By(keyfuncs.APIKey("X-API-Key")).Named("key").OnMissingKey(core.DenyRequest)},
	"slow":    {core.PerSecond(2).Burst(1).Wait(time.Minute).By(keyfuncs.Everyone()).Named("slow")},
	"running": {core.Concurrent(5).By(keyfuncs.Tenant("tenant")).Named("running")},
	"llm":     {core.Per(1000, 10_000*time.Hour).FixedWindow().By(keyfuncs.Tenant("tenant")).Named("tokens")},

	"estimated": {core.Per(1000, 10_000*time.Hour).FixedWindow().By(keyfuncs.Tenant("tenant")).Named("tokens").Estimate(300)},
	"brief":     {core.Concurrent(1).Lease(time.Second).By(keyfuncs.Tenant("tenant")).Named("running")},
}

// server serves a handler that counts its requests.
type server struct {
	*httptest.Server
	requests atomic.Int64
	instead  atomic.Value // of func(http.ResponseWriter, *http.Request) bool: whether it has answered
	broken   atomic.Bool
	done     atomic.Int64

	mu   sync.Mutex
	wait <-chan struct{} // what requests wait for, if it is not nil. Guarded by mu.
}

// hold has requests wait until the function that it returns is called, or the test ends.
func (s *server) hold(t *testing.T) (release func()) {
	t.Helper()
	held := make(chan struct{})
	s.mu.Lock()
	s.wait = held
	s.mu.Unlock()
	release = sync.OnceFunc(func() { close(held) })
	t.Cleanup(release)
	return release
}

// await waits until n requests have come.
func (s *server) await(t *testing.T, n int64) {
	t.Helper()
	wait.Until(t, fmt.Sprint(n, " requests have come"), func() bool { return s.requests.Load() >= n })
}

// begins waits until goroutines that count what they begin have begun n calls of a client.
func begins(t *testing.T, began *atomic.Int64, n int64) {
	t.Helper()
	wait.Until(t, "all calls have begun", func() bool { return began.Load() == n })
	time.Sleep(20 * time.Millisecond) // they are nearly in the queue, of which nothing can be seen
}

func serve(t *testing.T) *server {
	t.Helper()
	s := must.Get(service.New(service.Config{Policies: testPolicies, Store: core.NewMemory(), Tokens: []string{"0123456789abcdef"}}))(t)
	to := new(server)
	to.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to.requests.Add(1)
		if instead, ok := to.instead.Load().(func(http.ResponseWriter, *http.Request) bool); ok && instead(w, r) {
			return
		}
		if to.broken.Load() {
			panic(http.ErrAbortHandler)
		}
		to.mu.Lock()
		wait := to.wait
		to.mu.Unlock()
		if wait != nil {
			<-wait
		}
		s.ServeHTTP(w, r)
		to.done.Add(1)
	}))
	t.Cleanup(to.Close)
	return to
}

func newClient(t *testing.T, config client.Config) *client.Client {
	t.Helper()
	if config.Timeout == 0 {
		config.Timeout = time.Minute
	}
	if config.OnOutage.Action == core.Local && len(config.OnOutage.Limits) == 0 {
		config.OnOutage.Action = core.Allow
	}
	config.Token = "0123456789abcdef"
	c := must.Get(client.New(config))(t)
	t.Cleanup(c.Close)
	return c
}

func limiterOf(t *testing.T, c *client.Client, name string) *core.Limiter {
	t.Helper()
	return must.Get(c.Limiter(core.Config{Store: c.Store()}, name))(t)
}

// ann is a check of a user, of whom 50 are allowed.
var ann = client.Check{Policy: "user", Key: "user:ann"}

// allows has a client allow the check of ann.
func allows(t *testing.T, c *client.Client) {
	t.Helper()
	if a, err := c.Check(context.Background(), ann); err != nil || !a.Allowed {
		t.Errorf("%+v %v", a, err)
	}
}

// headers are response headers.
type headers map[string]string

func (h headers) Get(name string) string { return h[name] }
func (h headers) Set(name, value string) { h[name] = value }

func TestALimiterOfTheServiceDecidesAsOneOfTheProcess(t *testing.T) {
	t.Parallel()
	c := newClient(t, client.Config{URL: serve(t).URL, Send: client.Fields{Values: []string{"user"}, Headers: []string{"X-Api-Key"}}})
	local := core.NewMemory()
	for name, limits := range testPolicies {
		if name == "slow" || name == "running" {
			continue
		}
		config := core.Config{Store: local, Limits: limits, Version: "v7"}
		here, there := core.Must(core.New(config)), limiterOf(t, c, name)
		for i := range 60 {
			values := keyfuncs.Values{"user": "ann"}
			if i%10 != 9 {
				values["X-Api-Key"] = "secret"
			}
			want, got := here.Allow(values), there.Allow(values)
			if want.Allowed != got.Allowed || want.Reason != got.Reason || want.Version() != got.Version() || want.Status() != got.Status() {
				t.Fatalf("%s, number %d: %v, want %v", name, i+1, got.LogValue(), want.LogValue())
			}
			wantHeaders, gotHeaders := headers{}, headers{}
			want.SetHeaders(wantHeaders)
			got.SetHeaders(gotHeaders)
			delete(wantHeaders, "Retry-After") // a second may end in between
			delete(gotHeaders, "Retry-After")
			if a, b := wantHeaders["Ratelimit-Policy"]+wantHeaders["Www-Authenticate"], gotHeaders["Ratelimit-Policy"]+gotHeaders["Www-Authenticate"]; a != b {
				t.Fatalf("%s, number %d: headers %v, want %v", name, i+1, gotHeaders, wantHeaders)
			}
			if a, b := want.Results(), got.Results(); len(a) != len(b) || len(a) > 0 && (a[0].Remaining != b[0].Remaining || a[0].Rule.Name != b[0].Rule.Name) {
				t.Fatalf("%s, number %d: %+v, want %+v", name, i+1, b, a)
			}
		}
	}
	there := limiterOf(t, c, "user")
	ctx := context.Background()
	if d := there.AllowKey(ctx, "user:bob", 7); !d.Allowed || d.Results()[0].Remaining != 43 {
		t.Errorf("by key: %v", d.LogValue())
	}
	if d, err := there.Peek(ctx, "user:bob", 44); err != nil || d.Allowed {
		t.Errorf("a peek: %v %v", d.LogValue(), err)
	}
	if q, ok := func() (core.Quota, bool) { d := there.AllowKey(ctx, "user:bob", 1); return d.Quota() }(); !ok || q.Units != 1000 || q.Remaining != 992 || q.End.Before(time.Now()) {
		t.Errorf("the quota: %+v", q)
	}
	slow := limiterOf(t, c, "slow")
	for {
		began := time.Now()
		slow.Allow(keyfuncs.Values{})
		d := slow.Allow(keyfuncs.Values{})
		if d.Allowed && d.Reason == core.ReasonDelayed && d.Delay() > 0 {
			break
		}
		if time.Since(began) < 500*time.Millisecond { // else its turn had come by itself
			t.Errorf("a turn: %v", d.LogValue())
			break
		}
	}
}

func TestChecksThatComeAtOnceGoTogether(t *testing.T) {
	t.Parallel()
	s := serve(t)
	release := s.hold(t)
	c := newClient(t, client.Config{URL: s.URL, Connections: 2})
	const n = 200
	var allowed, began atomic.Int64
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			began.Add(1)
			a, err := c.Check(context.Background(), client.Check{Policy: "user", Key: fmt.Sprintf("user:%d", i%2)})
			check.OK(t, err)
			if a.Allowed {
				allowed.Add(1)
			}
		})
	}
	s.await(t, 2)
	begins(t, &began, n)
	release()
	group.Wait()
	check.Equal(t, "allowed, 50 for each of two users", allowed.Load(), 100)
	if r := s.requests.Load(); r > n/10 {
		t.Errorf("%d requests for %d checks", r, n)
	}
	var problem *client.Problem
	if _, err := c.Check(context.Background(), client.Check{Policy: "nobody", Key: "k"}); !errors.As(err, &problem) || problem.Status != 404 || problem.Pointer != "/policy" {
		t.Errorf("an unknown policy: %v", err)
	}
	for i := range 20 { // those that are wrong keep nobody else from an answer
		group.Go(func() {
			key := fmt.Sprintf("user:%d", 100+i)
			if i%5 == 0 {
				key = ""
			}
			if _, err := c.Check(context.Background(), client.Check{Policy: "user", Key: key}); (err != nil) != (key == "") {
				t.Errorf("%q: %v", key, err)
			}
		})
	}
	group.Wait()
}

func TestAServiceThatIsAway(t *testing.T) {
	t.Parallel()
	s := serve(t)
	stand := core.PerHour(10).By(keyfuncs.User("user")).Named("stand-in")
	var events sync.Map
	for name, outage := range map[string]client.OnOutage{"allow": {Action: core.Allow}, "deny": {Action: core.Deny}, "local": {Limits: []core.Limit{stand}}} {
		c := newClient(t, client.Config{URL: s.URL, OnOutage: outage, Send: client.Fields{Values: []string{"user"}}})
		c.OnEvent(func(e core.Event) { events.Store(e.Kind, true) })
		l := limiterOf(t, c, "user")
		values := keyfuncs.Values{"user": name}
		must.Equal(t, name+", before", l.Allow(values).Reason, core.ReasonWithinLimit)
		s.broken.Store(true)
		before, began := s.requests.Load(), time.Now()
		allowed := 0
		for range 30 {
			d := l.Allow(values)
			if d.Allowed {
				allowed++
			}
			if d.Err == nil {
				t.Errorf("%s, away: %v", name, d.LogValue())
			}
		}
		check.Equal(t, name+": allowed of 30", allowed, map[string]int{"allow": 30, "deny": 0, "local": 10}[name])
		// While the breaker is open, it looks every 400 ms at most.
		if asked := s.requests.Load() - before; asked > 8+int64(time.Since(began)/(400*time.Millisecond)) {
			t.Errorf("%s: asked %d times while it is away", name, asked)
		}
		s.broken.Store(false)
		wait.Until(t, name+": it comes back", func() bool { return l.Allow(values).Reason == core.ReasonWithinLimit })
	}
	for _, kind := range []store.EventKind{store.EventOutageBegan, store.EventBreakerOpened, store.EventBreakerClosed, store.EventStoreError} {
		if _, seen := events.Load(kind); !seen {
			t.Errorf("no event %v", kind)
		}
	}
}

func TestASlowServiceIsAnOutageAndChargesOnce(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := newClient(t, client.Config{URL: s.URL, Timeout: 500 * time.Millisecond})
	release := s.hold(t)
	defer release()
	began := time.Now()
	_, err := c.Check(context.Background(), ann)
	if e := store.ErrorOf(err); e == nil || e.Class != store.ClassTimeout || time.Since(began) > 30*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	if n := s.requests.Load(); n > 1 { // none, if a busy machine had no time to send it
		t.Errorf("it was sent %d times", n)
	}
}

func TestReservationsOfAClient(t *testing.T) {
	t.Parallel()
	c := newClient(t, client.Config{URL: serve(t).URL})
	ctx := context.Background()
	check := client.Check{Policy: "llm", Request: &client.Request{Values: map[string]any{"tenant": "acme"}}, Costs: map[string]int64{"tokens": 400}}
	a, err := c.Reserve(ctx, check)
	if err != nil || !a.Allowed || a.Reservation == "" {
		t.Fatal(a, err)
	}
	cost := int64(150)
	must.OK(t, c.Settle(ctx, client.Settlement{Reservation: a.Reservation, Cost: &cost}))
	var problem *client.Problem
	if err := c.Settle(ctx, client.Settlement{Reservation: a.Reservation, Cost: &cost}); !errors.As(err, &problem) || problem.Status != http.StatusConflict {
		t.Errorf("again: %v", err)
	}
	must.OK(t, c.Refund(ctx, must.Get(c.Reserve(ctx, check))(t).Reservation))
	must.OK(t, c.Charge(ctx, "op", client.Check{Policy: "llm", Key: "tenant:acme", Cost: &cost}))
	for range 2 {
		must.Get(c.CheckOnce(ctx, "op-1", client.Check{Policy: "llm", Key: "tenant:acme", Cost: &cost}))(t)
	}
	if a, err = c.Peek(ctx, client.Check{Policy: "llm", Key: "tenant:acme"}); err != nil || a.Limits[0].Remaining != 1000-150-150-150 {
		t.Errorf("%+v %v", a, err)
	}
	both, err := c.Check(ctx, client.Check{Policy: "llm", Key: "tenant:acme"}, client.Check{Policy: "user", Key: "user:ann"})
	if err != nil || len(both.Checks) != 2 || !both.Allowed {
		t.Errorf("%+v %v", both, err)
	}
}

func TestUnixSockets(t *testing.T) {
	t.Parallel()
	s := serve(t)
	path := filepath.Join(t.TempDir(), "s")
	listener := must.Get(net.Listen("unix", path))(t)
	server := &http.Server{Handler: s.Config.Handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	allows(t, newClient(t, client.Config{URL: "unix://" + path}))
}

func TestTLS(t *testing.T) {
	t.Parallel()
	url, roots := serveTLS(t, nil)
	own := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	allows(t, newClient(t, client.Config{URL: url, TLS: own}))
	check.Equal(t, "protocols that the client has written into the caller's configuration", len(own.NextProtos), 0)
	c := newClient(t, client.Config{URL: url})
	if _, err := c.Check(context.Background(), ann); store.ErrorOf(err).Class != store.ClassConnection {
		t.Errorf("a certificate of nobody: %v", err)
	}
}

// A check that nobody waits for any more is not sent, and so not charged; and a caller can leave.
func TestChecksThatNobodyWaitsForAreNotSent(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := newClient(t, client.Config{URL: s.URL, Connections: 1})
	release := s.hold(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var group sync.WaitGroup
	for i := range 5 {
		group.Go(func() {
			if _, err := c.Check(ctx, client.Check{Policy: "user", Key: "user:left"}); err == nil {
				t.Error("no error")
			}
		})
		if i == 0 {
			s.await(t, 1) // it is under way
		}
	}
	time.Sleep(20 * time.Millisecond) // most of the others are in the queue, of which nothing can be seen
	cancel()
	group.Wait() // though nothing was answered
	release()
	wait.Until(t, "the one that was under way is answered", func() bool { return s.done.Load() > 0 })
	a, err := c.Check(context.Background(), client.Check{Policy: "user", Key: "user:left"})
	if err != nil || a.Limits[0].Remaining != 48 {
		t.Errorf("%+v %v: want one of the five charged, the one that was under way", a.Limits, err)
	}
}

func TestConfigurationsThatCanNotWork(t *testing.T) {
	t.Parallel()
	for _, config := range []client.Config{
		{},
		{URL: "127.0.0.1:8080"},
		{URL: "ftp://x"},
		{URL: "http://user@x"},
		{URL: "unix://"},
		{URL: "http://x", Timeout: 1},
		{URL: "http://x", Connections: -1},
		{URL: "http://x", Token: "0123456789abcdef\n"},
		{URL: "http://x", Token: "0123456789äbcdef"},
		{URL: "http://x", Send: client.Fields{Headers: []string{"X-A", "X B"}}},
		{URL: "http://x", Send: client.Fields{Query: []string{""}}},
		{URL: "http://x", Send: client.Fields{Cookies: []string{strings.Repeat("c", 129)}}},
		{URL: "http://x", Timeout: time.Hour},
		{URL: "http://x", Transport: http.DefaultTransport, TLS: &tls.Config{MinVersion: tls.VersionTLS12}},
		{URL: "http://x", OnOutage: client.OnOutage{Action: 7}},
		{URL: "http://x", OnOutage: client.OnOutage{Action: core.Deny, Limits: []core.Limit{core.PerHour(1).By(keyfuncs.Everyone())}}},
	} {
		if _, err := client.New(config); err == nil {
			t.Errorf("%+v: no error", config)
		}
	}
	undecided := must.Get(client.New(client.Config{URL: "http://127.0.0.1:1"}))(t)
	_, err := undecided.Limiter(core.Config{Store: undecided.Store()}, "user")
	check.Fails(t, "nobody says what happens in an outage", err, "say how to decide while the service does not answer")
	c := newClient(t, client.Config{URL: "http://127.0.0.1:1"})
	for _, config := range []core.Config{
		{}, {Store: core.NewMemory()}, {Store: c.Store(), Timeout: time.Hour}, {Store: c.Store(), Limits: []core.Limit{core.PerHour(1)}},
	} {
		if _, err := c.Limiter(config, "user"); err == nil {
			t.Errorf("%+v: no error", config)
		}
	}
}
