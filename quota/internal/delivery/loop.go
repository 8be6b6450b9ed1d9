package delivery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

const (
	// settleTime is how long an attempt's end may take to be written. It is part of each lease.
	settleTime = 30 * time.Second

	// reportEvery bounds how often failures of a receiver, or of the ledger, are reported.
	reportEvery = time.Minute

	// MaxRetryAfter bounds how long a receiver can ask to be left alone.
	MaxRetryAfter = 24 * time.Hour
)

// client is what a loop does for one kind of receiver: a [Courier] for a channel, a [Sender] for an export.
type client interface {
	base() *loop

	// open makes the receiver known to the ledger.
	open(ctx context.Context) error

	// Work does what is due. It begins nothing after polling is done; what it has begun goes on until sending is done.
	Work(polling, sending context.Context)

	// count returns how much waits for the receiver, up to mostPending.
	count(ctx context.Context) (int64, error)
}

// loop serves one receiver from this process. Its queue is the ledger's, since it outlives the process and all processes take
// from it, so that no batcher of calls in memory would do.
type loop struct {
	desk       *Desk
	client     client
	what, name string // "channel" or "export", and which
	failing    store.EventKind
	every      time.Duration // how often the ledger is asked, more or less a half
	opened     bool          // the ledger knows the receiver

	working sync.WaitGroup     // attempts on their way
	cancel  context.CancelFunc // ends them
	ended   chan struct{}      // closed when the last one has ended

	accepted, pending atomic.Int64 // for metrics: from this process; in the ledger

	mu       sync.Mutex
	failures int64     // since reported. Guarded by mu.
	reported time.Time // Guarded by mu.
}

func (l *loop) base() *loop { return l }

// run works until polling is done. What is on its way then goes on until sending is done.
func (l *loop) run(polling, sending context.Context) {
	defer close(l.ended)
	defer l.working.Wait()
	for {
		select {
		case <-polling.Done():
			return
		case <-time.After(Around(l.every)): // so that processes don't ask at the same time
		}
		if l.open(polling) {
			l.client.Work(polling, sending)
		}
	}
}

// open makes the receiver known, if the ledger did not answer when the book was opened. If it does not answer now either, it is
// asked again, as by all others.
func (l *loop) open(ctx context.Context) bool {
	if !l.opened {
		ctx, cancel := context.WithTimeout(ctx, l.desk.Timeout)
		defer cancel()
		l.opened = l.client.open(ctx) == nil
	}
	return l.opened
}

// failed counts failures and reports them, at most once in reportEvery.
func (l *loop) failed(n int64, err error) {
	l.mu.Lock()
	l.failures += n
	report := time.Since(l.reported) >= reportEvery
	if n = l.failures; report {
		l.reported, l.failures = time.Now(), 0
	}
	l.mu.Unlock()
	if report {
		l.report(l.failing, n, err)
	}
}

// recovered has the next failure reported at once.
func (l *loop) recovered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reported = time.Time{}
}

func (l *loop) report(kind store.EventKind, n int64, err error) {
	l.desk.Report(store.Event{Kind: kind, Node: l.name, Count: n, Err: err})
}

// Refusal is an error of a receiver that says how to go on. All others are temporary.
type Refusal struct {
	Err        error
	Permanent  bool // it will not be accepted later either
	RetryAfter time.Duration
}

// Error returns the text of Err.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns Err.
func (r *Refusal) Unwrap() error { return r.Err }

// isPermanent reports whether a receiver refuses for good.
func isPermanent(err error) bool {
	var r *Refusal
	return errors.As(err, &r) && r.Permanent
}

// pauseAfter returns the pause after the nth failure in a row: it doubles with each, from first to most, and varies by half of
// it. A receiver that says how long to wait is not asked sooner.
func pauseAfter(n int, first, most time.Duration, err error) time.Duration {
	pause := first
	for i := 1; i < n && pause < most; i++ {
		pause *= 2
	}
	pause = Around(min(pause, most))
	var r *Refusal
	if errors.As(err, &r) {
		pause = max(pause, min(r.RetryAfter, MaxRetryAfter))
	}
	return pause
}

// Around returns a time that is half as long, up to half as long again, or between: processes
// that begin together don't go on together.
func Around(d time.Duration) time.Duration {
	return d/2 + rand.N(d) //nolint:gosec // nobody gains by guessing it
}

// guarded calls a function of the application, which may panic.
func guarded(name string, f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s panicked: %v", name, r)
		}
	}()
	return f()
}
