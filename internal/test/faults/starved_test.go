//go:build unix

package faults_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// starvedTimeout is the deadline of checks in a process that is starved, in the first attempt; see oneOfFive.
var starvedTimeout = long.Rounds(100*time.Millisecond, 300*time.Millisecond)

// starvedOrder says what the process of the tests below does.
type starvedOrder struct {
	Network, Addr, Prefix string
	Timeout               time.Duration
	Asking                int  // goroutines that ask
	Spinning              int  // goroutines that keep the processors busy
	Plain                 bool // its connections are go-redis's own, which look once
}

// starvedReport is what the process did until its input ended.
type starvedReport struct {
	Decided  int64            // by Redis
	Others   map[string]int64 // other decisions, by reason
	Events   []string         // of the store, beside errors
	Slowest  time.Duration
	Rounds   int64 // how often each goroutine that spins had a turn, all together
	Duration time.Duration
}

// starving is the process of the tests below.
var starving = child.NewRole("starving", func(t *testing.T, parent *child.Parent, order starvedOrder) {
	rdb := redis.NewClient(&redis.Options{Network: order.Network, Addr: order.Addr})
	s := redisstore.New(rdb, redisstore.Config{Prefix: order.Prefix})
	heard := listen(s)
	l := newLimiter(t, core.Config{
		Store: s, Timeout: order.Timeout,
		Limits: []core.Limit{atMost(1_000_000_000, "api").OnOutage(core.Deny)},
	})
	report := starvedReport{Others: map[string]int64{}}
	began := time.Now()
	var mu sync.Mutex
	var ended atomic.Bool
	var working sync.WaitGroup
	ask := func() {
		start := time.Now()
		d := l.AllowKey(context.Background(), "k", 1)
		took := time.Since(start)
		mu.Lock()
		defer mu.Unlock()
		report.Slowest = max(report.Slowest, took)
		if d.Reason == core.ReasonWithinLimit {
			report.Decided++
		} else {
			report.Others[d.Reason.String()]++
		}
	}
	ask()
	for range order.Asking {
		working.Go(func() {
			for !ended.Load() {
				ask()
			}
		})
	}
	for range order.Spinning {
		working.Go(func() {
			for n := int64(0); !ended.Load(); n++ {
				if n%1000 == 0 {
					atomic.AddInt64(&report.Rounds, 1)
				}
			}
		})
	}
	parent.Send("asking")
	parent.Wait()
	ended.Store(true)
	working.Wait()
	report.Duration = time.Since(began)
	for _, e := range heard.all() {
		report.Events = append(report.Events, fmt.Sprintf("%v %v %v", e.Kind, e.Class, e.Err))
	}
	parent.Send(report)
})

// starved is a process that asks.
type starved struct{ *child.Process }

// startStarved starts a process on a server, and returns once it asks.
func startStarved(t *testing.T, server *redistest.Server, order starvedOrder) starved {
	t.Helper()
	order.Network, order.Addr, order.Prefix = server.Network(), server.Addr(), redistest.Prefix(t)
	s := starved{starving.Start(t, order)}
	child.Receive[string](t, s.Process)
	return s
}

// stop stops the process for a time, as a scheduler does that has other work, and returns how long that was.
func (s starved) stop(t *testing.T, d time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	s.Stop(t)
	time.Sleep(d) // what the test is about
	s.Continue(t)
	return time.Since(began)
}

func (s starved) report(t *testing.T) starvedReport {
	t.Helper()
	s.Close()
	r := child.Receive[starvedReport](t, s.Process)
	s.Wait(t)
	return r
}

// oneOfFive fails unless one of five attempts finds no problem. Redis needs a processor as well: where
// others need the machine, too, a reply may come too late. But that does not happen each time, and each
// attempt has twice the deadline of the one before.
func oneOfFive(t *testing.T, attempt func(timeout time.Duration) (problem string)) {
	t.Helper()
	for n := 1; ; n++ {
		problem := attempt(starvedTimeout << (n - 1))
		if problem == "" {
			return
		}
		if n == 5 {
			t.Error(problem)
			return
		}
		t.Logf("attempt %d: %s", n, problem)
	}
}

// A process without a processor is not a Redis that does not answer: replies that came in time are
// read whenever the process goes on, so no outage begins and each decision is Redis's. One stop of five
// may be otherwise, or one decision in a hundred if many ask at a time. Without NewDialer it may be the round trips that
// were under way when it was stopped, and what they took along; these are too few to open the breaker.
func TestAStarvedProcessIsNoOutage(t *testing.T) {
	t.Parallel()
	stops := long.Rounds(2, 5)
	for name, tt := range map[string]struct {
		asking int
		plain  bool
		few    func(decided int64) int64
	}{
		"one request at a time":             {1, false, func(int64) int64 { return 1 }},
		"many at a time":                    {64, false, func(decided int64) int64 { return decided / 100 }},
		"many at a time, without NewDialer": {64, true, func(int64) int64 { return int64(stops) * 64 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			oneOfFive(t, func(timeout time.Duration) string {
				s := startStarved(t, server, starvedOrder{Timeout: timeout, Asking: tt.asking, Plain: tt.plain})
				stopped := 3 * timeout
				for range stops {
					time.Sleep(50 * time.Millisecond) // in which it asks
					s.stop(t, stopped)
				}
				time.Sleep(50 * time.Millisecond) // in which it asks
				r := s.report(t)
				figure(t, "decisions of Redis", r.Decided)
				figure(t, fmt.Sprintf("slowest decision, in a process that was stopped for %v", stopped), r.Slowest)
				if r.Slowest < stopped {
					return fmt.Sprintf("the slowest decision took %v: the process was not stopped while it asked", r.Slowest)
				}
				for _, e := range r.Events {
					if strings.HasPrefix(e, string(store.EventBreakerOpened)) {
						return e
					}
				}
				return outage(r, tt.few(r.Decided))
			})
		})
	}
}

// The same in a process that has far more to do than processors.
func TestABusyProcessIsNoOutage(t *testing.T) {
	t.Parallel()
	server, asking := redistest.Start(t), long.Rounds(64, 256)
	oneOfFive(t, func(timeout time.Duration) string {
		s := startStarved(t, server, starvedOrder{Timeout: timeout, Asking: asking, Spinning: asking / 2})
		time.Sleep(14 * timeout) // in which it asks
		r := s.report(t)
		figure(t, "decisions of Redis", r.Decided)
		figure(t, "slowest decision", r.Slowest)
		if r.Decided < int64(asking) {
			return fmt.Sprintf("%d decisions: not each goroutine had one", r.Decided)
		}
		return outage(r, r.Decided/100)
	})
}

// outage says what happened if more than a few decisions were not Redis's.
func outage(r starvedReport, few int64) string {
	others := int64(0)
	for _, n := range r.Others {
		others += n
	}
	if others > few {
		return fmt.Sprintf("%d decisions of Redis; others: %v; events: %v", r.Decided, r.Others, r.Events)
	}
	return ""
}

// A Redis that does not answer is noticed by a process that is starved as well, in the time that it
// was starved and twice the deadline, and lets nothing through.
func TestAStarvedProcessNoticesAnOutage(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	oneOfFive(t, func(timeout time.Duration) string {
		s := startStarved(t, server, starvedOrder{Timeout: timeout, Asking: 16})
		time.Sleep(50 * time.Millisecond) // in which it asks
		server.Freeze(t)
		stopped := s.stop(t, 3*timeout)
		time.Sleep(8 * timeout) // in which it notices
		r := s.report(t)
		server.Thaw(t)
		figure(t, fmt.Sprintf("slowest decision, of a process that was stopped for %v while Redis was frozen", rounded(stopped)), r.Slowest)
		most := stopped + 2*timeout + time.Second // a second for a busy machine
		switch {
		case r.Others[core.ReasonOutageDenied.String()] < 16 || len(r.Others) != 1:
			return fmt.Sprintf("decisions while Redis was frozen: %v", r.Others)
		case r.Slowest > most:
			return fmt.Sprintf("a decision took %v, want %v at most", r.Slowest, most)
		case len(r.Events) < 2:
			return fmt.Sprintf("events %v: no outage began, or no breaker opened", r.Events)
		}
		return ""
	})
}
