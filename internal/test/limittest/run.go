package limittest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/edge"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// Main runs the tests of a package that calls [Run], then stops the Redis that they used.
// It returns the exit code for os.Exit.
func Main(m *testing.M) int { return redistest.Main(m) }

// suite is all scenarios, by the stores that they need. What a store decides is the subject of the
// store suite, and how the limiter asks each that of package core. An adapter hands over a request
// and a context, and tells of the decision.
var suite = []struct {
	memory, redis bool
	scenarios     []scenario
}{
	// What a response says of a decision, and which key, route and context a request has: the same
	// whatever store has decided. Memory keeps keys, so a key in a buffer that is used again shows.
	{memory: true, scenarios: slices.Concat(
		headers, edits, noContexts, denials, languages, identities, outages, spoofing, bypasses, preflights, features, paths, routes,
		dialects, turns, lines, loads, quotas, trailers, ambiguities, missingKeys, blanks, observed, settings, parameters, policies,
	)},
	// What a client that leaves has cost is written after its context has ended. A store that
	// reads contexts and waits for a network could lose that; memory does neither.
	{redis: true, scenarios: slices.Concat(hangUps, charges)},
	// Many requests at once, contexts that have ended and buffers that are used again meet a store
	// that has decided when Take returns, and one that sends keys to another process.
	{memory: true, redis: true, scenarios: slices.Concat(contexts, servers, reuses)},
}

// Run runs all scenarios on servers that build makes. adapter is the adapter's name for
// observers. A framework that cannot do everything passes its [Differences].
func Run(t *testing.T, adapter string, build Build, differences ...Differences) {
	differs := theOne(differences)
	for _, over := range stores {
		t.Run(over.name, func(t *testing.T) {
			newStore := over.make(t)
			for _, part := range suite {
				if over.remote && !part.redis || !over.remote && !part.memory {
					continue
				}
				for _, s := range part.scenarios {
					t.Run(s.name, func(t *testing.T) {
						t.Parallel()
						awayFromMidnight()
						s.run(&env{T: t, adapter: adapter, build: build, newStore: newStore, differs: differs})
					})
				}
			}
		})
	}
}

// inMemory returns the argument of a scenario that needs no other store, in parallel with others.
func inMemory(t *testing.T, adapter string, build Build) *env {
	t.Parallel()
	awayFromMidnight()
	return &env{T: t, adapter: adapter, build: build, newStore: func(testing.TB) core.Store { return core.NewMemory() }}
}

// theOne returns the differences that an adapter has passed, if any.
func theOne(differences []Differences) Differences {
	if len(differences) == 1 {
		return differences[0]
	}
	return Differences{}
}

// OverStores runs a test over a memory store and over a Redis store, in parallel. The Redis store
// does not keep to the limiter's Timeout.
func OverStores(t *testing.T, test func(t *testing.T, store core.Store)) {
	for _, over := range stores {
		t.Run(over.name, func(t *testing.T) {
			t.Parallel()
			awayFromMidnight()
			store := over.make(t)(t)
			if _, remote := store.(*redisstore.Store); remote {
				store = patient{store}
			}
			test(t, store)
		})
	}
}

// awayFromMidnight waits until the day is over if that is soon: many scenarios have windows of a day. Each
// takes seconds, or longer on a busy machine.
func awayFromMidnight() { edge.AwayFrom(24*time.Hour, 2*time.Minute) }

// stores are the kinds of stores that scenarios run over. make returns a function that
// makes a new store.
var stores = []struct {
	name   string
	remote bool
	make   func(testing.TB) func(testing.TB) core.Store
}{
	{"memory", false, func(testing.TB) func(testing.TB) core.Store {
		return func(testing.TB) core.Store { return core.NewMemory() }
	}},
	{"Redis", true, func(tb testing.TB) func(testing.TB) core.Store {
		server := redistest.Shared(tb)
		client := redis.NewClient(&redis.Options{
			Network: server.Network(), Addr: server.Addr(), ReadTimeout: patience, WriteTimeout: patience, PoolTimeout: patience,
		})
		tb.Cleanup(func() { _ = client.Close() })
		return func(tb testing.TB) core.Store {
			return redisstore.New(client, redisstore.Config{Prefix: redistest.Prefix(tb)})
		}
	}},
}

// scenario is a test. Its name is a sentence about adapters.
type scenario struct {
	name string
	run  func(*env)
}

// env is the argument of a scenario: its test, and how to build servers and stores.
type env struct {
	*testing.T
	adapter  string
	build    Build
	newStore func(testing.TB) core.Store
	differs  Differences
}

// patience is the store's timeout. It is long because a machine that runs all tests at
// once is slow, and an outage would fail the scenario.
const patience = 2 * time.Minute

// limiter makes a limiter on a new store.
func (e *env) limiter(limits ...core.Limit) *core.Limiter {
	e.Helper()
	return e.limiterOn(e.newStore(e), limits...)
}

func (e *env) limiterOn(store core.Store, limits ...core.Limit) *core.Limiter {
	e.Helper()
	return must.Get(core.New(core.Config{Store: store, Limits: limits, Timeout: patience}))(e)
}

// left waits until all is settled, and returns what is left of a limiter's first limit for everyone.
func (e *env) left(l *core.Limiter) int64 {
	e.Helper()
	must.OK(e, l.Drain(e.Context()))
	d := must.Get(l.Peek(e.Context(), "all", 0))(e)
	return d.Results()[0].Remaining
}

// layer is the usual middleware: one limiter on a new store.
func (e *env) layer(limits ...core.Limit) []Layer {
	e.Helper()
	return []Layer{{Limiter: e.limiter(limits...)}}
}

// serve builds an app. Without routes it gets "GET /", which replies "hello".
func (e *env) serve(app App) *site {
	e.Helper()
	if app.Routes == nil {
		app.Routes = []Route{{Method: "GET", Path: "/", Handle: hello}}
	}
	return &site{e, e.build(e, app)}
}

func hello(c Call) { c.Reply(http.StatusOK, "hello") }

// site is a server under test.
type site struct {
	e      *env
	server Server
}

// response is a response whose body has been read.
type response struct {
	status int
	header http.Header
	body   string
}

// get asks for a path. Options change the request.
func (s *site) get(path string, options ...option) response {
	s.e.Helper()
	return s.do("GET", path, options...)
}

func (s *site) do(method, path string, options ...option) response {
	s.e.Helper()
	r := httptest.NewRequest(method, path, nil)
	for _, o := range options {
		r = o(r)
	}
	res := s.server.Do(r)
	defer res.Body.Close()
	return s.e.read(res)
}

// read reads a response, whose body the caller closes.
func (e *env) read(r *http.Response) response {
	e.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		e.Fatalf("reading the body: %v", err)
	}
	return response{r.StatusCode, r.Header, string(body)}
}

// option changes a request.
type option func(*http.Request) *http.Request

// with sets a request header, or adds a line to it.
func with(name, value string) option {
	return func(r *http.Request) *http.Request {
		r.Header.Add(name, value)
		return r
	}
}

// from sets the peer.
func from(peer string) option {
	return func(r *http.Request) *http.Request {
		r.RemoteAddr = peer
		return r
	}
}

func within(ctx context.Context) option {
	return func(r *http.Request) *http.Request { return r.WithContext(ctx) }
}

// passes fails the test unless the limiter let the request through. The application's
// status does not matter.
func (e *env) passes(what string, r response) {
	e.Helper()
	if r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable {
		e.Errorf("%s: denied with %d, want it to pass", what, r.status)
	}
}

// denied fails the test unless the request was denied for a limit.
func (e *env) denied(what string, r response) {
	e.Helper()
	check.Equal(e, what+": status", r.status, http.StatusTooManyRequests)
}

// equal fails the test unless got is want.
func equal[T comparable](e *env, what string, got, want T) {
	e.Helper()
	if got != want {
		e.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// contains fails the test unless got contains want.
func contains(e *env, what, got, want string) {
	e.Helper()
	if !strings.Contains(got, want) {
		e.Errorf("%s:\n got %s\nwant %s in it", what, got, want)
	}
}

func join(lines []string) string { return strings.Join(lines, ", ") }

// only returns the one line of a response header, "" if there is none.
func (e *env) only(r response, name string) string {
	e.Helper()
	lines := r.header[name]
	if len(lines) > 1 {
		e.Errorf("%s has %d lines, want one: %q", name, len(lines), lines)
	}
	return strings.Join(lines, ", ")
}

// wait returns the seconds in Retry-After. They must be want, or a few less because the
// test may be slow.
func (e *env) wait(r response, want int) int {
	e.Helper()
	value := e.only(r, "Retry-After")
	got, err := strconv.Atoi(value)
	if err != nil || got > want || got < want-60 {
		e.Errorf("Retry-After: %q, want %d or a few less", value, want)
	}
	return got
}

// remaining checks how many units of a limit the response says are left.
func (e *env) remaining(what string, r response, limit string, want int) {
	e.Helper()
	prefix := fmt.Sprintf("%q;r=%d;t=", limit, want)
	for member := range strings.SplitSeq(e.only(r, "Ratelimit"), ", ") {
		if strings.HasPrefix(member, prefix) {
			return
		}
	}
	e.Errorf("%s: RateLimit is %q, want %q to have %d left", what, r.header["Ratelimit"], limit, want)
}
