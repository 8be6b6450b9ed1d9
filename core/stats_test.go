package core_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
)

func TestStatsOfAStoreInMemory(t *testing.T) {
	t.Parallel()
	store := core.NewMemory()
	wrapped := struct{ core.Store }{store}
	l, other := limiterOn(t, wrapped, everyone(5).Named("a")), limiterOn(t, store, everyone(5).Named("b"))
	check.Equal(t, "before the first decision", l.Stats(), core.Stats{})
	for i := range 3 {
		l.AllowKey(t.Context(), strconv.Itoa(i), 1)
	}
	for name, each := range map[string]*core.Limiter{"a": l, "b": other} {
		check.Equal(t, "limiter "+name, each.Stats(), core.Stats{Buckets: 3})
	}
	if l.Store() != core.Store(wrapped) || l.Store().Registry() != other.Store().Registry() {
		t.Error("the store of a limiter is not that of its configuration")
	}
}

func TestStatsInAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := newFlaky(true)
		l := limiterOn(t, store, everyone(5))
		l.AllowKey(t.Context(), "k", 1)
		check.Equal(t, "in an outage", l.Stats(), core.Stats{Buckets: 1, Outage: true})
		store.down.Store(false)
		time.Sleep(2 * time.Second)
		l.AllowKey(t.Context(), "k", 1)
		if l.Stats().Outage {
			t.Error("the outage is not over, though the store has answered")
		}
	})
}

func TestStatsCountRequestsThatWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := limiterOn(t, core.NewMemory(), forAll(core.PerSecond(1).LeakyBucket(10*time.Second)))
		go together(l, 4)
		for _, want := range []int64{3, 2, 1, 0} {
			synctest.Wait()
			check.Equal(t, "requests that wait", l.Stats().Waiting, want)
			time.Sleep(time.Second)
		}
	})
}
