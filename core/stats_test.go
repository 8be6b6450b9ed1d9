package core_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
)

func TestStatsOfAStoreInMemory(t *testing.T) {
	t.Parallel()
	store := core.NewMemory()
	wrapped := struct{ core.Store }{store}
	l, other := limiterOn(t, wrapped, everyone(5).Named("a")), limiterOn(t, store, everyone(5).Named("b"))
	if stats := l.Stats(); stats != (core.Stats{}) {
		t.Errorf("before the first decision: %+v, want zeros", stats)
	}
	for i := range 3 {
		l.AllowKey(t.Context(), strconv.Itoa(i), 1)
	}
	for name, each := range map[string]*core.Limiter{"a": l, "b": other} {
		if stats := each.Stats(); stats != (core.Stats{Buckets: 3}) {
			t.Errorf("limiter %s: %+v, want 3 buckets", name, stats)
		}
	}
	if l.Store() != core.Store(wrapped) || l.Store().Registry() != other.Store().Registry() {
		t.Error("the store of a limiter is not that of its configuration")
	}
}

func TestStatsInAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newFlaky(true)
		l := limiterOn(t, store, everyone(5))
		l.AllowKey(t.Context(), "k", 1)
		if stats := l.Stats(); stats != (core.Stats{Buckets: 1, Outage: true}) {
			t.Errorf("in an outage: %+v, want one bucket in this process", stats)
		}
		store.down.Store(false)
		time.Sleep(2 * time.Second)
		l.AllowKey(t.Context(), "k", 1)
		if l.Stats().Outage {
			t.Error("the outage is not over, though the store has answered")
		}
	})
}

func TestStatsCountRequestsThatWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := limiterOn(t, core.NewMemory(), forAll(core.PerSecond(1).LeakyBucket(10*time.Second)))
		go together(l, 4)
		for _, want := range []int64{3, 2, 1, 0} {
			synctest.Wait()
			if waiting := l.Stats().Waiting; waiting != want {
				t.Errorf("%d wait, want %d", waiting, want)
			}
			time.Sleep(time.Second)
		}
	})
}
