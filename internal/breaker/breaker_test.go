package breaker

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
)

// What happens to a breaker, in words of the table of its doc.
var (
	refused = &store.Error{Class: store.ClassConnection, Err: errors.New("refused")}
	loading = &store.Error{Class: store.ClassLoading, Err: errors.New("loading")}
)

func fails(times int) func(*Breaker) {
	return func(b *Breaker) {
		for range times {
			b.Failed(refused)
		}
	}
}

func passes(d time.Duration) func(*Breaker) { return func(*Breaker) { time.Sleep(d) } }
func isTried(b *Breaker)                    { b.TryProbe(Forever) }
func isTriedFor100ms(b *Breaker)            { b.TryProbe(100 * time.Millisecond) }
func closes(b *Breaker)                     { b.Close() }

const longestPause = Pause + Jitter

// Each row is a way through the table of Breaker's doc. The clock is that of synctest.
func TestTransitions(t *testing.T) {
	t.Parallel()
	opens := fails(Failures)
	for _, tt := range []struct {
		name  string
		steps []func(*Breaker)
		open  bool
		turn  bool // a caller that asks gets the turn to probe
		taken bool // somebody had it for ever before
	}{
		{name: "new"},
		{name: "four failures", steps: []func(*Breaker){fails(Failures - 1)}},
		{name: "an answer between failures", steps: []func(*Breaker){fails(Failures - 1), (*Breaker).Answered, fails(Failures - 1)}},
		{name: "five failures", steps: []func(*Breaker){opens}, open: true},
		{name: "before a pause has passed", steps: []func(*Breaker){opens, passes(Pause - 1)}, open: true},
		{name: "after a pause", steps: []func(*Breaker){opens, passes(longestPause)}, open: true, turn: true},
		{name: "failures and answers of calls that were under way", steps: []func(*Breaker){opens, opens, (*Breaker).Answered}, open: true},
		{name: "closed", steps: []func(*Breaker){opens, closes}},
		{name: "closed, then four failures", steps: []func(*Breaker){opens, closes, fails(Failures - 1)}},
		{name: "closed, then five failures", steps: []func(*Breaker){opens, closes, passes(time.Hour), opens}, open: true},
		{name: "somebody probes", steps: []func(*Breaker){opens, passes(longestPause), isTried, passes(time.Hour)}, open: true, taken: true},
		{name: "a timer probes before the turn is due", steps: []func(*Breaker){opens, func(b *Breaker) { b.TakeTurn() }, passes(time.Hour)}, open: true, taken: true},
		{name: "a probe has failed", steps: []func(*Breaker){opens, passes(longestPause), isTried, (*Breaker).Again, passes(Pause - 1)}, open: true},
		{name: "a pause after a probe has failed", steps: []func(*Breaker){opens, passes(longestPause), isTried, (*Breaker).Again, passes(longestPause)}, open: true, turn: true},
		{name: "whoever probes for a time", steps: []func(*Breaker){opens, passes(longestPause), isTriedFor100ms, passes(100*time.Millisecond + Pause - 1)}, open: true},
		{name: "whoever probes for a time has gone away", steps: []func(*Breaker){opens, passes(longestPause), isTriedFor100ms, passes(100*time.Millisecond + longestPause)}, open: true, turn: true},
		{name: "a probe is under way while the breaker closes and opens again", steps: []func(*Breaker){opens, passes(longestPause), isTried, closes, opens, passes(time.Hour)}, open: true, taken: true},
		{name: "hours without a probe", steps: []func(*Breaker){opens, passes(24 * time.Hour)}, open: true, turn: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var b Breaker
				for _, step := range tt.steps {
					step(&b)
				}
				check.Equal(t, "open", b.IsOpen(), tt.open)
				check.Equal(t, "taken", b.IsTaken(), tt.taken)
				if b.IsOpen() { // or nobody asks
					check.Equal(t, "a turn for a caller", b.TryProbe(Forever), tt.turn)
					check.Equal(t, "another turn", b.TryProbe(Forever), false)
				}
			})
		})
	}
}

// How long it was open, and why, is said once.
func TestHowLongAndWhy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b Breaker
		check.Equal(t, "for how long before", b.Close(), 0)
		for i := range 2 * Failures {
			check.Equal(t, "opened", b.Failed(refused), i == Failures-1)
		}
		check.Equal(t, "cause", b.Cause(), refused)
		b.StaysOpen(loading)
		check.Equal(t, "cause after a probe", b.Cause(), loading)
		time.Sleep(time.Minute)
		check.Equal(t, "for how long", b.Close(), time.Minute)
		check.Equal(t, "for how long, asked again", b.Close(), 0)
		for range Failures {
			b.Failed(refused)
		}
		check.Equal(t, "for no time", b.Close(), 1) // 0 would say that it was closed
	})
}

// Of goroutines that do the same at the same time one alone opens it, probes and closes it.
func TestOneOfManyAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const many = 64
		var b Breaker
		for range 100 {
			var opened, probing, timers, closed atomic.Int64
			count := func(n *atomic.Int64, f func() bool) {
				var all sync.WaitGroup
				for range many {
					all.Go(func() {
						if f() {
							n.Add(1)
						}
					})
				}
				all.Wait()
			}
			count(&opened, func() bool { return b.Failed(refused) })
			if b.Cause() == nil {
				t.Fatal("it is open without a cause")
			}
			time.Sleep(longestPause)
			count(&probing, func() bool { return b.TryProbe(Forever) })
			count(&timers, b.TakeTurn)
			b.Again()
			count(&closed, func() bool { return b.Close() > 0 })
			if opened.Load() != 1 || probing.Load() != 1 || timers.Load() != 0 || closed.Load() != 1 {
				t.Fatalf("%d opened it, %d probe, %d more by a timer, %d closed it; want 1, 1, 0, 1", opened.Load(), probing.Load(), timers.Load(), closed.Load())
			}
		}
	})
}

// Pauses differ, or all processes would come back to a server at the same moment.
func TestPausesDiffer(t *testing.T) {
	t.Parallel()
	seen := map[time.Duration]bool{}
	for range 100 {
		pause := NextPause()
		if pause < Pause || pause >= longestPause {
			t.Fatalf("a pause of %v", pause)
		}
		seen[pause] = true
	}
	if len(seen) < 50 {
		t.Errorf("%d pauses of 100 differ", len(seen))
	}
}

func TestItAllocatesNothing(t *testing.T) {
	var b Breaker
	check.Equal(t, "allocations", testing.AllocsPerRun(100, func() {
		for range Failures {
			b.Failed(refused)
		}
		if b.IsOpen() && b.TryProbe(time.Second) {
			b.Again()
		}
		b.Answered()
		b.Close()
	}), 0)
}
