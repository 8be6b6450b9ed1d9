package core_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// blackboard is a server that several processes have stores on.
type blackboard struct {
	mu     sync.Mutex
	values map[string]string // Guarded by mu.
	err    error             // of each call. Guarded by mu.
}

func newBlackboard() *blackboard { return &blackboard{values: make(map[string]string)} }

// writer is a process whose limiter has decided something.
type writer struct {
	limiter *core.Limiter
	live    compose.Live
	config  core.Config
	ended   atomic.Bool
	calls   atomic.Int64
	most    atomic.Int64 // keys of one call
}

func (b *blackboard) process(t *testing.T, config core.Config, limits ...core.Limit) *writer {
	t.Helper()
	w, s := new(writer), newFlaky(false)
	s.Registry().SetServer(store.Server{Swap: func(ctx context.Context, keys, values []string, _ time.Duration) ([]string, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			panic("a call without a deadline")
		}
		if w.ended.Load() {
			return nil, &store.Error{Class: store.ClassClosed}
		}
		w.calls.Add(1)
		w.most.Store(max(w.most.Load(), int64(len(keys))))
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.err != nil {
			return nil, b.err
		}
		before := make([]string, len(keys))
		for i, key := range keys {
			before[i], b.values[key] = b.values[key], values[i]
		}
		return before, nil
	}})
	config.Store, config.Limits = s, limits
	w.config = config
	w.limiter = must.Get(w.live.Limiter(config))(t)
	w.limiter.Allow(&request{peer: "192.0.2.1"})
	return w
}

func (w *writer) end() {
	w.ended.Store(true)
	runtime.KeepAlive(w.limiter) // or nobody would be there to give advice
}

// rivalsProblem is the advice of a process with 100 per minute beside one with 20.
const rivalsProblem = `weblimit: limit default: other processes have a limit of this name with other numbers in the same store, so both count in the same buckets: here token bucket, quota 100, window 1m0s, there "token bucket, quota 20, window 1m0s"; give each application its own Prefix (pgstore: Schema), or the limits different names`

// Two services with one store and one prefix, whose limits have one name and different numbers, are told
// within minutes. Nothing is said where numbers have changed once, as in a rolling update, nor of limits
// that don't count in one bucket. Not parallel: see newAdvice.
func TestOtherProcessesWithOtherNumbersAreTold(t *testing.T) {
	perIP := func(n int64) core.Limit { return core.PerMinute(n).By(keyfuncs.ClientIP()) }
	for _, c := range []struct {
		name   string
		a, b   core.Limit
		starts time.Duration // the second, after the first
		ends   time.Duration // the first, after the second has begun
		told   bool
	}{
		{"two services for an hour", perIP(100), perIP(20), 0, time.Hour, true},
		{"a second service a day later", perIP(100), perIP(20), 24 * time.Hour, time.Hour, true},
		{"a rolling update of eleven minutes", perIP(100), perIP(20), time.Hour, 11 * time.Minute, false},
		{"the same numbers", perIP(100), perIP(100), 0, 3 * time.Hour, false},
		{"other names", perIP(100), perIP(20).Named("b"), 0, 3 * time.Hour, false},
		{"keys of other kinds", perIP(100), core.PerMinute(20).By(keyfuncs.Everyone()), 0, 3 * time.Hour, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 20 { // the times between comparisons are random
				synctest.Test(t, func(t *testing.T) {
					a, board := newAdvice(), newBlackboard()
					first := board.process(t, core.Config{Logger: a.logger}, c.a)
					time.Sleep(c.starts)
					config := core.Config{Logger: a.logger}
					if c.told { // by the first: it is one line per process, and here both are one
						config.Silence = []core.Advice{core.AdviceRivals}
					}
					second := board.process(t, config, c.b)
					time.Sleep(c.ends)
					first.end()
					time.Sleep(time.Hour)
					second.end()
					if c.told {
						a.want(t, core.AdviceRivals, rivalsProblem)
					} else {
						a.want(t, "", "")
					}
				})
			}
		})
	}
}

// A limit whose numbers change within a process, as with a policy file, is not a second one. Neither are
// those of a process that ends at once, which writes nothing.
func TestAProcessIsNoRivalOfItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, board := newAdvice(), newBlackboard()
		w := board.process(t, core.Config{Logger: a.logger}, core.PerMinute(100).By(keyfuncs.ClientIP()))
		time.Sleep(3 * time.Minute)
		check.Equal(t, "calls in three minutes", w.calls.Load(), 0)
		for n := range int64(20) {
			time.Sleep(5 * time.Minute)
			w.config.Limits = []core.Limit{core.PerMinute(100 + n).By(keyfuncs.ClientIP())}
			must.OK(t, w.live.Replace(w.config))
		}
		w.end()
		a.want(t, "", "")
	})
}

// What the store can't do is tried again later. What is asked at once, and what is shown of others, is
// bounded.
func TestComparisonsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, board := newAdvice(), newBlackboard()
		limits := make([]core.Limit, 210)
		for i := range limits {
			limits[i] = everyone(10).Named(fmt.Sprintf("limit%03d", i))
		}
		w := board.process(t, core.Config{Logger: a.logger}, limits...)
		board.set(func() { board.err = errors.New("no answer") })
		time.Sleep(time.Hour)
		if n := w.calls.Load(); n < 10 || n > 15 {
			t.Errorf("%d calls in an hour without an answer, want one in 4 to 6 minutes", n)
		}
		board.set(func() { board.err = nil })
		for range 30 { // somebody writes whatever it likes
			time.Sleep(time.Minute)
			board.set(func() {
				for key := range board.values {
					board.values[key] = strings.Repeat("x\n", 5000)
				}
			})
		}
		w.end()
		check.Equal(t, "most limits of one call", w.most.Load(), 100)
		a.mu.Lock()
		defer a.mu.Unlock()
		lines := strings.Split(strings.TrimSpace(a.out.String()), "\n")
		check.Equal(t, "lines", len(lines), 210)
		check.Equal(t, "the first has all that the other wrote", len(lines[0]) > 1200, false)
	})
}

func (b *blackboard) set(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}
