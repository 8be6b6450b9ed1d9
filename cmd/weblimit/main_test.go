package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/inspect"
	"github.com/weblimit/weblimit/internal/test/edge"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/metrics/top"
)

func TestMain(m *testing.M) {
	wait.Beside(8)
	edge.AwayFromMonth(3 * time.Minute)
	os.Exit(pgtest.Main(both{m}))
}

// result is what one call of the command did.
type result struct {
	code     int
	out, err string
}

// call is how the command is called.
type call struct {
	env   map[string]string
	input string
	tty   bool
	asks  bool
	size  [2]int
}

func (c call) run(t *testing.T, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	return c.runContext(ctx, args...)
}

func (c call) runContext(ctx context.Context, args ...string) result {
	var out, errs bytes.Buffer
	code := run(ctx, args, streams{
		input: strings.NewReader(c.input), out: &out, err: &errs, env: c.variable,
		isTTY: c.tty, asks: c.asks, size: func() (columns, rows int) { return c.size[0], c.size[1] },
	})
	return result{code, out.String(), errs.String()}
}

// variable returns a variable of the environment. A question may take as long as a busy machine needs, unless the test says otherwise.
func (c call) variable(name string) string {
	if value, ok := c.env[name]; ok || name != "WEBLIMIT_TIMEOUT" {
		return value
	}
	return "1m"
}

// ok is run for what has to end with 0 and without complaints.
func (c call) ok(t *testing.T, args ...string) string {
	t.Helper()
	r := c.run(t, args...)
	if r.code != exitOK || r.err != "" {
		t.Fatalf("weblimit %s: exit code %d, %s%s", strings.Join(args, " "), r.code, r.err, r.out)
	}
	return r.out
}

// fails is run for what has to fail with a code, and returns what it says.
func (c call) fails(t *testing.T, code int, args ...string) string {
	t.Helper()
	r := c.run(t, args...)
	if r.code != code {
		t.Fatalf("weblimit %s: exit code %d, want %d: %s%s", strings.Join(args, " "), r.code, code, r.err, r.out)
	}
	return r.err
}

// wants fails the test unless text has all parts.
func wants(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in\n%s", part, text)
		}
	}
}

func decode[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

const password = "operator's password"

// application is an instance of an application over a Redis, and its page.
type application struct {
	limiter *core.Limiter
	store   *redisstore.Store
	heavy   *top.Tracker
	only    []*core.Limiter // of single limits
	onPage  call            // asks the page
	onRedis call            // asks Redis
}

// limits are those of the tests' applications. Their windows are long, since a busy machine takes its time.
func limits() []core.Limit {
	return []core.Limit{
		core.PerHour(5).By(keyfuncs.User("id")).Named("login").Penalty(core.Block{After: 1000, Within: time.Hour, For: time.Minute}),
		core.Per(100, 90*24*time.Hour).FixedWindow().Jitter().By(keyfuncs.User("id")).Named("seasonal"),
		core.PerMonth(1000, time.UTC).By(keyfuncs.User("id")).Named("monthly"),
		core.PerHour(2).By(keyfuncs.User("id")).Named("trial").Shadow(),
	}
}

// longLived is an exchange whose snapshots can be read for some minutes, however seldom a busy machine
// publishes them.
type longLived struct{ top.Exchange }

func (l longLived) Publish(ctx context.Context, instance string, snapshot []byte, _ time.Duration) error {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return l.Exchange.Publish(within, instance, snapshot, 5*time.Minute)
}

func (l longLived) Agree(ctx context.Context, proposal []byte) ([]byte, error) {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return l.Exchange.Agree(within, proposal)
}

// startOn starts an application on a server.
func startOn(t *testing.T, rdb redis.UniversalClient, prefix, redisURL string, all ...core.Limit) *application {
	t.Helper()
	s := redisstore.New(rdb, redisstore.Config{Prefix: prefix})
	a := &application{store: s, heavy: top.New(top.Config{Exchange: longLived{s.Exchange()}, Interval: time.Second, Clients: 1000})}
	t.Cleanup(a.heavy.Close)
	if len(all) == 0 {
		all = limits()
	}
	config := core.Config{Store: s, Observe: a.heavy, Timeout: time.Minute}
	for _, l := range all {
		config.Limits = []core.Limit{l}
		a.only = append(a.only, core.Must(core.New(config)))
	}
	config.Limits = all
	a.limiter = core.Must(core.New(config))
	page := must.Get(inspect.New(inspect.Config{
		Store: s, Top: a.heavy, Timeout: time.Minute,
		Users: []inspect.User{{Name: "ops", Password: password, May: inspect.Act}, {Name: "vic", Password: password, May: inspect.Read}},
	}))(t)
	t.Cleanup(page.Close)
	server := httptest.NewServer(page)
	t.Cleanup(server.Close)
	a.onPage.env = map[string]string{"WEBLIMIT_URL": server.URL + "/ops/limits", "WEBLIMIT_USER": "ops", "WEBLIMIT_PASSWORD": password}
	a.onRedis.env = map[string]string{"WEBLIMIT_REDIS": redisURL, "WEBLIMIT_PREFIX": prefix}
	return a
}

// clientOf returns a client that waits for a server on a busy machine.
func clientOf(t *testing.T, s *redistest.Server) *redis.Client {
	t.Helper()
	return s.ClientWith(t, &redis.Options{
		DialTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute, PoolTimeout: time.Minute,
	})
}

// startShared starts an application on the shared Redis.
func startShared(t *testing.T, all ...core.Limit) *application {
	t.Helper()
	server := redistest.Shared(t)
	return startOn(t, clientOf(t, server), redistest.Prefix(t), "unix://"+server.Addr(), all...)
}

// ask asks n times for a key, and returns how often it was allowed.
func (a *application) ask(t *testing.T, key string, n int) (allowed int) {
	t.Helper()
	for range n {
		d := a.limiter.AllowKey(t.Context(), key, 1)
		if d.Err != nil {
			t.Fatal(d.Err)
		}
		if d.Allowed {
			allowed++
		}
	}
	return allowed
}

// published waits until other processes see that n requests have been counted of a key.
func (a *application) published(t *testing.T, key string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // without which Redis has a second
	defer cancel()
	wait.Until(t, "the application publishes what it has counted", func() bool {
		snapshots := must.Get(a.store.Exchange().Collect(ctx))(t)
		for _, data := range snapshots {
			s := new(top.Snapshot)
			must.OK(t, s.UnmarshalBinary(data))
			if l := s.Limit("login"); l != nil && l.Quota > 0 {
				if c, ok := l.Client(key); ok && c.Hour.Requests >= int64(n) {
					return true
				}
			}
		}
		return false
	})
}
