package core

import (
	"fmt"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/integer"
)

// DefaultMaxWaiting is how many requests of a limiter wait at a time unless told otherwise.
const DefaultMaxWaiting = 1024

// maxWait bounds how long a request may be held.
const maxWait = time.Hour

// LeakyBucket lets requests through at an even pace, one after the other: one that
// comes too early waits for its turn, and is denied at once if that would take
// longer than most. It is a token bucket of burst 1, or that of [Limit.Burst], whose
// requests wait; see [Limit.Wait].
func (l Limit) LeakyBucket(most time.Duration) Limit {
	l.numbers.Algorithm, l.wait = store.TokenBucket, most
	if !l.numbers.hasBurst {
		l.numbers.Burst, l.numbers.hasBurst = 1, true
	}
	return l
}

// Wait holds requests that come too early until it is their turn, at most for so
// long, and denies at once those that would have to wait longer. Handlers run
// later, and adapters and [Limiter.AllowKey] return later; [Decision.Delay] says by
// how much.
//
// A token bucket queues: the store gives each request its turn when it decides,
// first come, first served, over all processes, at the pace of the limit. A client
// that hangs up, or a context that ends, gives its place up, with [ReasonCanceled]:
// to the next request in this process that asks for the same, or within a second to
// all who come later. Limits of other algorithms ask again when there
// should be room, and whoever asks first then gets it: those of requests at the same
// time when this process gives a slot back, and for slots of others every 10 to 250
// milliseconds, or one every 25 of many that wait with the same key.
//
// A token bucket that queues can't have a part reserved by [Limit.Reserve]: those
// who queue for theirs would be in front of those for whom the rest is kept.
// Only a token bucket can have a [Limit.Penalty] as well. Nobody waits for the end
// of a block.
//
// Config.MaxWaiting bounds how many requests wait, and Config.MaxWaitingPerKey how
// many of one key. A waiting request holds a goroutine and its connection, so keep
// the wait short. At most one hour.
func (l Limit) Wait(most time.Duration) Limit {
	l.wait = most
	return l
}

// SlowDown delays requests more and more, instead of not at all and then denying
// them: from a level of the burst on, above 0 and below 1, by a delay that grows
// in proportion to what is used, up to most when nothing is left. The delay is the
// request's alone: others don't wait for it. Under [Limit.Reserve] level and delay
// are of the whole burst.
func (l Limit) SlowDown(level float64, most time.Duration) Limit {
	l.slow = slowDown{level, most}
	return l
}

// slowDown is from which level on requests are delayed, and by how much at most.
type slowDown struct {
	level float64
	most  time.Duration
}

func (s slowDown) validate() error {
	switch {
	case s == slowDown{}:
		return nil
	case !(s.level > 0 && s.level < 1): // NaN, too
		return fmt.Errorf("SlowDown begins at a level above 0 and below 1, got %v", s.level)
	case s.most <= 0 || s.most > maxWait:
		return fmt.Errorf("SlowDown delays by more than 0 and at most %v, got %v", maxWait, s.most)
	}
	return nil
}

// delay returns the delay of a request that was charged.
func (s slowDown) delay(r *LimitResult) time.Duration {
	if s.most == 0 || !r.Charged {
		return 0
	}
	whole := r.Rule.Whole
	from := min(threshold(s.level, whole), whole-1)
	over, room := r.used()-from, whole-from
	if over <= 0 {
		return 0
	}
	return time.Duration(integer.CeilMulDiv(over, int64(s.most), room))
}

// Delay returns how long after the charge it is the request's turn, under a limit
// that lets requests wait: 0 if it was its turn at once.
func (r *LimitResult) Delay() time.Duration {
	if r.Rule.Wait == 0 || !r.Charged {
		return 0
	}
	return max(r.ResetAfter-r.Rule.DrainTime(), 0)
}

// Delay returns how long the request waited for its turn, or 0.
func (d *Decision) Delay() time.Duration {
	if d.held == nil {
		return 0
	}
	return d.held.delayed
}
