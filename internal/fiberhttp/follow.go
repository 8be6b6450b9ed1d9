package fiberhttp

import (
	"context"
	"errors"
	"net/http"

	"github.com/weblimit/weblimit/core"
)

// Following finds out how a request with a reservation ends, and then settles its decision.
type Following struct {
	Decision *core.Decision

	// Context is the user context as the limiter saw it: middleware further in may replace it by
	// one that ends when that middleware returns.
	Context context.Context

	// Streamed says that the handler reads the body from the client.
	Streamed bool

	ended bool // the handler has returned
}

// End returns the outcome so far of a request whose handler has returned err.
func (f *Following) End(err error) core.Outcome {
	f.ended = true
	o := f.outcome()
	o.Err = err
	return o
}

// Unwind is to be deferred. If the handler has panicked it settles, and the panic goes on. After
// End it does nothing.
func (f *Following) Unwind() {
	if f.ended {
		return
	}
	value := recover()
	o := f.outcome()
	o.Panicked, o.Status = true, http.StatusInternalServerError
	o.Canceled = o.Canceled || value == http.ErrAbortHandler //nolint:errorlint // net/http compares it so
	defer f.Settle(o)
	if value != nil { // else the goroutine exits
		panic(value)
	}
}

// outcome says whether the user context has ended, and why.
func (f *Following) outcome() (o core.Outcome) {
	if ended := f.Context.Err(); ended != nil {
		o.TimedOut = errors.Is(ended, context.DeadlineExceeded)
		o.Canceled = !o.TimedOut
	}
	return o
}

// Settle settles. If the handler reads the body from the client, fasthttp does not say whether
// that failed, so a server error may be the client's doing.
func (f *Following) Settle(o core.Outcome) {
	o.Canceled = o.Canceled || f.Streamed && o.Status >= http.StatusInternalServerError
	f.Decision.Settle(o)
}

// OnClose is an io.Closer. fasthttp closes user values once the response is sent.
type OnClose func()

// Close calls f.
func (f OnClose) Close() error {
	f()
	return nil
}
