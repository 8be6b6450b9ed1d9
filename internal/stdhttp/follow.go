package stdhttp

import (
	"context"
	"errors"
	"net/http"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
)

// Following finds out how a request ends, and then settles its decision. It is made only for
// requests with a reservation.
type Following struct {
	decision *core.Decision
	context  context.Context // the request's as the limiter saw it
	outcome  core.Outcome    // as far as it is known
	ended    bool            // the handler has returned
	open     bool            // the handler's error is not rendered yet
	client   client
}

// Follow begins to follow a request. It reads the request's context now, since middleware further
// in may replace it by one that ends when that middleware returns.
func Follow(d *core.Decision, r *http.Request) *Following {
	f := &Following{decision: d, context: r.Context()}
	if adapter.ReadsOutcome(d) {
		f.client.watch(r)
	}
	return f
}

// Sent notes a status that was sent. The first final one counts.
func (f *Following) Sent(code int) {
	if f.outcome.Status != 0 || code < 200 && code != http.StatusSwitchingProtocols {
		return
	}
	f.outcome.Status = code
	if f.open {
		f.open = false
		f.decision.Settle(f.outcome)
	}
}

// Hijacked notes that the handler took the connection.
func (f *Following) Hijacked() {
	f.outcome.Hijacked = true
	f.Sent(http.StatusSwitchingProtocols)
}

// Ending describes a request whose handler has returned.
type Ending struct {
	// Err is the error that the handler returned.
	Err error

	// Status is what the framework will send if nothing was sent yet.
	Status int

	// Rendered says that Status is final. Otherwise middleware further out may still render Err
	// with another status, and End waits for that until the request ends.
	Rendered bool
}

// End settles after the handler has returned.
func (f *Following) End(e Ending) {
	f.ended = true
	o := &f.outcome
	o.Err = e.Err
	f.judge()
	switch {
	case o.Status != 0:
	case e.Rendered || !adapter.ReadsOutcome(f.decision):
		o.Status = e.Status
	default:
		f.open = true
		foreseen := *o
		foreseen.Status = e.Status
		context.AfterFunc(f.context, func() { f.decision.Settle(foreseen) })
		return
	}
	f.decision.Settle(*o)
}

// Unwind is to be deferred. If the handler has panicked it settles, and the panic goes on. After
// End it does nothing.
func (f *Following) Unwind() {
	if f.ended {
		return
	}
	value := recover()
	o := &f.outcome
	f.judge()
	o.Panicked = true
	o.Canceled = o.Canceled || value == http.ErrAbortHandler //nolint:errorlint // net/http compares it so
	if o.Status == 0 {
		o.Status = http.StatusInternalServerError
	}
	defer f.decision.Settle(*o)
	if value != nil { // else the goroutine exits
		panic(value)
	}
}

// judge finds out whether the client or a time-out ended the request.
func (f *Following) judge() {
	o := &f.outcome
	if ended := f.context.Err(); ended != nil {
		o.TimedOut = errors.Is(ended, context.DeadlineExceeded)
		o.Canceled = !o.TimedOut
	}
	if !adapter.ReadsOutcome(f.decision) {
		return
	}
	o.Canceled = o.Canceled || f.client.broke() || isTooLarge(o.Err)
	o.Waited = f.client.waited()
	if f.client.late.Load() { // and has its answer by the time-out handler
		o.TimedOut, o.Status = true, http.StatusServiceUnavailable
	}
}

// isTooLarge reports whether a handler failed for a body that http.MaxBytesReader cut.
func isTooLarge(err error) bool {
	if err == nil {
		return false
	}
	var tooLarge *http.MaxBytesError // escapes
	return errors.As(err, &tooLarge)
}
