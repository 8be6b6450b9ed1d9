package storetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// switched is a wrapper as users write one. Its Take fails while out is set.
type switched struct {
	core.Store
	out *atomic.Bool
}

func (s *switched) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	if s.out.Load() {
		return &store.Error{Class: store.ClassConnection, Err: errors.New("switched off")}
	}
	return s.Store.Take(ctx, checks, results)
}

// runWrapped checks that a wrapper loses nothing of the store: limiters that share a
// limit grant it once in an outage, event functions are called, and blocks can be
// listed, set and lifted.
func runWrapped(t *testing.T, newStore Factory) {
	t.Run("a wrapped store", func(t *testing.T) {
		t.Parallel()
		t.Run("limiters share a limit through an outage", func(t *testing.T) {
			t.Parallel()
			inner, out := newStore(t, NewClock()), new(atomic.Bool)
			var mu sync.Mutex
			var heard []store.EventKind
			inner.Registry().OnEvent(func(e core.Event) {
				mu.Lock()
				defer mu.Unlock()
				heard = append(heard, e.Kind)
			})
			out.Store(true)
			limit := core.PerHour(2).By(keyfuncs.Everyone()).Named("shared")
			allowed := 0
			for range 3 {
				// Each limiter has two wrappers of its own around the one store.
				l := wrappedLimiter(t, struct{ core.Store }{&switched{inner, out}}, limit)
				for range 2 {
					if d := l.AllowKey(t.Context(), "k", 1); d.Allowed {
						allowed++
					}
				}
			}
			if allowed != 2 {
				t.Errorf("three limiters let %d requests through, want the 2 of their limit", allowed)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(heard) < 2 || heard[0] != store.EventOutageBegan || heard[1] != store.EventStoreError {
				t.Errorf("events %v, want the start of an outage, then its error", heard)
			}
		})
		t.Run("two limits of one name are an error", func(t *testing.T) {
			t.Parallel()
			inner := newStore(t, NewClock())
			wrappedLimiter(t, inner, core.PerHour(2).By(keyfuncs.Everyone()).Named("shared"))
			_, err := core.New(core.Config{Store: struct{ core.Store }{inner}, Limits: []core.Limit{core.PerHour(3).By(keyfuncs.Everyone()).Named("shared")}})
			if err == nil {
				t.Error("a wrapper takes a different limit of a name that is taken")
			}
		})
		t.Run("blocks", func(t *testing.T) {
			t.Parallel()
			login := core.PerHour(5).By(keyfuncs.Everyone()).Named("login").Penalty(core.Block{After: 3, Within: time.Hour, For: time.Hour})
			l := wrappedLimiter(t, struct{ core.Store }{newStore(t, NewClock())}, login)
			must.OK(t, l.Block(t.Context(), "login", "all", time.Hour))
			check.Equal(t, "a blocked key", l.AllowKey(t.Context(), "all", 1).Reason, core.ReasonBlocked)
			n := 0
			for b, err := range l.Blocks(t.Context()) {
				if n++; err != nil || b.Key != "all" {
					t.Errorf("listed: %+v, %v", b, err)
				}
			}
			check.Equal(t, "blocks listed", n, 1)
			must.OK(t, l.Unblock(t.Context(), "all"))
			if d := l.AllowKey(t.Context(), "all", 1); !d.Allowed {
				t.Errorf("after its block was lifted: %v", d.Reason)
			}
		})
	})
}

func wrappedLimiter(t *testing.T, s core.Store, limit core.Limit) *core.Limiter {
	t.Helper()
	l := must.Get(core.New(core.Config{Store: s, Limits: []core.Limit{limit}, Timeout: time.Minute}))(t) // no outage on a busy machine
	return l
}
