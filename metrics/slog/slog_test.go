package weblimitslog_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	weblimitslog "github.com/weblimit/weblimit/metrics/slog"
)

// log keeps lines without their time.
type log struct {
	mu  sync.Mutex
	out bytes.Buffer // Guarded by mu.
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

// lines returns what was logged since the last call. Hashes are written as KEY.
func (l *log) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := hashed.ReplaceAllString(l.out.String(), "key=KEY ")
	l.out.Reset()
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

var hashed = regexp.MustCompile(`key=[0-9a-f]{16} `)

func (l *log) want(t *testing.T, lines ...string) {
	t.Helper()
	check.Equal(t, "logged", strings.Join(l.lines(), "\n"), strings.Join(lines, "\n"))
}

func (l *log) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// request is a request of an adapter.
type request struct {
	keyfuncs.Values

	ctx           context.Context
	method, route string
}

func (r *request) Context() context.Context { return r.ctx }
func (r *request) Method() string           { return r.method }
func (r *request) Route() (string, bool)    { return r.route, true }

var (
	everyone = keyfuncs.Everyone()
	byUser   = keyfuncs.User("user")
)

func newLimiter(t testing.TB, config core.Config) *core.Limiter {
	t.Helper()
	return must.Get(core.New(config))(t)
}

func newObserver(t testing.TB, config weblimitslog.Config) *weblimitslog.Observer {
	t.Helper()
	return must.Get(weblimitslog.New(config))(t)
}

// ask has an adapter decide a request of a user.
func ask(l *core.Limiter, user string) {
	adapter.New(l, "gin").Decide(&request{keyfuncs.Values{"user": user}, context.Background(), "POST", "/items/:id"}, new(adapter.Context), nil)
}

func TestOneLinePerLimitAndSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out log
		o := newObserver(t, weblimitslog.Config{Logger: out.logger()})
		l := newLimiter(t, core.Config{Store: core.NewMemory(), Observe: o, Limits: []core.Limit{core.PerHour(1).By(byUser).Named("user")}})
		another := newLimiter(t, core.Config{Store: core.NewMemory(), Observe: o, Limits: []core.Limit{core.PerHour(1).By(byUser).Named("another")}})

		ask(l, "alice")
		out.want(t, "")
		for range 100 {
			ask(l, "alice")
		}
		out.want(t, `level=INFO msg="weblimit: request denied" limit=user reason="limit exceeded" key=KEY retry_after=1h0m0s adapter=gin method=POST route=/items/:id`)
		ask(another, "alice")
		ask(another, "alice")
		out.want(t, `level=INFO msg="weblimit: request denied" limit=another reason="limit exceeded" key=KEY retry_after=1h0m0s adapter=gin method=POST route=/items/:id`)

		time.Sleep(time.Second)
		ask(l, "alice")
		out.want(t, `level=INFO msg="weblimit: request denied" limit=user reason="limit exceeded" key=KEY retry_after=59m59s adapter=gin method=POST route=/items/:id suppressed=99`)

		// No line follows, so that the number comes alone.
		ask(l, "alice")
		time.Sleep(1900 * time.Millisecond)
		out.want(t, "")
		time.Sleep(200 * time.Millisecond)
		out.want(t, `level=INFO msg="weblimit: requests denied" limit=user suppressed=1`)

		time.Sleep(time.Hour)
		out.want(t, "")
	})
}

// Lines and their numbers add up to all denials, at any pace, with a flush at the end.
func TestNoDenialIsLost(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{time.Millisecond, 300 * time.Millisecond, 999 * time.Millisecond, time.Second, 1700 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			var out log
			o := newObserver(t, weblimitslog.Config{Logger: out.logger()})
			l := newLimiter(t, core.Config{Store: core.NewMemory(), Observe: o, Limits: []core.Limit{core.PerDay(1).By(byUser).Named("user")}})
			ask(l, "alice")
			began, asks := time.Now(), 0
			var wg sync.WaitGroup
			for time.Since(began) < 30*time.Second {
				for range 3 {
					wg.Go(func() { ask(l, "alice") })
					asks++
				}
				time.Sleep(pause)
			}
			wg.Wait()
			o.Flush()
			lines, total := out.lines(), 0
			for _, line := range lines {
				if strings.Contains(line, "request denied") {
					total++
				}
				if _, n, found := strings.Cut(line, "suppressed="); found {
					var suppressed int
					must.Do(fmt.Sscan(n, &suppressed))(t)
					total += suppressed
				}
			}
			if total != asks || len(lines) > 32 {
				t.Errorf("every %v: %d lines tell of %d denials, want %d", pause, len(lines), total, asks)
			}
			o.Flush()
			out.want(t, "")
		})
	}
}

func TestLimitsInShadowModeHaveLinesOfTheirOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out log
		o := newObserver(t, weblimitslog.Config{Logger: out.logger(), Level: slog.LevelWarn})
		l := newLimiter(t, core.Config{Store: core.NewMemory(), Observe: o, Limits: []core.Limit{
			core.PerHour(3).By(everyone).Named("user"), core.PerHour(1).By(byUser).Named("trial").Shadow(),
			core.PerHour(1).By(keyfuncs.Header("X-Tenant")).OnMissingKey(core.DenyRequest).Named("tenant").Shadow(),
		}})
		for range 4 {
			ask(l, "alice")
		}
		out.want(t,
			`level=WARN msg="weblimit: request would be denied" limit=tenant shadow=true reason="missing key" adapter=gin method=POST route=/items/:id`,
			`level=WARN msg="weblimit: request would be denied" limit=trial shadow=true reason="limit exceeded" key=KEY retry_after=1h0m0s adapter=gin method=POST route=/items/:id`,
			`level=WARN msg="weblimit: request denied" limit=user reason="limit exceeded" key=KEY retry_after=20m0s adapter=gin method=POST route=/items/:id`)
		time.Sleep(3 * time.Second)
		got := out.lines()
		slices.Sort(got) // both come at the same time
		if want := []string{
			`level=WARN msg="weblimit: requests would be denied" limit=tenant shadow=true suppressed=3`,
			`level=WARN msg="weblimit: requests would be denied" limit=trial shadow=true suppressed=2`,
		}; !slices.Equal(got, want) {
			t.Errorf("logged later %q, want %q", got, want)
		}
	})
}

// Each way to deny a request has a line that says why.
func TestEachReasonIsLogged(t *testing.T) {
	t.Parallel()
	user := core.PerHour(1).By(byUser).Named("user")
	for reason, tt := range map[string]struct {
		limit core.Limit
		store core.Store
		asks  int
	}{
		`limit=user reason="missing key" missing="authenticated user" adapter`: {limit: user.OnMissingKey(core.DenyRequest), asks: 1},
		`limit=user class=low reason="never fits"`: {limit: user.CostBy(func(keyfuncs.Request) int64 { return 7 }).Burst(4).
			Classes(core.Class{Name: "high", When: keyfuncs.Methods("PUT"), Keep: 0.5}, core.Class{Name: "low"}), asks: 1},
		`limit=user standing="over maximum" reason="limit exceeded" key=KEY`: {limit: core.PerHour(9).By(keyfuncs.Everyone()).Named("user").
			Fair(core.Shares{By: byUser, Of: func(keyfuncs.Request) core.Share { return core.Share{Maximum: 1} }}), asks: 2},
		`limit=user reason="never fits" key=KEY cost=7 adapter`:           {limit: user.CostBy(func(keyfuncs.Request) int64 { return 7 }), asks: 1},
		`limit=user reason="invalid cost" adapter`:                        {limit: user.CostBy(func(keyfuncs.Request) int64 { return -1 }), asks: 1},
		`limit=user reason=blocked key=KEY retry_after=1h0m0s adapter`:    {limit: user.Penalty(core.Block{After: 1, Within: time.Hour, For: time.Hour}), asks: 2},
		`limit=user reason="outage denied" error=READONLY retry_after=1s`: {limit: user.OnOutage(core.Deny), store: down{core.NewMemory(), &store.Error{Class: store.ClassReadOnly}}, asks: 1},
		`limit=user reason="outage denied" error=unknown retry_after=1s`:  {limit: user.OnOutage(core.Deny), store: down{core.NewMemory(), errors.New("?")}, asks: 1},
	} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if tt.store == nil {
					tt.store = core.NewMemory()
				}
				tt.store.Registry().OnEvent(func(core.Event) {}) // or it would log
				var out log
				l := newLimiter(t, core.Config{Store: tt.store, Observe: newObserver(t, weblimitslog.Config{Logger: out.logger()}), Limits: []core.Limit{tt.limit}})
				name := "alice"
				if strings.Contains(reason, "missing") {
					name = ""
				}
				for range tt.asks {
					ask(l, name)
				}
				check.Contains(t, "logged", out.lines()[0], reason)
			})
		})
	}
}

// down is a store that fails.
type down struct {
	*core.Memory
	err error
}

func (d down) Take(context.Context, []core.Check, []core.Result) error { return d.err }

type contextKey struct{}

func TestLinesAreCorrelated(t *testing.T) {
	t.Parallel()
	var out log
	o := newObserver(t, weblimitslog.Config{Logger: out.logger(), Attrs: func(ctx context.Context) []slog.Attr {
		return []slog.Attr{slog.Any("tenant", ctx.Value(contextKey{})), slog.Int("n", 7)}
	}})
	l := newLimiter(t, core.Config{Store: core.NewMemory(), Observe: o, Limits: []core.Limit{core.PerHour(1).By(everyone).Named("user")}})
	for range 2 {
		l.AllowKey(context.WithValue(t.Context(), contextKey{}, "acme"), "user:alice", 1)
	}
	if got := out.lines()[0]; !strings.Contains(got, "tenant=acme n=7") || strings.Contains(got, "alice") {
		t.Errorf("logged %s", got)
	}
}

func TestKeysAreHashed(t *testing.T) {
	t.Parallel()
	secret := []byte("0123456789abcdef")
	keyOf := func(config weblimitslog.Config, user string) string {
		var out log
		config.Logger = out.logger()
		l := newLimiter(t, core.Config{Store: core.NewMemory(), Observe: newObserver(t, config), Limits: []core.Limit{core.PerHour(1).By(byUser).Named("user")}})
		ask(l, user)
		ask(l, user)
		_, key, _ := strings.Cut(out.out.String(), " key=")
		key, _, _ = strings.Cut(key, " ")
		return key
	}
	one := keyOf(weblimitslog.Config{Secret: secret}, "alice")
	documented := hmac.New(sha256.New, secret)
	documented.Write([]byte("user:alice"))
	must.Equal(t, "the key logged", one, hex.EncodeToString(documented.Sum(nil))[:16])
	label := func(label string) func(context.Context, string) string {
		return func(_ context.Context, key string) string {
			check.Equal(t, "asked to name", key, "user:alice")
			return label
		}
	}
	for _, tt := range []struct {
		name string
		got  string
		same bool
	}{
		{"another process with the secret", keyOf(weblimitslog.Config{Secret: secret}, "alice"), true},
		{"another client", keyOf(weblimitslog.Config{Secret: secret}, "bob"), false},
		{"another secret", keyOf(weblimitslog.Config{Secret: []byte("another secret of 16 bytes")}, "alice"), false},
		{"a process without the secret", keyOf(weblimitslog.Config{}, "alice"), false},
		{"a client that the application does not name", keyOf(weblimitslog.Config{Secret: secret, Key: label("")}, "alice"), true},
	} {
		check.All(t, tt.name+": the same as of alice, and as long", []any{tt.got == one, len(tt.got)}, tt.same, len(one))
	}
	check.Equal(t, "the key of a named client", keyOf(weblimitslog.Config{Key: label("customer-7")}, "alice"), "customer-7")
	secret[0]++
	check.Equal(t, "the key logged after the secret was changed", keyOf(weblimitslog.Config{Secret: []byte("0123456789abcdef")}, "alice"), one)
}

func TestNewFails(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]weblimitslog.Config{
		"weblimit: slog.Config.Every must be above 0, got -1s":            {Every: -time.Second},
		"weblimit: slog.Config.Secret must have at least 16 bytes, got 5": {Secret: []byte("short")},
	} {
		_, err := weblimitslog.New(config)
		check.Equal(t, "New", fmt.Sprint(err), want)
	}
}
