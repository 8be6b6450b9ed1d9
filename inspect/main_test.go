package inspect_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/inspect"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/metrics/top"
	"github.com/weblimit/weblimit/nethttp"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

const (
	operator = "operator's password"
	visitor  = "visitor's password"
)

var users = []inspect.User{
	{Name: "olga", Password: operator, May: inspect.Act},
	{Name: "vic", Password: visitor, May: inspect.Read},
}

// instance is one process of an application: a store, limits, a handler that they stand before, and the
// page.
type instance struct {
	store  core.Store
	heavy  *top.Tracker
	app    http.Handler
	page   *inspect.Handler
	client *http.Client // of the page
	log    *logs
}

// logs collects what is logged.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer // Guarded by mu.
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func perUser() core.Limit {
	return core.PerHour(5).By(keyfuncs.Header("X-User")).Named("per-user").Penalty(core.Block{After: 1000, Within: time.Hour, For: time.Minute})
}

// start starts an instance on a store. Requests name their user in X-User.
func start(t *testing.T, s core.Store, configure ...func(*inspect.Config)) *instance {
	t.Helper()
	in := &instance{store: s, heavy: top.New(top.Config{}), log: &logs{}}
	t.Cleanup(in.heavy.Close)
	config := core.Config{
		Store: s,
		Limits: []core.Limit{
			perUser(),
			core.PerMinute(100).FixedWindow().By(keyfuncs.Everyone()).Named("global"),
			core.PerHour(2).By(keyfuncs.Header("X-User")).Named("trial").Shadow(),
		},
		Timeout: time.Minute,
		Observe: in.heavy,
	}
	limiter := core.Must(core.New(config))
	in.app = nethttp.New(limiter)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "served\n")
	}))
	c := inspect.Config{
		Store: s, Top: in.heavy, Users: users, Timeout: time.Minute,
		Logger: slog.New(slog.NewJSONHandler(in.log, nil)),
		Label: func(key string) string {
			if key == "header.x-user:mallory" {
				return "Mallory <script>alert(1)</script>"
			}
			return ""
		},
	}
	for _, f := range configure {
		f(&c)
	}
	var err error
	if in.page, err = inspect.New(c); err != nil {
		t.Fatal(err)
	}
	in.serve(t, http.StripPrefix("/ops", in.page), 0)
	t.Cleanup(in.page.Close)
	return in
}

// serve has a server of its own answer what the page is asked.
func (in *instance) serve(t *testing.T, page http.Handler, writeTimeout time.Duration) {
	t.Helper()
	server := &http.Server{Handler: page, WriteTimeout: writeTimeout, ReadHeaderTimeout: time.Minute}
	p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	go func() { _ = server.Serve(p) }()
	in.client = &http.Client{
		Transport:     &http.Transport{DialContext: p.dial},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(func() { server.Close() })
	t.Cleanup(in.client.CloseIdleConnections)
}

// pipes listens for connections within the process: a bubble can hold both ends.
type pipes struct {
	conns  chan net.Conn
	close  sync.Once
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.close.Do(func() { close(p.closed) })
	return nil
}

func (*pipes) Addr() net.Addr { return &net.UnixAddr{} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// request sends a request of a user to the application and returns the status.
func (in *instance) request(user string) int {
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.Header.Set("X-User", user)
	w := httptest.NewRecorder()
	in.app.ServeHTTP(w, r)
	return w.Code
}

// call asks the API as an operator, and returns the status and the body.
func (in *instance) call(t *testing.T, method, path, body string, change ...func(*http.Request)) (status int, answer string) {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1/ops/"+path, strings.NewReader(body)))(t)
	r.SetBasicAuth("olga", operator)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Weblimit-Inspect", "1")
	}
	for _, f := range change {
		f(r)
	}
	res := must.Get(in.client.Do(r))(t)
	defer res.Body.Close()
	text := must.Get(io.ReadAll(res.Body))(t)
	return res.StatusCode, string(text)
}

// wantStatus is call for whatever has a status.
func (in *instance) wantStatus(t *testing.T, want int, method, path, body string, change ...func(*http.Request)) {
	t.Helper()
	if status, answer := in.call(t, method, path, body, change...); status != want {
		t.Errorf("%s %q: got %d %s, want %d", method, path, status, answer, want)
	}
}

// must is call for what has to succeed. It decodes the answer into to, unless that is nil.
func (in *instance) must(t *testing.T, method, path, body string, to any) {
	t.Helper()
	status, answer := in.call(t, method, path, body)
	if status != http.StatusOK {
		t.Fatalf("%s %s %s: got %d %s", method, path, body, status, answer)
	}
	if to == nil {
		return
	}
	if err := json.Unmarshal([]byte(answer), to); err != nil {
		t.Fatalf("%s: %v in %s", path, err, answer)
	}
}

func as(name, password string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth(name, password) }
}

func with(name, value string) func(*http.Request) {
	return func(r *http.Request) {
		if value == "" {
			r.Header.Del(name)
			return
		}
		r.Header.Set(name, value)
	}
}

// onEachStore runs a test over memory, in a bubble where both instances share the store, and over Redis,
// where each has its own client.
func onEachStore(t *testing.T, f func(t *testing.T, one, other core.Store)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := memstore.New()
			f(t, s, s)
		})
	})
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		server, prefix := redistest.Shared(t), redistest.Prefix(t)
		f(t, redisstore.New(patient(t, server), redisstore.Config{Prefix: prefix}),
			redisstore.New(patient(t, server), redisstore.Config{Prefix: prefix}))
	})
}

// patient returns a client that waits as long as the limiters do, for a Redis on a busy machine.
func patient(t *testing.T, server *redistest.Server) *redis.Client {
	t.Helper()
	return server.ClientWith(t, &redis.Options{ReadTimeout: time.Minute, WriteTimeout: time.Minute, PoolTimeout: time.Minute})
}

// silent is a store that does not answer.
type silent struct{ core.Store }

func (s silent) Peek(ctx context.Context, _ []core.Check, _ []core.Result) error {
	<-ctx.Done()
	return ctx.Err()
}
