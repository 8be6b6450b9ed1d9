package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/testclock"
)

// run is one client under one limit: a memory store whose clock the figure moves.
type run struct {
	rule   *core.Rule
	store  *core.Memory
	now    int64 // microseconds since the epoch
	events []event

	see  func(*run) // called before and after each change, and at each step; or nil
	step int64
}

// event is one request.
type event struct {
	at       int64 // when it came, microseconds since the epoch
	admitted bool
	start    int64       // when its turn came, if it was admitted: later than at in a queue
	end      int64       // when its slot becomes free, 0 if it has none
	slot     core.Result // what took the slot
}

func newRun(limit core.Limit, from time.Time) *run {
	rule, err := limit.Named("limit").Rule()
	if err != nil {
		panic(err) // the limits of figures are constants
	}
	r := &run{rule: &rule, store: core.NewMemory(), now: from.UnixMicro()}
	testclock.Set(r.store, func() int64 { return r.now })
	return r
}

func (r *run) ask(call func(context.Context, []core.Check, []core.Result) error, result core.Result) core.Result {
	results := []core.Result{result}
	if err := call(context.Background(), []core.Check{{Key: []byte("client"), Rule: r.rule, Cost: 1}}, results); err != nil {
		panic(fmt.Sprint("a store in memory failed: ", err))
	}
	return results[0]
}

func (r *run) look() {
	if r.see != nil {
		r.see(r)
	}
}

// advance moves the clock on, and frees the slots of requests that end meanwhile.
func (r *run) advance(to int64) {
	for r.now < to {
		next := to
		if r.step > 0 {
			next = min(next, r.now-r.now%r.step+r.step)
		}
		for _, e := range r.events {
			if e.end > r.now {
				next = min(next, e.end)
			}
		}
		r.now = next
		r.look()
		for _, e := range r.events {
			if e.end == r.now {
				r.ask(r.store.Refund, e.slot)
				r.look()
			}
		}
	}
}

// take sends a request. Under a concurrency limit it runs for a time.
func (r *run) take(runs time.Duration) core.Result {
	r.look()
	result := r.ask(r.store.Take, core.Result{})
	e := event{at: r.now, admitted: result.Allowed, start: r.now}
	if r.rule.Wait > 0 && result.Allowed {
		e.start += result.Turn.Microseconds()
	}
	if r.rule.Algorithm == store.Concurrency && result.Allowed {
		e.end, e.slot = r.now+runs.Microseconds(), result
	}
	r.events = append(r.events, e)
	r.look()
	return result
}

// steady sends n requests at the same distance.
func (r *run) steady(from time.Time, every, runs time.Duration, n int) {
	for i := range n {
		r.advance(from.Add(time.Duration(i) * every).UnixMicro())
		r.take(runs)
	}
}

// attack takes all that there is from one instant on. Whenever it is denied, it comes back
// after exactly Retry-After; to a concurrency limit when its own requests have ended.
func (r *run) attack(from, to time.Time, runs time.Duration) {
	r.advance(from.UnixMicro())
	for r.now < to.UnixMicro() {
		result := r.take(runs)
		switch {
		case result.Allowed:
		case r.rule.Algorithm == store.Concurrency:
			r.advance(min(r.now+runs.Microseconds(), to.UnixMicro()))
		default:
			r.advance(min(r.now+result.RetryAfter.Microseconds(), to.UnixMicro()))
		}
	}
}

// admitted counts the requests that were admitted.
func (r *run) admitted() (n int) {
	for _, e := range r.events {
		if e.admitted {
			n++
		}
	}
	return n
}

// most returns the most that started within any window, and when the first such window began.
// A window holds its first instant and not its last.
func (r *run) most(window time.Duration) (n int, from int64) {
	var starts []int64
	for _, e := range r.events {
		if e.admitted {
			starts = append(starts, e.start)
		}
	}
	for i, start := range starts {
		end, _ := slices.BinarySearch(starts, start+window.Microseconds())
		if end-i > n {
			n, from = end-i, start
		}
	}
	return n, from
}

// left returns the units that a client has left. Those of a token bucket are computed from the
// time until it is full, to the fraction of a unit that headers leave out.
func (r *run) left() float64 {
	result := r.ask(r.store.Peek, core.Result{})
	if r.rule.Algorithm == store.TokenBucket {
		return float64(r.rule.Burst) - result.ResetAfter.Seconds()*float64(r.rule.Quota)/r.rule.Window.Seconds()
	}
	return float64(result.Remaining)
}

// running returns the slots that are taken.
func (r *run) running() float64 { return float64(r.rule.Quota) - r.left() }

// waiting returns how many requests wait for their turn.
func (r *run) waiting() (n float64) {
	for _, e := range r.events {
		if e.admitted && e.start > r.now {
			n++
		}
	}
	return n
}
