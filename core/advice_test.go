package core_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// advice is what a limiter's logger has been told.
type advice struct {
	logger *slog.Logger

	mu  sync.Mutex
	out bytes.Buffer // Guarded by mu.
}

// newAdvice returns a logger's memory, and makes the process forget which advice
// was given. So a test that calls it is not parallel: those that are wait for it.
func newAdvice() *advice {
	core.ResetAdvice()
	a := new(advice)
	a.logger = slog.New(slog.NewJSONHandler(a, nil))
	return a
}

func (a *advice) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.out.Write(p)
}

// want checks that exactly one advice was logged, or none if kind is "".
func (a *advice) want(t testing.TB, kind core.Advice, message string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	lines := strings.Split(strings.TrimSuffix(a.out.String(), "\n"), "\n")
	if kind == "" {
		if a.out.Len() > 0 {
			t.Errorf("%d lines were logged, want none:\n%s", len(lines), a.out.String())
		}
		return
	}
	if len(lines) != 1 {
		t.Errorf("%d lines were logged, want one:\n%s", len(lines), a.out.String())
		return
	}
	var line struct{ Level, Msg, Code, See string }
	if err := json.Unmarshal([]byte(lines[0]), &line); err != nil {
		t.Fatalf("%v in the log %q", err, lines[0])
	}
	link := "https://github.com/weblimit/weblimit/blob/main/docs/run/advice.md#" + strings.ToLower(string(kind))
	if line.Level != "WARN" || line.Msg != message || line.Code != string(kind) || line.See != link {
		t.Errorf("logged %+v, want WARN with code %s, %s and\n\t%s", line, kind, link, message)
	}
}

const (
	forwardedProblem = "weblimit: requests have X-Forwarded-For, but limits by ClientIP use the peer's address; behind a proxy that is one bucket for all clients; name the proxy in ClientIP"
	twiceProblem     = "weblimit: one limiter decides a request twice, and charges it twice; is its middleware installed in two places?"
	noClientProblem  = "weblimit: a proxy named in ClientIP sends a request without X-Forwarded-For: such requests share a bucket, and a client that sends the header itself is believed; have the proxy set it on every request, and exempt its own health checks"
	unlistedProblem  = "weblimit: requests with X-Forwarded-For come through 127.0.0.1, which ClientIP does not list as a proxy: if it is one, all clients behind it share one bucket; list it"
	socketProblem    = "weblimit: requests with X-Forwarded-For come over a unix socket, which has no address to list: ClientIP finds no client, and all requests share one bucket; use keyfuncs.HopCount"
	keylessProblem   = "weblimit: limit default: none of its first 10 requests has its key (authenticated user), so they share one bucket" + keylessCauses
	keylessCauses    = "; check that the limiter stands behind what provides the key (authentication; for a path parameter, on the route), and that name and type are right"
	exemptProblem    = "weblimit: Config.Bypass: FromCIDR exempts requests that a proxy has passed on with X-Forwarded-For: it compares the address of the peer, which is the proxy, so all clients behind it are exempt; use FromCIDR of the strategy that ClientIP has"
	neverFitsProblem = "weblimit: limit default: CostBy or EstimateBy returned 10, and the limit never has room for more than 9: such requests are always denied, without Retry-After; bound the cost, or raise the limit"
	handlerProblem   = "weblimit: a limiter is built while a request is served; build it once, at start-up"
)

// forwarded is a request that came through a proxy.
func forwarded(name string) *request {
	return &request{peer: "10.0.0.1", headers: map[string]string{name: "198.51.100.7"}}
}

// risky is a request of a framework whose client address can be forged.
type risky struct {
	request
	problem string
}

func (r *risky) FrameworkRisk() string { return r.problem }

// unguarded is a request of an adapter that some requests pass by.
type unguarded struct{ request }

func (*unguarded) Unguarded() string { return frameworkProblem }

// frameworkProblem is what an adapter might say.
const frameworkProblem = "the framework trusts every proxy"

// inspected is a store that finds a problem when it looks at its server.
type inspected struct {
	*flaky
	kind    core.Advice
	problem string
	err     error
	looks   atomic.Int64
}

func (s *inspected) ready() *inspected {
	s.Registry().SetServer(store.Server{Eviction: s.inspect})
	return s
}

func (s *inspected) inspect(ctx context.Context) (problem string, err error) {
	s.looks.Add(1)
	if _, bounded := ctx.Deadline(); !bounded {
		panic("a look without a deadline")
	}
	return s.problem, s.err
}

// thrice lets a request ask a limit three times.
func thrice(limit core.Limit, r keyfuncs.Request) func(*testing.T, core.Config) {
	return func(t *testing.T, config core.Config) {
		config.Store, config.Limits = core.NewMemory(), []core.Limit{limit}
		l := newLimiter(t, config)
		for range 3 {
			l.Allow(r)
		}
	}
}

// situations is what each kind of advice is about; none is a test's clean request.
// Each is given a limiter's configuration without limits and store, and does the
// thing three times.
var situations = []struct {
	name    string
	kind    core.Advice
	problem string
	run     func(t *testing.T, config core.Config)
}{
	{"forwarded headers are seen while only the peer is used", core.AdviceForwarded, forwardedProblem, thrice(core.PerHour(9).By(keyfuncs.ClientIP()), forwarded("X-Forwarded-For"))},
	{"a trusted proxy names no client", core.AdviceNoClient, noClientProblem, thrice(core.PerHour(9).By(keyfuncs.ClientIP(keyfuncs.TrustedProxies("10.0.0.0/8"))), &request{peer: "10.0.0.1"})},
	{"forwarded headers come from a private peer that is not listed", core.AdviceUnlisted, unlistedProblem, thrice(core.PerHour(9).By(keyfuncs.ClientIP(keyfuncs.TrustedProxies("10.0.0.0/8"))), &request{peer: "127.0.0.1", headers: map[string]string{"X-Forwarded-For": "198.51.100.7"}})},
	{"no request has a limit's key", core.AdviceKeyless, keylessProblem, func(t *testing.T, config core.Config) {
		config.Store, config.Limits = core.NewMemory(), []core.Limit{core.PerHour(9).By(keyfuncs.User("userID"))}
		l := newLimiter(t, config)
		for range core.AdviceLooks {
			l.Allow(&request{values: map[any]any{"userId": "42"}})
		}
	}},
	{"a bypass exempts what proxies pass on", core.AdviceExempt, exemptProblem, func(t *testing.T, config core.Config) {
		config.Bypass = []keyfuncs.Condition{keyfuncs.Methods("OPTIONS"), keyfuncs.FromCIDR("10.0.0.0/8")}
		thrice(core.PerHour(9).By(keyfuncs.ClientIP(keyfuncs.TrustedProxies("10.0.0.0/8"))), forwarded("X-Forwarded-For"))(t, config)
	}},
	{"a cost can never fit", core.AdviceNeverFits, neverFitsProblem, func(t *testing.T, config core.Config) {
		config.Store, config.Limits = core.NewMemory(), []core.Limit{everyone(9).CostBy(func(keyfuncs.Request) int64 { return 10 })}
		l := newLimiter(t, config)
		for range 3 {
			wantDecision(t, "a cost above the burst", l.Allow(&request{}), false, core.ReasonNeverFits, 9)
		}
	}},
	{"the framework's client address can be forged", core.AdviceFramework, "weblimit: " + frameworkProblem, thrice(core.PerHour(9).By(keyfuncs.ClientIP(keyfuncs.Framework())), &risky{problem: frameworkProblem})},
	{"some requests do not pass the limiter", core.AdviceUnguarded, "weblimit: " + frameworkProblem, thrice(everyone(9), &unguarded{})},
	{"a limiter is built while a request is served", core.AdviceInHandler, handlerProblem, func(t *testing.T, config core.Config) {
		serve(t, func(w http.ResponseWriter, _ *http.Request) {
			config.Store, config.Limits = core.NewMemory(), []core.Limit{everyone(1)}
			if _, err := core.New(config); err != nil {
				t.Error(err)
			}
			w.WriteHeader(http.StatusNoContent)
		})
	}},
	{"a limiter counts a request twice", core.AdviceTwice, twiceProblem, func(t *testing.T, config core.Config) {
		config.Store, config.Limits = core.NewMemory(), []core.Limit{everyone(9)}
		l := newLimiter(t, config)
		for range 3 {
			ctx := core.NewContext(context.Background(), l.Allow(&request{}))
			l.Allow(&request{ctx: ctx})
		}
	}},
	{"a store finds a problem with its server", core.AdviceEviction, "weblimit: keys are evicted", func(t *testing.T, config core.Config) {
		synctest.Test(t, func(t *testing.T) { // which waits for the look in the background
			store := (&inspected{flaky: newFlaky(false), kind: core.AdviceEviction, problem: "keys are evicted"}).ready()
			config.Store, config.Limits = store, []core.Limit{everyone(9)}
			l := newLimiter(t, config)
			for range 3 {
				l.Allow(&request{})
			}
			synctest.Wait()
			check.Equal(t, "looks of the store", store.looks.Load(), 1)
		})
	}},
	{"a tier can never work", core.AdviceTier, `weblimit: limit "default": quota must be at least 1, got 0`, thrice(everyone(9).Tiers(func(keyfuncs.Request) core.Limit { return core.PerHour(0) }), &request{})},
	{"a Scale function panics", core.AdviceScale, `weblimit: limit "default": its Scale function panicked: no load`, func(t *testing.T, config core.Config) {
		config.Store, config.Limits = core.NewMemory(), []core.Limit{everyone(9).Scale(func(context.Context) float64 { panic("no load") })}
		d := newLimiter(t, config).Allow(&request{})
		wantDecision(t, "after a panic", d, true, core.ReasonWithinLimit, 8)
	}},
}

// serve runs a handler behind a server of its own, three times.
func serve(t *testing.T, handler http.HandlerFunc) {
	t.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	for range 3 {
		response := must.Get(server.Client().Get(server.URL))(t)
		response.Body.Close()
	}
}

func TestAdviceIsLoggedOncePerKind(t *testing.T) {
	for _, tt := range situations {
		t.Run(tt.name, func(t *testing.T) {
			advice := newAdvice()
			tt.run(t, core.Config{Logger: advice.logger})
			advice.want(t, tt.kind, tt.problem)

			// The next limiter that notices the same says nothing, to its own logger neither.
			next := &strings.Builder{}
			tt.run(t, core.Config{Logger: slog.New(slog.NewTextHandler(next, nil))})
			advice.want(t, tt.kind, tt.problem)
			if next.Len() > 0 {
				t.Errorf("the next limiter logs %s", next)
			}
		})
	}
}

func TestAdviceCanBeSilenced(t *testing.T) {
	for _, tt := range situations {
		t.Run(tt.name, func(t *testing.T) {
			advice := newAdvice()
			tt.run(t, core.Config{Logger: advice.logger, Silence: []core.Advice{core.AdviceRivals, tt.kind}})
			advice.want(t, "", "")

			// Silence is a limiter's own, and of that kind: another still logs it.
			tt.run(t, core.Config{Logger: advice.logger, Silence: []core.Advice{core.AdviceRivals}})
			advice.want(t, tt.kind, tt.problem)
		})
	}
}

// Not parallel: the default logger belongs to the process.
func TestAdviceGoesToTheDefaultLogger(t *testing.T) {
	advice := newAdvice()
	before := slog.Default()
	l := limiterOn(t, core.NewMemory(), core.PerHour(9).By(keyfuncs.ClientIP()))
	slog.SetDefault(advice.logger) // of the time of the advice, not of New
	defer slog.SetDefault(before)
	l.Allow(forwarded("X-Forwarded-For"))
	advice.want(t, core.AdviceForwarded, forwardedProblem)
}

// Nothing is logged where nothing is wrong.
func TestNoAdvice(t *testing.T) {
	trusted := keyfuncs.TrustedProxies("10.0.0.0/8")
	twice := func(first, second *core.Limiter, r *request) {
		first.Allow(&request{ctx: core.NewContext(context.Background(), second.Allow(r))})
	}
	for _, tt := range []struct {
		name  string
		limit core.Limit
		run   func(l *core.Limiter)
	}{
		{"a request without anything", core.PerHour(9).By(keyfuncs.ClientIP()), func(l *core.Limiter) { l.Allow(&request{peer: "192.0.2.1"}) }},
		{"forwarded headers where proxies are named", core.PerHour(9).By(keyfuncs.ClientIP(trusted)), func(l *core.Limiter) { l.Allow(forwarded("X-Forwarded-For")) }},
		{"forwarded headers where they are counted", core.PerHour(9).By(keyfuncs.ClientIP(keyfuncs.HopCount(1))), func(l *core.Limiter) { l.Allow(forwarded("X-Forwarded-For")) }},
		{"forwarded headers where the limit is by user", core.PerHour(9).By(keyfuncs.User("userID")), func(l *core.Limiter) { l.Allow(forwarded("X-Forwarded-For")) }},
		{"forwarded headers where a key's name has an ip in it", core.PerHour(9).By(keyfuncs.Header("X-Membership")), func(l *core.Limiter) { l.Allow(forwarded("X-Forwarded-For")) }},
		{"other headers", core.PerHour(9).By(keyfuncs.ClientIP()), func(l *core.Limiter) { l.Allow(forwarded("X-Forwarded-Proto")) }},
		{"a key instead of a request", core.PerHour(9).By(keyfuncs.ClientIP()), func(l *core.Limiter) { l.AllowKey(context.Background(), "k", 1) }},
		{"no header from a peer that is no proxy", core.PerHour(9).By(keyfuncs.ClientIP(trusted)), func(l *core.Limiter) { l.Allow(&request{peer: "192.0.2.1"}) }},
		{"no header where the limit does not apply", core.PerHour(9).By(keyfuncs.ClientIP(trusted)).Unless(keyfuncs.Methods("GET")), func(l *core.Limiter) {
			l.Allow(&request{peer: "10.0.0.1", method: "GET"})
		}},
		{"no header of a request that is exempt", core.PerHour(9).By(keyfuncs.ClientIP(trusted)), func(l *core.Limiter) {
			l.Allow(&request{peer: "10.0.0.1", method: "OPTIONS"})
		}},
		{"a framework without a risk", core.PerHour(9).By(keyfuncs.ClientIP(keyfuncs.Framework())), func(l *core.Limiter) { l.Allow(&risky{}) }},
		{"a framework's risk that no limit takes", core.PerHour(9).By(keyfuncs.ClientIP(trusted)), func(l *core.Limiter) { l.Allow(&risky{problem: frameworkProblem}) }},
		{"two limiters of one request", everyone(9), func(l *core.Limiter) {
			twice(l, core.ForLimits(core.NewMemory(), []core.Limit{everyone(9)}), &request{})
		}},
		{"one limiter and two requests", everyone(9), func(l *core.Limiter) { l.Allow(&request{}); l.Allow(&request{}) }},
		{"a tier that works", everyone(9).Tiers(func(keyfuncs.Request) core.Limit { return core.PerHour(5) }), func(l *core.Limiter) { l.Allow(&request{}) }},
		{"no tier", everyone(9).Tiers(func(keyfuncs.Request) core.Limit { return core.Limit{} }), func(l *core.Limiter) { l.Allow(&request{}) }},
		{"forwarded headers after the first requests", core.PerHour(1 << 20).By(keyfuncs.ClientIP()), func(l *core.Limiter) {
			for range core.AdviceLooks {
				l.Allow(&request{peer: "192.0.2.1"})
			}
			l.Allow(forwarded("X-Forwarded-For"))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			advice := newAdvice()
			tt.run(newLimiter(t, core.Config{
				Store: core.NewMemory(), Limits: []core.Limit{tt.limit}, Logger: advice.logger,
				Bypass: []keyfuncs.Condition{keyfuncs.Methods("OPTIONS")},
			}))
			advice.want(t, "", "")
		})
	}
}

// Each header by which proxies tell of clients counts, the keys that are made of
// the peer's address among others do, and so does the last of the first requests.
func TestAdviceOnForwardedHeaders(t *testing.T) {
	byIP := keyfuncs.ClientIP()
	for _, name := range []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "Cf-Connecting-Ip", "True-Client-Ip"} {
		for how, key := range map[string]keyfuncs.Func{"alone": byIP, "joined": keyfuncs.Join(keyfuncs.Route(), byIP), "at last": keyfuncs.First(keyfuncs.User("userID"), byIP)} {
			t.Run(name+" "+how, func(t *testing.T) {
				advice := newAdvice()
				l := newLimiter(t, core.Config{Store: core.NewMemory(), Logger: advice.logger, Limits: []core.Limit{
					core.PerHour(9).By(key), everyone(1 << 20).Named("b"),
				}})
				l.Allow(forwarded(name))
				advice.want(t, core.AdviceForwarded, strings.Replace(forwardedProblem, "X-Forwarded-For", name, 1))
			})
		}
	}
	t.Run("with the last request that is looked at", func(t *testing.T) {
		advice := newAdvice()
		l := newLimiter(t, core.Config{Store: core.NewMemory(), Logger: advice.logger, Limits: []core.Limit{core.PerHour(1 << 20).By(byIP)}})
		for range core.AdviceLooks - 1 {
			l.Allow(&request{peer: "192.0.2.1"})
		}
		l.Allow(forwarded("X-Forwarded-For"))
		advice.want(t, core.AdviceForwarded, forwardedProblem)
	})
	t.Run("of a bypassed request", func(t *testing.T) {
		advice := newAdvice()
		l := newLimiter(t, core.Config{
			Store: core.NewMemory(), Logger: advice.logger, Limits: []core.Limit{core.PerHour(9).By(byIP)},
			Bypass: []keyfuncs.Condition{keyfuncs.FromCIDR("10.0.0.0/8")},
		})
		l.Allow(forwarded("X-Forwarded-For"))
		advice.want(t, core.AdviceForwarded, forwardedProblem)
	})
}

// A look at the server that fails, or finds nothing, says nothing; one that waits
// for the store to answer at all has not begun.
func TestNoAdviceOfAStore(t *testing.T) {
	for _, tt := range []struct {
		name  string
		store *inspected
		looks int64
	}{
		{"nothing is found", (&inspected{flaky: newFlaky(false)}).ready(), 1},
		{"the look fails", (&inspected{flaky: newFlaky(false), kind: core.AdviceEviction, problem: "half a look", err: errDown}).ready(), 1},
		{"the store is out", (&inspected{flaky: newFlaky(true), kind: core.AdviceEviction, problem: "keys are evicted"}).ready(), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			advice := newAdvice()
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, core.Config{Store: tt.store, Limits: []core.Limit{everyone(9)}, Logger: advice.logger})
				for range 3 {
					l.Allow(&request{})
				}
				synctest.Wait()
			})
			advice.want(t, "", "")
			check.Equal(t, "looks of the store", tt.store.looks.Load(), tt.looks)
		})
	}
}

// A limiter that is built at start-up, or by a test without a server, is fine.
func TestNoAdviceOnALimiterBuiltOutsideAHandler(t *testing.T) {
	advice := newAdvice()
	build := func(http.ResponseWriter, *http.Request) {
		newLimiter(t, core.Config{Store: core.NewMemory(), Limits: []core.Limit{everyone(1)}, Logger: advice.logger})
	}
	http.HandlerFunc(build).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	advice.want(t, "", "")
}

func TestCodesThatNoAdviceHas(t *testing.T) {
	t.Parallel()
	for _, kind := range []core.Advice{"", "WL", "WL000", "WL018", "WL999", "WL1", "WL+01", "wl001", "WL0001", "001", "WL001 "} {
		_, err := core.New(core.Config{Store: core.NewMemory(), Limits: []core.Limit{everyone(1)}, Silence: []core.Advice{kind}})
		if err == nil || !strings.Contains(err.Error(), "Config.Silence") {
			t.Errorf("%q: error %v", kind, err)
		}
	}
}
