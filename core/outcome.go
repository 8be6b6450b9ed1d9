package core

import (
	"context"
	"errors"
	"time"
)

// Outcome is how a request ended, as far as a limit may want to know.
//
// What the client did and what the server did are told apart by their cause, and
// what can't be told apart counts as the client's: a client must not be able to
// lower what it owes.
type Outcome struct {
	// Status is the status that the framework sent, or is about to send: also of
	// an error that the handler returned, and of a panic, which is a 500 unless
	// something was sent before. 0 if no framework is involved.
	Status int

	// Err is the error that the handler returned, where handlers do.
	Err error

	// Panicked says that the handler panicked.
	Panicked bool

	// Canceled says that the client broke the request off, or may have: the
	// request's context was canceled, the body could not be read or was not sent,
	// the response could not be written, the handler returned an error that wraps
	// context.Canceled or an *http.MaxBytesError, panicked with
	// http.ErrAbortHandler or after it had taken the connection over, or the
	// status is 499.
	//
	// Fiber reads bodies before the handler runs and sends the response after it,
	// and does not notice clients that hang up in between. With its
	// StreamRequestBody a request with a body whose status is 500 or above counts
	// as canceled, since Fiber does not tell whether the body could be read.
	Canceled bool

	// TimedOut says that a deadline of the server's struck: the deadline of the
	// request's context as the limiter saw it, or that of a time-out handler
	// around the limiter. A time-out inside of the limiter shows in the status
	// alone. A client that leaves before the deadline is Canceled; one that the
	// server waits for until then shows in Waited. Don't let clients choose the
	// deadline if time-outs give charges back.
	TimedOut bool

	// Waited is how long the handler was kept waiting by the client: for the
	// request's body, and for the response to be taken. 0 on Fiber.
	Waited time.Duration

	// Hijacked says that the handler took the connection over; the status is
	// then what was sent before, or 101.
	Hijacked bool

	// Duration is the time from the decision to the end, or from the request's turn
	// if it had to wait for that.
	Duration time.Duration
}

// A failure may be the client's if it kept the handler waiting until a time-out of
// the server's struck: for tooLong, or for most of a shorter time-out. Less than
// moments is what a network takes.
const (
	tooLong = time.Second
	moments = 100 * time.Millisecond
)

// statusClientClosed is what proxies note where a client closed its connection
// before the answer: nginx's 499.
const statusClientClosed = 499

// brokenOff reports whether what is known of the request says that its client broke
// it off. What a handler does with a connection that it has taken over depends on
// what the client sends there, a panic included.
func (o *Outcome) brokenOff() bool {
	return o.Canceled || o.Status == statusClientClosed || o.Hijacked && o.Panicked || errors.Is(o.Err, context.Canceled)
}

// clients reports whether a failure is, or may be, the client's doing.
func (o *Outcome) clients() bool {
	return o.Canceled || o.Waited >= tooLong || o.Waited >= moments && o.Waited >= o.Duration/2
}
