package top

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/exchange"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

func newLimiter(tb testing.TB, observer core.Observer, limits ...core.Limit) *core.Limiter {
	tb.Helper()
	for i := range limits {
		limits[i] = limits[i].By(keyfuncs.ClientIP())
	}
	return must.Get(core.New(core.Config{Store: core.NewMemory(), Observe: observer, Limits: limits}))(tb)
}

func ask(l *core.Limiter, key string, n int) {
	for range n {
		l.AllowKey(context.Background(), key, 1)
	}
}

func TestCountsOfClients(t *testing.T) {
	t.Parallel()
	heavy := newTracker(Config{})
	l := newLimiter(t, heavy, core.PerHour(4).Named("hard"), core.PerHour(2).Shadow().Named("soft"))
	ask(l, "user:1", 10)
	ask(l, "user:2", 3)
	ask(l, "user:3", 1)
	s := heavy.Snapshot()
	want := map[string]Client{
		"hard user:1": {Minute: Counts{Requests: 10, Denied: 6}, Used: 1, Denial: Denial{Reason: core.ReasonLimitExceeded, Quota: 4}},
		"hard user:2": {Minute: Counts{Requests: 3}, Used: 0.75},
		"hard user:3": {Minute: Counts{Requests: 1}, Used: 0.25},
		"soft user:1": {Minute: Counts{Requests: 10, WouldDeny: 8}, Used: 1, Denial: Denial{Reason: core.ReasonLimitExceeded, Quota: 2, Shadow: true}},
		"soft user:2": {Minute: Counts{Requests: 3, WouldDeny: 1}, Used: 1, Denial: Denial{Reason: core.ReasonLimitExceeded, Quota: 2, Shadow: true}},
		"soft user:3": {Minute: Counts{Requests: 1}, Used: 0.5},
	}
	for name, want := range want {
		limit, key, _ := strings.Cut(name, " ")
		got, ok := s.Limit(limit).Client(key)
		if !ok || got.Minute != want.Minute || got.Hour != want.Minute || got.Used != want.Used ||
			got.Denial.Reason != want.Denial.Reason || got.Denial.Quota != want.Denial.Quota || got.Denial.Shadow != want.Denial.Shadow {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	d, _ := s.Limit("hard").Client("user:1")
	if d := d.Denial; d.Cost != 1 || d.Remaining != 0 || d.Burst != 4 || d.Window != time.Hour || d.RetryAfter < 14*time.Minute || d.RetryAfter > 15*time.Minute || time.Since(d.At) > time.Minute {
		t.Errorf("the last denial is %+v", d)
	}
	soft := s.Limit("soft")
	check.All(t, "the limit", []any{soft.Shadow, soft.Quota, soft.Window, soft.Burst}, true, 2, time.Hour, 2)
	for name, order := range map[string][]Client{
		"user:1 user:2 user:3": s.Limit("hard").Nearest(5),
		"user:1 user:2":        s.Limit("soft").MostDenied(5),
		"user:1":               s.Limit("hard").MostDenied(5),
		"user:1 user:2 ":       s.Limit("hard").Busiest(2),
		"":                     s.Limit("hard").Busiest(0),
	} {
		var keys []string
		for _, c := range order {
			keys = append(keys, c.Key)
		}
		check.Equal(t, "the list", strings.Join(keys, " "), strings.TrimSpace(name))
	}
	check.Equal(t, "the highest denials, of those enforced", heavy.HighestDenials(), 6)
	check.Equal(t, "a limit that nobody asked", s.Limit("other"), nil)
}

// Each way to be denied has its reason, and costs and numbers are those of the decision.
func TestReasonsOfDenials(t *testing.T) {
	t.Parallel()
	heavy := newTracker(Config{})
	l := newLimiter(t, heavy, core.PerHour(4).Named("plain"), core.PerHour(100).Named("blocks").Penalty(core.Block{After: 1, Within: time.Hour, For: time.Hour}))
	l.AllowKey(context.Background(), "user:large", 5)
	l.AllowKey(context.Background(), "user:huge", 101)
	l.AllowKey(context.Background(), "user:huge", 1)
	s := heavy.Snapshot()
	large, _ := s.Limit("plain").Client("user:large")
	never := large.Denial
	check.All(t, "a cost that never fits", []any{never.Reason, never.Cost, never.Remaining, never.RetryAfter}, core.ReasonNeverFits, 5, 4, time.Duration(0))
	huge, _ := s.Limit("blocks").Client("user:huge")
	if d := huge.Denial; d.Reason != core.ReasonBlocked || d.RetryAfter <= 0 {
		t.Errorf("a block: %+v", d)
	}
}

// What has no key counts for rates only.
func TestRequestsWithoutAKey(t *testing.T) {
	t.Parallel()
	heavy := newTracker(Config{})
	rule := must.Get(core.PerHour(5).Rule())(t)
	l := newLimit(rule.Name, rule.ID(), 256, secret{})
	for _, key := range [][]byte{nil, []byte(strings.Repeat("a", maxKey+1))} {
		l.note(&decision{LimitResult: &core.LimitResult{Rule: &rule}, key: key, cost: 1}, 1, 17_000_000_000)
	}
	s := l.snapshot(17_000_000_010, 10, 10)
	check.Equal(t, "clients, and of the sample", [2]int{len(s.Clients), len(s.Use.Peaks)}, [2]int{})
	if heavy.Snapshot().Limits != nil {
		t.Error("a new tracker knows limits")
	}
}

func TestTooManyLimitsAreCountedAsSuch(t *testing.T) {
	t.Parallel()
	heavy := newTracker(Config{Limits: 2})
	l := newLimiter(t, heavy, core.PerHour(4).Named("a"), core.PerHour(4).Named("b"), core.PerHour(4).Named("c"))
	ask(l, "user:1", 3)
	s := heavy.Snapshot()
	check.Equal(t, "limits and uncounted", [2]int64{int64(len(s.Limits)), s.Uncounted}, [2]int64{2, 3})
}

// Windows slide, and rates have a step for each second.
// Limits that a policy file has no longer gave their places to none: after 128 new names nothing new was counted.
func TestLimitsThatAreGoneMakeRoom(t *testing.T) {
	t.Parallel()
	heavy := newTracker(Config{Limits: 2})
	name := func(i int) string { return fmt.Sprint("v", i) }
	stays := newLimiter(t, heavy, core.PerHour(5).Named("stays"))
	for i := range 5 {
		ask(stays, "user:1", 1)
		l := newLimiter(t, heavy, core.PerHour(5).Named(name(i)))
		ask(l, "user:1", 1)
		s := heavy.Snapshot()
		check.All(t, "limits, and whether the new one is counted", []any{len(s.Limits), s.Limit(name(i)) != nil, s.Limit("stays") != nil}, 2, true, true)
		if i == 0 {
			ask(newLimiter(t, heavy, core.PerHour(5).Named("too-many")), "user:1", 3)
		}
		check.Equal(t, "what is not counted, while all limits are in use", heavy.Snapshot().Uncounted, 3)
		heavy.clock.Add(2*int64(hour) - 1)
		ask(stays, "user:1", 1)
		heavy.clock.Add(1)
	}
}

func TestCountsOverTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		heavy := New(Config{})
		defer heavy.Close()
		l := newLimiter(t, heavy, core.PerSecond(10).Named("api"))
		time.Sleep(50 * time.Millisecond) // between ticks
		for range 30 {
			ask(l, "user:1", 12)
			time.Sleep(time.Second)
		}
		s := heavy.Snapshot().Limit("api")
		c, _ := s.Client("user:1")
		if c.Minute.Requests != 360 || c.Minute.Denied < 55 || c.Minute.Denied > 65 {
			t.Errorf("after 30 s: %+v", c.Minute)
		}
		r := s.Rates.Seconds
		if n := len(r.Allowed); n < 29 || n > 30 || len(r.Denied) != n || len(r.WouldDeny) != n || r.Step != time.Second {
			t.Fatalf("%d seconds of rates: %+v", n, r)
		}
		for i := range r.Allowed {
			if r.Allowed[i]+r.Denied[i] != 12 || i > 0 && r.Denied[i] != 2 {
				t.Errorf("second %d: %d allowed and %d denied, want 10 and 2", i, r.Allowed[i], r.Denied[i])
			}
		}
		if end := r.end(); time.Since(end) > 2*time.Second || time.Since(end) < 0 {
			t.Errorf("rates end %v ago", time.Since(end))
		}
		time.Sleep(45 * time.Second)
		c, _ = heavy.Snapshot().Limit("api").Client("user:1")
		if c.Minute.Requests < 90 || c.Minute.Requests > 270 || c.Hour.Requests != 360 {
			t.Errorf("45 s later: %+v in the last minute, %+v in the last hour; want some 180 and 360", c.Minute, c.Hour)
		}
		time.Sleep(3 * time.Minute)
		s = heavy.Snapshot().Limit("api")
		c, _ = s.Client("user:1")
		check.All(t, "3 minutes later", []any{c.Minute, c.Hour.Requests, c.Used, heavy.HighestDenials()}, Counts{}, 360, 1, 0)
		total := int64(0)
		for i := range s.Rates.Minutes.Allowed {
			total += s.Rates.Minutes.Allowed[i] + s.Rates.Minutes.Denied[i]
		}
		check.Equal(t, "seconds, and requests in all minutes", [2]int64{int64(len(s.Rates.Seconds.Allowed)), total}, [2]int64{seriesSteps, 360})
		time.Sleep(3 * time.Hour)
		check.Equal(t, "clients 3 hours later", len(heavy.Snapshot().Limit("api").Clients), 0)
	})
}

// A clock that jumps neither stops counting nor leaves counts in the future.
func TestTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	heavy := newTracker(Config{})
	l := newLimiter(t, heavy, core.PerHour(1000).Named("api"))
	start := heavy.clock.Load()
	for _, at := range []int64{start, start + 48*int64(hour), start, start - 5} {
		heavy.clock.Store(at)
		ask(l, "user:1", 5)
		heavy.settle(tick(at))
	}
	heavy.clock.Store(start + 20)
	heavy.settle(tick(start + 20))
	s := heavy.Snapshot().Limit("api")
	c, _ := s.Client("user:1")
	if c.Minute.Requests != 10 || c.Hour.Requests != 10 || c.Seen.After(time.Now().Add(time.Hour)) {
		t.Errorf("got %+v, want 10 requests since the clock was set back", c)
	}
	if n := len(s.Rates.Seconds.Allowed); n == 0 || n > 4 {
		t.Errorf("%d seconds of rates", n)
	}
	check.Equal(t, "clients", s.Use.Clients, 1)
}

// Close ends all goroutines: one that is left fails the bubble.
func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		heavy := New(Config{Exchange: &exchange.Memory{}, Interval: time.Second})
		l := newLimiter(t, heavy, core.PerHour(4).Named("api"))
		ask(l, "user:1", 3)
		heavy.Close()
		heavy.Close()
		ask(l, "user:1", 3)
		if s := heavy.Snapshot(); s.Limits != nil || heavy.HighestDenials() != 0 {
			t.Errorf("after Close: %+v", s)
		}
		if _, err := heavy.Collect(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		heavy := New(Config{Exchange: &exchange.Memory{}, Interval: time.Second})
		defer heavy.Close()
		l := newLimiter(t, heavy, core.PerHour(1<<30).Named("a"), core.PerHour(10).Shadow().Named("b"))
		requests := long.Rounds(500, 2000)
		var all sync.WaitGroup
		for g := range 8 {
			all.Go(func() {
				for i := range requests {
					ask(l, fmt.Sprint("user:", g, "-", i%500), 1)
					if i%100 == 0 {
						heavy.HighestDenials()
						if _, err := heavy.Collect(context.Background()); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		all.Wait()
		time.Sleep(2 * time.Second) // the second ends
		total := int64(0)
		for _, n := range heavy.Snapshot().Limit("a").Rates.Seconds.Allowed {
			total += n
		}
		check.Equal(t, "decisions in rates", total, int64(8*requests))
	})
}

func TestBadConfigsPanic(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]Config{
		"Instance": {Instance: "a b"},
		"Interval": {Interval: time.Millisecond},
		"Clients":  {Clients: 1001},
		"Capacity": {Capacity: 1000},
		"Limits":   {Limits: -1},
	} {
		func() {
			defer func() {
				if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), "weblimit: top.Config: "+name) {
					t.Errorf("%s: the panic is %v", name, p)
				}
			}()
			newTracker(config)
		}()
	}
	if name := newInstance(); !isName(name) {
		t.Errorf("the default instance is %q", name)
	}
}

// Two instances see what both have counted.
func TestInstancesSeeEachOther(t *testing.T) {
	t.Parallel()
	shared := &exchange.Memory{}
	var trackers []*Tracker
	for i := range 3 {
		heavy := newTracker(Config{Exchange: shared, Instance: fmt.Sprint("node-", i)})
		must.OK(t, heavy.agree(t.Context()))
		l := newLimiter(t, heavy, core.PerHour(10).Named("api"))
		ask(l, "user:all", 15)
		ask(l, fmt.Sprint("user:", i), 5)
		must.OK(t, heavy.publish(t.Context()))
		trackers = append(trackers, heavy)
	}
	must.OK(t, shared.Publish(t.Context(), "broken", []byte("no snapshot"), time.Hour))
	s, err := trackers[1].Collect(t.Context())
	check.Fails(t, "the error of the snapshot that is none", err, "version")
	check.All(t, "instances, and the last", []any{len(s.Instances), s.Instances[len(s.Instances)-1].Name}, 3, "node-2")
	l := s.Limit("api")
	all, _ := l.Client("user:all")
	check.All(t, "the client of all", []any{all.Minute, all.Used, all.Denial.Reason}, Counts{Requests: 45, Denied: 15}, 1, core.ReasonLimitExceeded)
	one, _ := l.Client("user:2")
	check.Equal(t, "requests of the client of one", one.Minute.Requests, 5)
	check.All(t, "clients, and the use of each over all instances", []any{l.Use.Clients, l.Use.Peaks}, 4, "[5 5 5 45]")
	shared.SetDown(errors.New("down"))
	if s, err := trackers[0].Collect(t.Context()); err == nil || len(s.Instances) != 3 {
		t.Errorf("%v, %d instances; want an error and what can be read", err, len(s.Instances))
	}
}

func BenchmarkDecided(b *testing.B) {
	heavy := New(Config{})
	defer heavy.Close()
	for _, observer := range []struct {
		name string
		core.Observer
	}{{"none", nil}, {"one that does nothing", core.NopObserver{}}, {"top", heavy}} {
		l := newLimiter(b, observer.Observer, core.PerHour(1<<30).Named("api"))
		keys := make([]string, 1000)
		for i := range keys {
			keys[i] = fmt.Sprintf("ip:192.0.2.%d", i)
		}
		b.Run(observer.name, func(b *testing.B) {
			b.ReportAllocs()
			ctx, i := context.Background(), 0
			for b.Loop() {
				i++
				l.AllowKey(ctx, keys[i%len(keys)], 1)
			}
		})
		b.Run(observer.name+", one key for all", func(b *testing.B) {
			b.ReportAllocs()
			ctx := context.Background()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					l.AllowKey(ctx, keys[0], 1)
				}
			})
		})
	}
}

// What instances do every few seconds, and a page that somebody looks at.
func BenchmarkSnapshots(b *testing.B) {
	heavy := filled(b, 10, 250)
	b.Run("publish", func(b *testing.B) {
		for b.Loop() {
			b.ReportMetric(float64(len(heavy.snapshot(100, maxSampled).marshalWithin(maxPublished))), "bytes")
		}
	})
	data := heavy.snapshot(100, maxSampled).marshalWithin(maxPublished)
	shared := &exchange.Memory{}
	for i := range 100 {
		if err := shared.Publish(b.Context(), fmt.Sprint(i), data, time.Hour); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("collect from 100 instances", func(b *testing.B) {
		heavy.config.Exchange = shared
		for b.Loop() {
			if _, err := heavy.Collect(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("highest denials", func(b *testing.B) {
		for b.Loop() {
			heavy.HighestDenials()
		}
	})
}

// stuck is an exchange that does not answer.
type stuck struct {
	exchange.Memory
	mu                  sync.Mutex
	calls, atOnce, most int // Guarded by mu.
}

func (s *stuck) Agree(ctx context.Context, _ []byte) ([]byte, error) {
	s.mu.Lock()
	s.calls++
	s.atOnce++
	s.most = max(s.most, s.atOnce)
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.atOnce--
	s.mu.Unlock()
	return nil, ctx.Err()
}

// In an outage there is one call at a time, decisions go on, and Close does not wait for it.
func TestAnExchangeThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hanging := &stuck{}
		heavy := New(Config{Exchange: hanging, Interval: time.Second})
		l := newLimiter(t, heavy, core.PerHour(100).Named("api"))
		for range 30 {
			ask(l, "user:1", 1)
			time.Sleep(time.Second)
		}
		c, _ := heavy.Snapshot().Limit("api").Client("user:1")
		check.Equal(t, "requests counted", c.Hour.Requests, 30)
		began := time.Now()
		heavy.Close()
		check.Equal(t, "Close takes", time.Since(began), 0)
		if hanging.most != 1 || hanging.calls < 10 || hanging.calls > 31 {
			t.Errorf("%d calls in 30 s, %d at once", hanging.calls, hanging.most)
		}
	})
}
