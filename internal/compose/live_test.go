package compose_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

func perHour(name string, n int64) core.Limit {
	return core.PerHour(n).By(keyfuncs.Everyone()).Named(name)
}

// counting counts how often it is told of a limiter.
type counting struct {
	core.NopObserver
	attached, decided atomic.Int64
}

func (c *counting) Attached(*core.Limiter)                     { c.attached.Add(1) }
func (c *counting) Decided(context.Context, *core.Observation) { c.decided.Add(1) }

func TestLiveLimitersChangeTogether(t *testing.T) {
	t.Parallel()
	store, seen := core.NewMemory(), new(counting)
	fixed := core.Must(core.New(core.Config{Store: store, Limits: []core.Limit{perHour("fixed", 3)}}))
	var live compose.Live
	config := func(version string, limits ...core.Limit) core.Config {
		return core.Config{Store: store, Limits: limits, Version: version, Observe: seen}
	}
	var both [2]*core.Limiter
	for i := range both {
		l := must.Get(live.Limiter(config("1", perHour("a", 5))))(t)
		both[i] = l
	}
	ctx := context.Background()
	for _, l := range both {
		d := l.AllowKey(ctx, "k", 2)
		check.All(t, "the first version: allowed by", []any{d.Allowed, d.Version()}, true, 1)
	}
	for what, configs := range map[string][]core.Config{
		"one can never work":         {config("2", perHour("a", 9)), config("2", perHour("b", 0))},
		"they contradict each other": {config("2", perHour("a", 9)), config("2", perHour("a", 8))},
		"one is that of another":     {config("2", perHour("a", 9)), config("2", perHour("fixed", 8))},
		"one is missing":             {config("2", perHour("a", 9))},
		"another store":              {config("2", perHour("a", 9)), {Store: core.NewMemory(), Limits: []core.Limit{perHour("a", 9)}}},
		"no store":                   {config("2", perHour("a", 9)), {Limits: []core.Limit{perHour("a", 9)}}},
	} {
		if err := live.Replace(configs...); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	d := both[0].AllowKey(ctx, "k", 2)
	check.All(t, "after a refused change: allowed by", []any{d.Allowed, d.Version()}, false, 1)
	must.OK(t, live.Replace(config("2", perHour("b", 9)), config("2", perHour("a", 8), perHour("fixed", 3))))
	d = both[0].AllowKey(ctx, "k", 9)
	check.All(t, "the second version: allowed by", []any{d.Allowed, d.Version()}, true, 2)
	if d := both[1].AllowKey(ctx, "k", 3); !d.Allowed {
		t.Errorf("4 of 8 are used: %v", d)
	}
	if d := fixed.AllowKey(ctx, "k", 1); d.Allowed {
		t.Errorf("it shares its quota with the fixed limiter: %v", d)
	}
	var names []string
	for _, d := range store.Registry().Declarations() {
		names = append(names, d.Rule.Name)
	}
	check.Equal(t, "declared", strings.Join(names, " "), "a b fixed")
	check.Equal(t, "limiters that the observer was told of", seen.attached.Load(), 2)
}

// A limiter never decides by a part of a configuration, and forgets former ones. Not parallel:
// it measures the heap.
func TestReloadUnderLoad(t *testing.T) {
	store := core.NewMemory()
	var live compose.Live
	config := func(n int64) core.Config {
		return core.Config{Store: store, Version: fmt.Sprint(n), Limits: []core.Limit{
			perHour("a", 1e9+n).Wait(time.Millisecond), perHour("b", 1e9+n), core.Per(1e9+n, time.Hour).FixedWindow().By(keyfuncs.Everyone()).Named(fmt.Sprint("c", n)),
		}}
	}
	l := must.Get(live.Limiter(config(0)))(t)
	stop := make(chan struct{})
	var requests sync.WaitGroup
	var decided atomic.Int64
	for range 4 {
		requests.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				d := l.Allow(keyfuncs.Values{})
				decided.Add(1)
				runtime.Gosched() // where there is one processor, the others wait for it
				if !d.Allowed || len(d.Results()) != 3 {
					t.Errorf("lost: %v", d)
					return
				}
				for _, r := range d.Results() {
					if fmt.Sprint(r.Rule.Quota-1e9) != d.Version() {
						t.Errorf("version %s has decided by %d of another", d.Version(), r.Rule.Quota)
						return
					}
				}
			}
		})
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var before uint64
	const versions = 2000
	for n := int64(1); n <= versions; n++ {
		must.OK(t, live.Replace(config(n)))
		if n == versions/10 {
			before = heap()
		}
		for before := decided.Load(); n%20 == 0 && decided.Load() == before && !t.Failed(); {
			runtime.Gosched() // requests are decided by all of them
		}
	}
	close(stop)
	requests.Wait()
	if after := heap(); after > before+4<<20 {
		t.Errorf("the heap has grown from %d to %d bytes", before, after)
	}
	check.Equal(t, "limits declared", len(store.Registry().Declarations()), 3)
	t.Logf("%d decisions under %d versions", decided.Load(), versions)
}

// BenchmarkLive compares a limiter with one that can change.
func BenchmarkLive(b *testing.B) {
	config := core.Config{Store: core.NewMemory(), Limits: []core.Limit{core.PerSecond(1e9).By(keyfuncs.Everyone())}}
	live, err := new(compose.Live).Limiter(core.Config{Store: core.NewMemory(), Limits: config.Limits})
	if err != nil {
		b.Fatal(err)
	}
	for _, of := range []struct {
		name    string
		limiter *core.Limiter
	}{{"fixed", core.Must(core.New(config))}, {"live", live}} {
		b.Run(of.name, func(b *testing.B) {
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				of.limiter.AllowKey(ctx, "k", 1)
			}
		})
	}
}

// Requests wait for minutes, and the limit is raised for their sake: others passed nobody who waited by the old numbers, and
// were denied without asking the store, until the last of those had gone.
func TestARaisedLimitLetsRequestsPassThoseThatWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := core.NewMemory()
		config := func(limit core.Limit) core.Config {
			return core.Config{Store: store, MaxWaitingPerKey: 2, Limits: []core.Limit{limit.By(keyfuncs.Everyone()).Named("queue")}}
		}
		var live compose.Live
		l := must.Get(live.Limiter(config(core.PerMinute(1).LeakyBucket(time.Hour))))(t)
		must.Equal(t, "the first", l.AllowKey(t.Context(), "all", 1).Allowed, true)
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { check.Equal(t, "one that waits", l.AllowKey(context.Background(), "all", 1).Allowed, true) })
		}
		synctest.Wait()
		must.Equal(t, "one without a place", l.AllowKey(t.Context(), "all", 1).Allowed, false)
		must.OK(t, live.Replace(config(core.PerSecond(1000).LeakyBucket(time.Hour).Burst(1000))))
		began := time.Now()
		check.Equal(t, "one after the limit was raised", l.AllowKey(t.Context(), "all", 1).Allowed, true)
		check.Equal(t, "it waited", time.Since(began), 0)
		all.Wait()
	})
}
