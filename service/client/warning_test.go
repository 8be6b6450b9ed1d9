package client_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/testclock"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/service"
	"github.com/weblimit/weblimit/service/client"
)

// traceKey is the key of a value in the context of a request.
type traceKey struct{}

// warned collects warnings, with the value of their contexts.
type warned struct {
	mu  sync.Mutex
	all []string // Guarded by mu.
}

func (w *warned) add(ctx context.Context, event core.Warning) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, fmt.Sprintf("%+v %v", event, ctx.Value(traceKey{})))
}

func (w *warned) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := strings.Join(w.all, "\n")
	w.all = nil
	return all
}

// warningPolicies have a level of each kind.
var warningPolicies = policies{
	"levels": {
		core.PerHour(10).By(keyfuncs.User("user")).Named("bucket").WarnAt(0.2, 0.5),
		core.PerDay(40).FixedWindow().By(keyfuncs.APIKey("X-API-Key")).Named("day").WarnAt(0.1, 0.3, 1),
	},
	"month":  {core.PerMonth(30, time.UTC).Soft(20).By(keyfuncs.Tenant("tenant")).Named("month")}, // without levels: those of a calendar
	"quiet":  {core.PerMonth(30, time.UTC).By(keyfuncs.Tenant("tenant")).Named("month").WarnAt()},
	"shadow": {core.PerHour(9).FixedWindow().By(keyfuncs.Everyone()).Named("trial").WarnAt(0.5).Shadow()},
	"kept":   {core.PerHour(20).By(keyfuncs.User("user")).Named("kept").KeepFree(0.5, keyfuncs.Methods("POST")).WarnAt(0.4)},
}

// overService is a limiter of a policy by a service.
func overService(t *testing.T, s *service.Service, policy string, config core.Config) *core.Limiter {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	c := newClient(t, client.Config{URL: server.URL, Send: client.Fields{Values: []string{"user", "tenant"}, Headers: []string{"X-Api-Key"}}})
	config.Store = c.Store()
	return must.Get(c.Limiter(config, policy))(t)
}

func TestWarningsAreThoseOfTheProcess(t *testing.T) {
	t.Parallel()
	for policy := range warningPolicies {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(1, 2))
			now := time.Date(2026, 3, 2, 10, 0, 1, 0, time.UTC).UnixMicro()
			var stores [2]*core.Memory
			for i := range stores {
				stores[i] = core.NewMemory()
				testclock.Set(stores[i], func() int64 { return now })
			}
			var heard [2]warned
			here := must.Get(warningPolicies.Limiter(core.Config{Store: stores[0], OnWarning: heard[0].add}, policy))(t)
			s := must.Get(service.New(service.Config{Policies: warningPolicies, Store: stores[1]}))(t)
			there := overService(t, s, policy, core.Config{OnWarning: heard[1].add})
			all := 0
			for i := range 300 {
				user, ctx := fmt.Sprint("u", random.IntN(3)), context.WithValue(t.Context(), traceKey{}, i)
				values := keyfuncs.Values{"user": user, "tenant": user, "X-API-Key": "0123456789abcdef" + user}.WithContext(ctx)
				n, byKey, batch := random.Int64N(6), random.IntN(4) == 0, random.IntN(3) == 0
				var said [2]string
				for k, l := range []*core.Limiter{here, there} {
					var d core.Decision
					switch {
					case byKey && batch:
						_, d = l.AllowKeyAtMost(ctx, "user:"+user, n)
					case byKey:
						d = l.AllowKey(ctx, "user:"+user, n)
					case batch:
						_, d = l.AllowAtMost(values, n)
					default:
						d = l.Allow(values)
					}
					h := headers{}
					d.SetHeaders(h)
					said[k] = fmt.Sprint(d.WarnLevel(), h["X-Ratelimit-Warning"], "\n", heard[k].take())
				}
				if said[0] != said[1] {
					t.Fatalf("number %d, by key %t:\n got %s\nwant %s", i, byKey, said[1], said[0])
				}
				all += strings.Count(said[0], "Level:")
				now += random.Int64N((20 * time.Minute).Microseconds())
			}
			if (all == 0) != (policy == "quiet") {
				t.Errorf("%d warnings", all)
			}
		})
	}
}

// Of several callers, one hears of a level: the one that has reached it.
func TestAWarningGoesToOneCaller(t *testing.T) {
	t.Parallel()
	var operator warned
	s := must.Get(service.New(service.Config{Policies: warningPolicies, Store: core.NewMemory(), OnWarning: operator.add}))(t)
	var heard warned
	var group sync.WaitGroup
	for range 4 {
		l := overService(t, s, "month", core.Config{OnWarning: heard.add})
		group.Go(func() {
			for range 20 {
				l.AllowKey(t.Context(), "tenant:acme", 1)
			}
		})
	}
	group.Wait()
	check.Equal(t, "warnings of callers", strings.Count(heard.take(), "Key:tenant:acme"), 3)
	check.Equal(t, "warnings of the service's operator", strings.Count(operator.take(), "Key:tenant:acme"), 3)
	overService(t, s, "month", core.Config{}).AllowKey(t.Context(), "tenant:other", 30)
	check.Equal(t, "of a caller that does not ask", heard.take(), "")
}

// A caller is not told what it has not said: what the application makes of a request, and what is hidden by a secret.
func TestAWarningTellsNoKeyThatTheCallerDoesNotKnow(t *testing.T) {
	t.Parallel()
	secret := []byte("0123456789abcdef0123456789abcdef")
	plan := keyfuncs.Custom("account", func(keyfuncs.Request) string { return "account-of-ann" })
	for name, tt := range map[string]struct {
		by   keyfuncs.Func
		want string
	}{
		"a value of the request": {keyfuncs.User("user"), "user:ann"},
		"several":                {keyfuncs.Join(keyfuncs.User("user"), keyfuncs.Method()), "user:ann|method:"},
		"under a secret":         {keyfuncs.User("user").WithSecret(secret), ""},
		"made by a function":     {plan, ""},
		"one part is":            {keyfuncs.Join(keyfuncs.User("user"), plan), ""},
		"the first is":           {keyfuncs.First(plan, keyfuncs.User("user")), ""},
	} {
		var heard warned
		only := policies{"only": {core.PerHour(2).FixedWindow().By(tt.by).Named("only").WarnAt(0.5)}}
		s := must.Get(service.New(service.Config{Policies: only, Store: core.NewMemory()}))(t)
		l := overService(t, s, "only", core.Config{OnWarning: heard.add})
		l.Allow(keyfuncs.Values{"user": "ann"})
		if got := heard.take(); !strings.HasPrefix(got, "{Limit:only Level:0.5 Used:1 Burst:2 Key:"+tt.want) || tt.want == "" && !strings.Contains(got, "Key: ") {
			t.Errorf("%s: %s", name, got)
		}
		l.AllowKey(t.Context(), "account:bob", 1) // which the caller knows
		if got := heard.take(); !strings.Contains(got, "Key:account:bob ") {
			t.Errorf("%s, by key: %s", name, got)
		}
	}
}

// A service that does not know of warnings refuses every check of a caller that asks for them: that is an outage, with a
// reason that names the field.
func TestWarningsOfAnOlderService(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.instead.Store(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprint(w, `{"type":"about:blank","title":"Bad Request","status":400,"detail":"Unknown field, want one of policy.","pointer":"/warnings"}`)
		return true
	})
	c := newClient(t, client.Config{URL: s.URL, OnOutage: client.OnOutage{Action: core.Deny}})
	l := must.Get(c.Limiter(core.Config{Store: c.Store(), OnWarning: new(warned).add}, "user"))(t)
	d := l.AllowKey(t.Context(), "user:ann", 1)
	check.Equal(t, "the reason", d.Reason, core.ReasonOutageDenied)
	check.Fails(t, "why", d.Err, "/warnings")
}

// In an outage the limits of this process warn.
func TestWarningsWhileTheServiceIsAway(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.broken.Store(true)
	c := newClient(t, client.Config{URL: s.URL, OnOutage: client.OnOutage{Limits: []core.Limit{core.PerHour(2).By(keyfuncs.User("user")).Named("stand-in").WarnAt(0.5)}}})
	var heard warned
	l := must.Get(c.Limiter(core.Config{Store: c.Store(), OnWarning: heard.add}, "user"))(t)
	l.AllowKey(t.Context(), "user:ann", 1)
	if got := heard.take(); !strings.Contains(got, "Limit:stand-in Level:0.5 Used:1 Burst:2 Key:user:ann") {
		t.Errorf("heard %q", got)
	}
}
