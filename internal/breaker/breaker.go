// Package breaker has the circuit breaker that core/redisstore, core/pgstore and service/client share: when it opens, who
// may probe, and when. Each of them decides what counts as a failure and what a probe asks. It is no part of core/store: a
// store of somebody else's needs no breaker, since limiters bound how long they wait for it.
package breaker

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

const (
	// Failures is how many failures in a row open a breaker. Callers count only what is the server's fault: a client that
	// hangs up must not keep others from it.
	Failures = 5

	// Pause is how long nobody probes after a breaker has opened or a probe has failed. Up to Jitter is added, which
	// differs by process, or all would come back to a server at the same moment.
	Pause  = 400 * time.Millisecond
	Jitter = 200 * time.Millisecond

	// Forever is how long a goroutine of its own takes the turn to probe: it always gives it back. A request takes it only
	// for as long as a probe lasts: its client may hang up, and then nobody else would probe.
	Forever = time.Duration(math.MaxInt64)
)

// A Breaker keeps callers from a server that does not answer. Its zero value is closed. It is safe for concurrent use.
//
//	before             what happens               afterwards
//	closed             the fifth failure in a row open, and the turn to probe is due after a pause
//	closed             an answer                  closed, and there were no failures
//	open               a failure, an answer       open
//	open               Close                      closed, and there were no failures
//	open, turn due     TryProbe                   open, turn taken by one caller
//	open, turn not due TakeTurn                   open, turn taken by one caller
//	open, turn taken   Again                      open, and the turn is due after a pause
//	open, turn taken   the time it is taken for   open, and the turn is due after a pause
//
// Whoever has the turn keeps it while the breaker closes and opens again, so that there is one probe at a time. A breaker
// stays open until somebody calls Close, however long that takes.
//
// While it is closed it costs a call one atomic read, and an answer another one. Those of libraries cost one or two mutexes,
// and let a request wait for the probe: see bench/breaker_test.go.
type Breaker struct {
	failures atomic.Int32                // in a row
	opened   atomic.Int64                // when, on the monotonic clock; 0 while closed
	turn     atomic.Int64                // when it is due, on the monotonic clock; taken while it is taken for ever
	cause    atomic.Pointer[store.Error] // why it is open; set before opened
}

// taken is the turn while somebody has it who gives it back.
const taken = math.MaxInt64

// origin is when now counts from.
var origin = time.Now()

// now returns the process's monotonic clock in nanoseconds. It is never 0, so that 0 can stand for no time.
func now() int64 { return int64(time.Since(origin)) + 1 }

// NextPause returns how long the next pause is.
func NextPause() time.Duration { return Pause + rand.N(Jitter) } //nolint:gosec // G404: spreads probes, hides nothing

// IsOpen reports whether the server is not to be asked.
func (b *Breaker) IsOpen() bool { return b.opened.Load() != 0 }

// Cause returns the failure that opened the breaker, or the latest one that [Breaker.StaysOpen] was given. It is not nil while
// the breaker is open.
func (b *Breaker) Cause() *store.Error { return b.cause.Load() }

// Answered notes an answer. It does not close an open breaker: that is the probe's, unless the caller says so by Close.
func (b *Breaker) Answered() {
	if b.failures.Load() != 0 { // a read is cheaper than a write that all processors see
		b.failures.Store(0)
	}
}

// Failed notes a failure. It reports whether that has opened the breaker, to one caller alone.
func (b *Breaker) Failed(cause *store.Error) (opened bool) {
	if b.IsOpen() || b.failures.Add(1) < Failures {
		return false
	}
	b.cause.Store(cause)
	if due := b.turn.Load(); due != taken {
		b.turn.CompareAndSwap(due, now()+int64(NextPause()))
	}
	return b.opened.CompareAndSwap(0, now())
}

// Close has the server asked again. It returns for how long the breaker was open, or 0 if it was not, so that one caller
// alone gets a time.
func (b *Breaker) Close() time.Duration {
	b.Answered()
	if !b.IsOpen() {
		return 0
	}
	opened := b.opened.Swap(0)
	if opened == 0 {
		return 0
	}
	return max(time.Duration(now()-opened), 1)
}

// StaysOpen notes why a probe has failed.
func (b *Breaker) StaysOpen(cause *store.Error) { b.cause.Store(cause) }

// TryProbe takes the turn if it is due, for at most a time and a pause: the caller then has to probe, and others who ask
// meanwhile get false. Only callers that find the breaker open may ask.
func (b *Breaker) TryProbe(atMost time.Duration) bool {
	due := b.turn.Load()
	if due == taken { // nearly always while checks are refused, and a clock costs more than this
		return false
	}
	at, until := now(), int64(taken)
	if at < due {
		return false
	}
	if atMost < Forever {
		until = at + int64(atMost+NextPause())
	}
	return b.turn.CompareAndSwap(due, until)
}

// TakeTurn takes the turn for ever though it is not due, unless somebody has it: for those who probe by a timer.
func (b *Breaker) TakeTurn() bool { return b.turn.Swap(taken) != taken }

// IsTaken reports whether somebody has the turn for ever.
func (b *Breaker) IsTaken() bool { return b.turn.Load() == taken }

// Again gives the turn back. It is due again after a pause. Callers that probe by a timer call it before Close: a breaker that
// opens again at once would otherwise find the turn taken, and start no timer.
func (b *Breaker) Again() { b.turn.Store(now() + int64(NextPause())) }
