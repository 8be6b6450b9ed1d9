package service_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/check"
	windows "github.com/weblimit/weblimit/internal/test/edge"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/nethttp"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/service"
	"github.com/weblimit/weblimit/service/client"
	"github.com/weblimit/weblimit/service/gateway"
)

// The code of docs/choose/where.md.

func readAndCharge(ctx context.Context, set *policy.Set, store core.Store, remote *client.Client, operation string, rest int64, show func(core.Decision)) error {
	limiter, err := set.Limiter(core.Config{Store: store}, "llm")
	if err != nil {
		return err
	}
	left, err := limiter.Peek(ctx, "ip:192.0.2.1", 1) // charges nothing
	if err != nil {
		return err
	}
	show(left)
	return remote.Charge(ctx, operation, client.Check{
		Policy: "llm", Request: &client.Request{ClientIP: "192.0.2.1"}, Cost: &rest,
	})
}

// edge is a gateway in front of an application with a limiter of its own. Both decide by a policy file of
// docs/choose/where.md on one Redis, with a store of their own each, as in two processes.
type edge struct {
	t       *testing.T
	set     *policy.Set
	store   core.Store // the application's
	gateway http.Handler
	policy  string // that the gateway asks
	app     http.Handler
	served  int
	ids     int
}

// newEdge takes the block of docs/choose/where.md that has a policy, for the gateway to ask. The application asks
// inside, unless it is "".
func newEdge(t *testing.T, name, inside string) *edge {
	t.Helper()
	windows.AwayFrom(time.Hour, 20*time.Second)
	var text string
	for _, block := range blocksOf(t, "choose/where.md", "yaml") {
		if strings.Contains(block, "\n  "+name+":") {
			// What a second brings depends on the machine.
			block = strings.Replace(block, "100/s burst 200", "100/day burst 200", 1)
			text = "defaults: {timeout: 1m}\n" + block
		}
	}
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	store := func() core.Store { return redisstore.New(server.Client(t), redisstore.Config{Prefix: prefix}) }
	e := &edge{t: t, set: load(t, text), store: store(), policy: name}
	var err error
	if e.gateway, err = gateway.New(gateway.Config{Policies: load(t, text), Limiter: core.Config{Store: store()}}); err != nil {
		t.Fatal(err)
	}
	e.app = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { e.served++ })
	if inside != "" {
		trusting := load(t, strings.Replace(text, "defaults: {", "defaults: {client_ip: {trusted_proxies: [127.0.0.1/32]}, ", 1))
		e.app = nethttp.With(core.Config{Store: e.store}).Policy(trusting, inside)(e.app)
	}
	return e
}

// request goes from a client through the gateway, which overwrites what nginx would, and returns the
// status that the client gets.
func (e *edge) request(ip string, fields ...string) int {
	e.t.Helper()
	e.ids++
	r := httptest.NewRequest(http.MethodGet, "/things", http.NoBody)
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("X-Forwarded-For", ip)
	r.Header.Set("X-Request-Id", fmt.Sprint("made by the gateway: ", e.ids))

	sub := httptest.NewRequest(http.MethodGet, "/v1/auth/"+e.policy, http.NoBody)
	sub.Host = "weblimit" // as the documented configurations send it
	sub.RemoteAddr = "127.0.0.1:1"
	sub.Header = r.Header.Clone()
	sub.Header.Set("X-Forwarded-Method", r.Method)
	sub.Header.Set("X-Forwarded-Uri", r.RequestURI)
	sub.Header.Set("X-Forwarded-Host", r.Host)
	asked := httptest.NewRecorder()
	e.gateway.ServeHTTP(asked, sub)
	if asked.Code != http.StatusOK {
		return asked.Code
	}
	return e.inside(r)
}

// inside is a request that reaches the application.
func (e *edge) inside(r *http.Request) int {
	answered := httptest.NewRecorder()
	e.app.ServeHTTP(answered, r)
	return answered.Code
}

// passes sends requests of a client, and returns how many are served.
func (e *edge) passes(n int, ip string, fields ...string) int {
	e.t.Helper()
	before := e.served
	for range n {
		if code := e.request(ip, fields...); code != http.StatusOK && code != http.StatusTooManyRequests {
			e.t.Fatalf("status %d", code)
		}
	}
	return e.served - before
}

func (e *edge) left(policy, key string) int64 {
	e.t.Helper()
	l := must.Get(e.set.Limiter(core.Config{Store: e.store}, policy))(e.t)
	d := must.Get(l.Peek(e.t.Context(), key, 1))(e.t)
	return d.Results()[0].Remaining
}

func TestOneLimitAskedAtTwoPlacesIsChargedTwice(t *testing.T) {
	t.Parallel()
	e := newEdge(t, "llm", "llm")
	check.Equal(t, "of 100 passed under a limit of 100 that both ask", e.passes(100, "192.0.2.1"), 50)
}

func TestDifferentLimitsAtEachPlace(t *testing.T) {
	t.Parallel()
	e := newEdge(t, "edge", "api")
	check.Equal(t, "of 250 have passed the net at the edge", e.passes(250, "192.0.2.1"), 200)
	// Without a tenant, the requests have shared one bucket inside.
	check.Equal(t, "of 100 of another address passed", e.passes(100, "192.0.2.2"), 100)
}

func TestARequestIsChargedOnceAtTwoPlaces(t *testing.T) {
	t.Parallel()
	e := newEdge(t, "shared", "shared")
	check.Equal(t, "of 20 passed under a limit of 5 that both ask", e.passes(20, "192.0.2.1"), 5)
	check.Equal(t, "left", e.left("shared", "ip:192.0.2.1"), 0)
	// What the client sends is overwritten.
	check.Equal(t, "of 20 with a forged ID passed", e.passes(20, "192.0.2.2", "X-Request-Id", "one of my own"), 5)
}

// A client that reaches the application without the gateway gets two requests for one, and not more.
func TestAForgedRequestIDWithoutTheGateway(t *testing.T) {
	t.Parallel()
	e := newEdge(t, "shared", "shared")
	for range 40 {
		r := httptest.NewRequest(http.MethodGet, "/things", http.NoBody)
		r.RemoteAddr = "192.0.2.9:1"
		r.Header.Set("X-Request-Id", "one of my own")
		e.inside(r)
	}
	check.Equal(t, "requests served under a limit of 5", e.served, 10)
}

func TestTheEdgeAsksAndTheApplicationCharges(t *testing.T) {
	t.Parallel()
	e := newEdge(t, "llm", "")
	s := must.Get(service.New(service.Config{Policies: e.set, Store: e.store}))(t)
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	remote := must.Get(client.New(client.Config{URL: server.URL, Timeout: patience, OnOutage: client.OnOutage{Action: core.Deny}}))(t)
	t.Cleanup(remote.Close)
	passed := 0
	for i := range 10 {
		if e.request("192.0.2.1") != http.StatusOK {
			continue
		}
		passed++
		before := e.left("llm", "ip:192.0.2.1")
		var left core.Decision
		must.OK(t, readAndCharge(t.Context(), e.set, e.store, remote, fmt.Sprint("work ", i), 29, func(d core.Decision) { left = d }))
		if got := left.Results()[0].Remaining; got != before {
			t.Errorf("read %d of %d left", got, before)
		}
		if err := s.Drain(t.Context()); err != nil { // charges are made in the background
			t.Fatal(err)
		}
	}
	if passed != 4 { // 30 each, of 100
		t.Errorf("%d passed, want 4", passed)
	}
}
