package secrets

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/examples/api/app"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	weblimitslog "github.com/weblimit/weblimit/metrics/slog"
)

// process is all that the process logs by itself: events of stores, advice, the application, Gin
// and go-redis.
var process = new(child.Output)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	gin.DefaultWriter, gin.DefaultErrorWriter = process, process
	slog.SetDefault(slog.New(slog.NewTextHandler(process, &slog.HandlerOptions{Level: slog.LevelDebug})))
	redis.SetLogger(redisLogger{})
	os.Exit(redistest.Main(m))
}

type redisLogger struct{}

func (redisLogger) Printf(_ context.Context, format string, v ...any) {
	fmt.Fprintf(process, format+"\n", v...)
}

// places are where the limits are kept, and what goes wrong there. disturb is called between
// two passes over all requests. logged is what the process must have logged.
var places = []struct {
	name   string
	open   func(t *testing.T) (store core.Store, disturb func())
	reason core.Reason // that some decisions must have
	logged string
}{
	{"memory", func(*testing.T) (core.Store, func()) { return core.NewMemory(), func() {} }, core.ReasonLimitExceeded, "client nears a limit"},
	{"Redis", func(t *testing.T) (core.Store, func()) {
		return redisstore.New(redistest.Start(t).Client(t)), func() {}
	}, core.ReasonLimitExceeded, "client nears a limit"},
	{"a Redis that is killed", func(t *testing.T) (core.Store, func()) {
		server := redistest.Start(t)
		return redisstore.New(server.Client(t)), server.Kill
	}, core.ReasonOutageLocal, "outage began"},
	{"a Redis whose keys hold something else", func(t *testing.T) (core.Store, func()) {
		server := redistest.Start(t)
		client := server.Client(t)
		return redisstore.New(client), func() {
			for _, key := range must.Get(client.Keys(t.Context(), "*").Result())(t) {
				redistest.Prepare(t, client, func(p redis.Pipeliner) {
					p.Del(t.Context(), key)
					p.LPush(t.Context(), key, marker)
				})
			}
		}
	}, core.ReasonOutageLocal, "WRONGTYPE"},
	{"a Redis that refuses its keys", func(t *testing.T) (core.Store, func()) {
		server := redistest.Start(t)
		server.User(t, "weblimit", "+@all", "~another:*")
		return redisstore.New(server.ClientAs(t, "weblimit")), func() {}
	}, core.ReasonOutageLocal, "NOPERM"},
	{"a Redis that refuses the password", func(t *testing.T) (core.Store, func()) {
		server := redistest.Start(t, "--requirepass", "another")
		client := redis.NewClient(&redis.Options{Network: server.Network(), Addr: server.Addr(), Password: marker})
		t.Cleanup(func() { _ = client.Close() })
		return redisstore.New(client), func() {}
	}, core.ReasonOutageLocal, "NOAUTH"},
}

// Neither metrics nor spans nor log lines hold a key, a token, an address or anything else that a
// client sends. Not parallel: the log is the process's.
func TestNoSecretIsEmitted(t *testing.T) {
	for _, place := range places {
		t.Run(place.name, func(t *testing.T) {
			store, disturb := place.open(t)
			seen := &witness{keys: map[string]bool{}, reasons: map[core.Reason]int{}}
			observers := []core.Observer{seen}
			opened := make([]*sink, len(sinks))
			for i := range sinks {
				opened[i] = sinks[i].open(t, store)
				observers = append(observers, opened[i].observer)
			}
			api := newAPI(t, store, opened, observers)
			statuses := map[int]int{}
			for pass := range 9 {
				if pass == 3 {
					disturb()
				}
				for _, r := range plant() {
					w := httptest.NewRecorder()
					api.ServeHTTP(w, r)
					statuses[w.Code]++
				}
			}
			for _, status := range []int{200, 401, 404, 429} {
				if statuses[status] == 0 {
					t.Errorf("no request was answered with %d: %v", status, statuses)
				}
			}
			for _, reason := range []core.Reason{place.reason, core.ReasonBypassed, core.ReasonMissingKey} {
				if seen.reasons[reason] == 0 {
					t.Errorf("no decision had the reason %q: %v", reason, seen.reasons)
				}
			}
			all := needlesOf(append(seen.secrets(t), secrets...))
			for i, s := range opened {
				checkSafe(t, sinks[i].name, s.emitted(), sinks[i].has, all)
			}
			checkSafe(t, "the process's log", process.String(), place.logged, all)
		})
	}
}

// newAPI returns the application, with what the sinks have around it.
func newAPI(t *testing.T, store core.Store, opened []*sink, observers []core.Observer) http.Handler {
	t.Helper()
	router := must.Get(app.New(app.Config{
		Store: store, BypassToken: bypassToken, Observe: core.Observers(observers...),
		Plans: map[string]string{user: "free"}, Keys: map[string]bool{goodKey: true},
	}))(t)
	var api http.Handler = router
	for _, s := range opened {
		if s.wrap != nil {
			api = s.wrap(api)
		}
	}
	return api
}

// check looks for secrets in what was emitted, which must hold has.
func checkSafe(t *testing.T, name, emitted, has string, needles []needle) {
	t.Helper()
	if !strings.Contains(emitted, has) {
		t.Errorf("%s has no %q: is it still read? %d bytes, beginning with\n%.1000s", name, has, len(emitted), emitted)
	}
	for line := range strings.Lines(emitted) {
		if found := find(line, needles); found != nil {
			t.Errorf("%s has the secrets %s in\n%.1000s", name, found, line)
			return
		}
	}
}

// witness notes which keys there were, and why requests were allowed or denied.
type witness struct {
	core.NopObserver

	mu      sync.Mutex
	keys    map[string]bool     // Guarded by mu.
	reasons map[core.Reason]int // Guarded by mu.
}

func (w *witness) Decided(_ context.Context, o *core.Observation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reasons[o.Decision.Reason]++
	for i := range o.Decision.Results() {
		if key := o.Key(i); len(key) > 0 {
			w.keys[string(key)] = true
		}
	}
}

// secrets returns the keys, and what is in them: the hash of an API key is a key, too. Routes are
// no secret.
func (w *witness) secrets(t *testing.T) (all []string) {
	t.Helper()
	kinds := map[string]bool{}
	for key := range w.keys {
		kind, value, _ := strings.Cut(key, ":")
		kinds[kind] = true
		if kind != "route" {
			all = append(all, key)
			if value != "" {
				all = append(all, value)
			}
		}
	}
	if !kinds["ip"] || !kinds["user"] || len(kinds) < 4 {
		t.Errorf("keys were of the kinds %v: %v", kinds, all)
	}
	return all
}

// An observer that logs keys is found out.
func TestACarelessObserverIsFound(t *testing.T) {
	t.Parallel()
	out := new(child.Output)
	careless := weblimitslog.Must(weblimitslog.New(weblimitslog.Config{
		Logger: slog.New(slog.NewTextHandler(out, nil)),
		Key:    func(_ context.Context, key string) string { return key },
	}))
	api := newAPI(t, core.NewMemory(), nil, []core.Observer{careless})
	for range 3 {
		for _, r := range plant() {
			api.ServeHTTP(httptest.NewRecorder(), r)
		}
	}
	if found := find(out.String(), needlesOf(secrets)); len(found) == 0 {
		t.Errorf("nothing is found in\n%.2000s", out.String())
	}
}

// Each notation is found.
func TestSecretsAreFoundWhereTheyAre(t *testing.T) {
	t.Parallel()
	for _, secret := range secrets {
		for how, written := range notations(secret) {
			if find("a line with "+written+" in it", needlesOf([]string{secret})) == nil {
				t.Errorf("%q %s is not found", secret, how)
			}
		}
	}
	if found := find(`{"limit":"login","key":"5f1c2a9be07d4436"}`, needlesOf(secrets)); found != nil {
		t.Errorf("found %s where there is nothing", found)
	}
}
