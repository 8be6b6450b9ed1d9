package core_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/storetest"
	"github.com/weblimit/weblimit/keyfuncs"
)

// warnings collects events.
type warnings struct {
	mu   sync.Mutex
	list []core.Warning // Guarded by mu.
}

func (w *warnings) add(_ context.Context, event core.Warning) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, event)
}

// take returns the events since the last call.
func (w *warnings) take() []core.Warning {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.list
	w.list = nil
	return list
}

func warningHeader(d core.Decision) string { return told(d).Get("X-RateLimit-Warning") }

func TestWarnFromWhichRequestOn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		limit  core.Limit
		first  int64 // the request of cost 1 from which on there is a warning
		header string
	}{
		{"eight tenths of ten", everyone(10).WarnAt(0.8), 8, `approaching limit; policy="default"; used=80%`},
		{"83 of a hundred", everyone(100).WarnAt(0.83).Named("key"), 83, `approaching limit; policy="key"; used=83%`},
		{"a fraction that no float is", everyone(100).WarnAt(0.29), 29, `approaching limit; policy="default"; used=29%`},
		{"another such fraction", everyone(1000).WarnAt(0.57), 570, `approaching limit; policy="default"; used=57%`},
		{"a fraction of a million that is below its product", everyone(1_000_000).FixedWindow().WarnAt(0.0157), 15_700, `approaching limit; policy="default"; used=1%`},
		{"a level between two units is reached by the later", everyone(3).WarnAt(0.5), 2, `approaching limit; policy="default"; used=66%`},
		{"all of it", everyone(7).WarnAt(1), 7, `approaching limit; policy="default"; used=100%`},
		{"almost all of it", everyone(7).WarnAt(0.999999), 7, `approaching limit; policy="default"; used=100%`},
		{"next to nothing", everyone(7).WarnAt(1e-300), 1, `approaching limit; policy="default"; used=14%`},
		{"a limit of one", everyone(1).WarnAt(0.01), 1, `approaching limit; policy="default"; used=100%`},
		{"of the burst and not of the quota", everyone(100).Burst(5).WarnAt(0.6), 3, `approaching limit; policy="default"; used=60%`},
		{"a fixed window", everyone(10).FixedWindow().WarnAt(0.5), 5, `approaching limit; policy="default"; used=50%`},
		{"a sliding window", everyone(10).SlidingWindow().WarnAt(0.5), 5, `approaching limit; policy="default"; used=50%`},
		{"a sliding log", everyone(10).SlidingLog().WarnAt(0.5), 5, `approaching limit; policy="default"; used=50%`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := limiterAt(t, tt.limit)
			for i := int64(1); ; i++ {
				d := l.Allow(&request{})
				if !d.Allowed {
					t.Fatal("no warning before the denial")
				}
				got := warningHeader(d)
				if (got != "") != (i >= tt.first) || (d.WarnLevel() > 0) != (i >= tt.first) {
					t.Fatalf("request %d: warning %q, level %v; want it from request %d on", i, got, d.WarnLevel(), tt.first)
				}
				if i == tt.first {
					check.Equal(t, "warning", got, tt.header)
					return
				}
			}
		})
	}
}

func TestWarnThroughAnyKindOfHeader(t *testing.T) {
	t.Parallel()
	d := limiterOn(t, core.NewMemory(), everyone(2).WarnAt(0.5).Named("key")).Allow(&request{})
	want := []string{`approaching limit; policy="key"; used=50%`}
	for kind, as := range map[string]func(http.Header) core.Header{"HeaderMap": asMap, "http.Header": asHeader, "another": asOther} {
		h := http.Header{}
		d.SetHeaders(as(h))
		check.Slices(t, kind, h["X-Ratelimit-Warning"], want)
	}
}

func TestWarnTellsTheHighestLevel(t *testing.T) {
	t.Parallel()
	l := limiterAt(t, everyone(10).WarnAt(0.9, 0.2, 0.5))
	for i, want := range []float64{0, 0.2, 0.2, 0.2, 0.5, 0.5, 0.5, 0.5, 0.9, 0.9} {
		d := l.Allow(&request{})
		check.Equal(t, fmt.Sprintf("levels of request %d and of its result", i+1), [2]float64{d.WarnLevel(), d.Results()[0].WarnLevel}, [2]float64{want, want})
	}
	d := l.Allow(&request{})
	check.All(t, "a denial, which does not warn", []any{d.Allowed, d.WarnLevel(), warningHeader(d)}, false, 0, "")
}

func TestWarnOfSeveralLimits(t *testing.T) {
	t.Parallel()
	store, _ := at()
	l := limiterOn(t, store,
		everyone(10).Named("a").WarnAt(0.2, 0.6),
		everyone(5).Named("quiet"),
		everyone(8).Named("b").WarnAt(0.5),
		everyone(4).Named("shadow").WarnAt(0.1, 1).Shadow())
	for i, want := range []string{
		"",
		`approaching limit; policy="a"; used=20%`,
		`approaching limit; policy="a"; used=30%`,
		`approaching limit; policy="b"; used=50%`, // 0.5 is above 0.2
		`approaching limit; policy="b"; used=62%`,
	} {
		check.Equal(t, fmt.Sprint("request ", i+1), warningHeader(l.Allow(&request{})), want)
	}
	// What denies is the quiet limit; none of the others warns of what it was not charged.
	d := l.Allow(&request{})
	check.All(t, "a denial, which does not warn", []any{d.Allowed, d.WarnLevel(), warningHeader(d)}, false, 0, "")
}

func TestWarnOfEqualLevelsNamesTheFirst(t *testing.T) {
	t.Parallel()
	l := limiterOn(t, core.NewMemory(), everyone(4).Named("a").WarnAt(0.25), everyone(2).Named("b").WarnAt(0.25))
	check.Equal(t, "warning", warningHeader(l.Allow(&request{})), `approaching limit; policy="a"; used=25%`)
}

// Trap 43: of two limiters on one route the more pressing warning stays.
func TestWarnOfTwoLimiters(t *testing.T) {
	t.Parallel()
	near := limiterOn(t, core.NewMemory(), everyone(10).Cost(9).Named("near").WarnAt(0.5)).Allow(&request{})
	far := limiterOn(t, core.NewMemory(), everyone(10).Cost(5).Named("far").WarnAt(0.5)).Allow(&request{})
	for name, order := range map[string][2]core.Decision{"the nearer first": {near, far}, "the nearer last": {far, near}} {
		h := http.Header{}
		order[0].SetHeaders(adapter.HeaderMap(h))
		order[1].SetHeaders(adapter.HeaderMap(h))
		check.Slices(t, name, h["X-Ratelimit-Warning"], []string{`approaching limit; policy="near"; used=90%`})
	}
	h := http.Header{"X-Ratelimit-Warning": {"something of others"}}
	far.SetHeaders(h)
	check.Slices(t, "warning", h["X-Ratelimit-Warning"], []string{`approaching limit; policy="far"; used=50%`})
}

func TestWarnLevelsThatCanNotBe(t *testing.T) {
	t.Parallel()
	for _, level := range []float64{0, -0.5, 1.0000001, 80, math.NaN(), math.Inf(1), math.Inf(-1)} {
		_, err := core.New(core.Config{Store: core.NewMemory(), Limits: []core.Limit{everyone(5).WarnAt(0.5, level)}})
		want := fmt.Sprintf(`weblimit: limit "default": a warning level must be above 0 and at most 1, got %v`, level)
		check.Equal(t, "New", fmt.Sprint(err), want)
	}
}

func TestWarningEvent(t *testing.T) {
	t.Parallel()
	type tag struct{}
	store, _ := at()
	var got []core.Warning
	l := newLimiter(t, core.Config{
		Store: store,
		Limits: []core.Limit{
			core.PerHour(100).Burst(10).By(keyfuncs.User("userID")).CostBy(costing).Named("user").WarnAt(0.8, 0.2, 0.4),
			core.PerHour(5).By(keyfuncs.APIKey()).Named("key").WarnAt(0.2),
		},
		OnWarning: func(ctx context.Context, event core.Warning) {
			check.Equal(t, "the value of the request's context", ctx.Value(tag{}), "trace")
			got = append(got, event)
		},
	})
	ask := func(cost int64) core.Decision {
		return l.Allow(&request{
			ctx:     context.WithValue(context.Background(), tag{}, "trace"),
			values:  map[any]any{"userID": "alice", "cost": cost},
			headers: map[string]string{"X-Api-Key": "0123456789abcdef"},
		})
	}
	key := keyfuncs.Encode("apikey", "0123456789abcdef")
	for _, step := range []struct {
		name string
		cost int64
		want []core.Warning
	}{
		{"below all levels of one limit", 1, []core.Warning{{Limit: "key", Level: 0.2, Used: 1, Burst: 5, Key: key}}},
		{"over two levels at once", 4, []core.Warning{
			{Limit: "user", Level: 0.2, Used: 5, Burst: 10, Key: "user:alice"},
			{Limit: "user", Level: 0.4, Used: 5, Burst: 10, Key: "user:alice"},
		}},
		{"more of the same", 1, nil},
		{"nothing", 0, nil},
		{"a denial", 5, nil},
		{"a cost that can never be paid", 50, nil},
		{"a negative cost", -1, nil},
		{"over the last level", 2, []core.Warning{{Limit: "user", Level: 0.8, Used: 8, Burst: 10, Key: "user:alice"}}},
	} {
		got = nil
		if ask(step.cost); !slices.Equal(got, step.want) {
			t.Errorf("%s: events %+v, want %+v", step.name, got, step.want)
		}
	}
	for _, event := range got {
		if strings.Contains(event.Key, "0123456789") {
			t.Errorf("an event holds a secret: %+v", event)
		}
	}
}

func TestWarningEventOfKeysAndPeeks(t *testing.T) {
	t.Parallel()
	var events warnings
	l := newLimiter(t, core.Config{Store: core.NewMemory(), Limits: []core.Limit{everyone(10).WarnAt(0.5)}, OnWarning: events.add})
	must.Do(l.Peek(t.Context(), "k", 9))(t)
	if got := events.take(); got != nil {
		t.Errorf("peeking sends %+v", got)
	}
	l.AllowKey(t.Context(), "k", 9)
	want := []core.Warning{{Limit: "default", Level: 0.5, Used: 9, Burst: 10, Key: "k"}}
	check.Slices(t, "what a key sends", events.take(), want)
	// It has been warned of this hour, whatever is forgotten in the store.
	must.OK(t, l.Reset(t.Context(), "k"))
	if l.AllowKey(t.Context(), "k", 9); events.take() != nil {
		t.Error("a second event in one window")
	}
}

// A limit in shadow mode tells the client nothing, and its operator all: the
// event is how a limit on trial is watched.
func TestWarningEventOfAShadow(t *testing.T) {
	t.Parallel()
	var events warnings
	l := newLimiter(t, core.Config{Store: core.NewMemory(), Limits: []core.Limit{everyone(2).WarnAt(0.5).Shadow()}, OnWarning: events.add})
	d := l.Allow(&request{})
	wantNothingTold(t, "in shadow mode", d)
	check.Equal(t, "the level of the result", d.Results()[0].WarnLevel, 0.5)
	if got := events.take(); len(got) != 1 || got[0].Level != 0.5 {
		t.Errorf("events %+v, want one of level 0.5", got)
	}
	for range 3 {
		l.Allow(&request{})
	}
	if got := events.take(); got != nil {
		t.Errorf("events of what was not charged: %+v", got)
	}
}

// During an outage the levels are those of this process's share.
func TestWarningEventDuringAnOutage(t *testing.T) {
	t.Parallel()
	var events warnings
	l := newLimiter(t, core.Config{Store: newFlaky(true), Replicas: 10, Limits: []core.Limit{everyone(100).WarnAt(0.8)}, OnWarning: events.add})
	for range 10 {
		l.Allow(&request{})
	}
	want := []core.Warning{{Limit: "default", Level: 0.8, Used: 8, Burst: 10, Key: "all"}}
	check.Slices(t, "events", events.take(), want)
}

// One event per crossing, key and window, over 100,000 requests of two clients
// that hover around the levels for months.
// Limits that only apply in an outage warn as others do, although no other limit does.
func TestWarningEventOfAFallback(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]core.Limit{
		"levels of its own":  everyone(2).WarnAt(0.5).Named("stricter"),
		"those of calendars": forAll(core.PerMonth(2, time.UTC)).Named("stricter"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen warnings
			l := newLimiter(t, core.Config{
				Store: newFlaky(true), Limits: []core.Limit{everyone(9)}, OnWarning: seen.add, Fallback: core.Fallback{Limits: []core.Limit{limit}},
			})
			for range 2 {
				if d := l.Allow(&request{}); !d.Allowed {
					t.Fatal(d)
				}
			}
			if got := seen.take(); len(got) == 0 || got[0].Limit != "stricter" {
				t.Errorf("warnings %+v, want one of the stricter limit", got)
			}
		})
	}
}

func TestOneWarningEventPerWindow(t *testing.T) {
	t.Parallel()
	levels := []float64{0.5, 0.8, 1}
	for algorithm, limit := range storetest.Algorithms(20, time.Hour) {
		t.Run(algorithm, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var events warnings
				l := newLimiter(t, core.Config{
					Store:     core.NewMemory(),
					Limits:    []core.Limit{limit.By(keyfuncs.User("userID")).Named("api").WarnAt(levels...)},
					OnWarning: events.add,
				})
				type crossing struct {
					who   int
					level float64
				}
				last := map[crossing]time.Time{} // until when no other is due
				r := rand.New(rand.NewPCG(1, 2))
				sent := 0
				requests := [...]*request{user(0), user(1)}
				for i := range long.Rounds(20_000, 100_000) {
					if i%50 == 0 {
						time.Sleep(time.Duration(r.Int64N(int64(70 * time.Minute))))
					}
					who := r.IntN(2)
					d := l.Allow(requests[who])
					var want []core.Warning
					b := d.Results()[0]
					for _, level := range levels {
						at, used := int64(level*20), 20-b.Remaining
						if !d.Allowed || used < at || used-1 >= at {
							continue
						}
						again := time.Now().Add(time.Hour)
						if b.Rule.Algorithm == store.FixedWindow {
							again = time.UnixMicro(b.At).Add(b.ResetAfter)
						}
						if before, known := last[crossing{who, level}]; known && time.Now().Before(before) {
							continue
						}
						last[crossing{who, level}] = again
						want = append(want, core.Warning{Limit: "api", Level: level, Used: used, Burst: 20, Key: fmt.Sprint("user:", who)})
					}
					if got := events.take(); !slices.Equal(got, want) {
						t.Fatalf("request %d: events %+v, want %+v", i, got, want)
					}
					sent += len(want)
				}
				if sent < 100 {
					t.Errorf("%d events were due: the clients did not hover", sent)
				}
			})
		})
	}
}

// The same, of parallel requests.
func TestOneWarningEventOfParallelRequests(t *testing.T) {
	t.Parallel()
	for algorithm, limit := range storetest.Algorithms(1000, time.Hour) {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			store, _ := at()
			var events warnings
			l := newLimiter(t, core.Config{
				Store:     store,
				Limits:    []core.Limit{limit.By(keyfuncs.User("userID")).Named("api").WarnAt(0.5, 0.8, 0.95)},
				OnWarning: events.add,
			})
			atOnce(64, func(int) {
				alice, bob := user("alice"), user("bob")
				for range 20 {
					l.Allow(alice)
					l.Allow(bob)
				}
			})
			got := events.take()
			var want []core.Warning
			for _, who := range []string{"user:alice", "user:bob"} {
				want = append(want, core.Warning{Limit: "api", Level: 0.5, Used: 500, Burst: 1000, Key: who},
					core.Warning{Limit: "api", Level: 0.8, Used: 800, Burst: 1000, Key: who},
					core.Warning{Limit: "api", Level: 0.95, Used: 950, Burst: 1000, Key: who})
			}
			slices.SortFunc(got, func(a, b core.Warning) int {
				if a.Key != b.Key {
					return strings.Compare(a.Key, b.Key)
				}
				return int(a.Used - b.Used)
			})
			check.Slices(t, "events", got, want)
		})
	}
}

// Trap 30: a client that rotates keys does not fill the memory of events.
func TestWarningEventsAreRememberedInBoundedMemory(t *testing.T) {
	t.Parallel()
	events := 0
	l := newLimiter(t, core.Config{
		Store:     core.NewMemory(),
		Limits:    []core.Limit{everyone(1).WarnAt(1)},
		OnWarning: func(context.Context, core.Warning) { events++ },
	})
	const keys = core.MaxWarned + 10_000
	for i := range keys {
		l.AllowKey(t.Context(), fmt.Sprint("k", i), 1)
	}
	check.Equal(t, "events", events, keys)
	if n := l.Warned(); n > core.MaxWarned {
		t.Errorf("%d events are remembered, want at most %d", n, core.MaxWarned)
	}
}

// Without a function to get them no event is remembered; clients are warned.
func TestWarnWithoutEvents(t *testing.T) {
	t.Parallel()
	l := limiterOn(t, core.NewMemory(), everyone(2).WarnAt(0.5))
	if got := warningHeader(l.Allow(&request{})); got == "" {
		t.Error("the client is not warned")
	}
	check.Equal(t, "events remembered", l.Warned(), 0)
}
