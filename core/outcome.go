package core

import (
	"context"
	"errors"
	"time"
)

// Outcome says how a request ended; see [Limit.RefundOn].
//
// Failures of the client and of the server are distinguished by their cause. In doubt a
// failure counts as the client's, so that no client can lower what it owes.
type Outcome struct {
	// Status is the status code that the framework has sent or is about to send. It
	// covers errors that the handler returned, and panics, which are a 500 unless
	// something was sent before.
	//
	// Code without a framework that settles a decision itself says 200 for a success, 400 for
	// a failure that is the client's, and 500 for one of its own. 0 says nothing: it is
	// neither a success nor a failure.
	Status int

	// Err is the error that the handler returned, in frameworks whose handlers do.
	Err error

	// Panicked is true if the handler panicked.
	Panicked bool

	// Canceled is true if the client broke the request off, or may have. It is set if the
	// request's context was canceled, the body was not sent or could not be read, the
	// response could not be written, or the status is 499. It is also set if the
	// handler returned an error that wraps context.Canceled or an
	// *http.MaxBytesError, or panicked with http.ErrAbortHandler or after it had
	// taken the connection over.
	//
	// Fiber reads bodies before the handler runs and sends the response after it. It
	// does not notice clients that hang up in between. With its StreamRequestBody, a
	// request with a body and a status of 500 or above counts as canceled, since Fiber
	// does not say whether the body could be read.
	Canceled bool

	// TimedOut is true if a deadline of the server passed: the deadline of the request's
	// context as the limiter saw it, or that of a time-out handler around the limiter. A
	// time-out handler inside of the limiter shows in the status alone. A client that
	// leaves before the deadline is Canceled; one that the server waits for until then
	// shows in Waited. If time-outs are refunded, don't let clients choose the deadline.
	TimedOut bool

	// Waited is how long the handler waited for the client: for the request's body, and
	// for the client to read the response. 0 on Fiber.
	Waited time.Duration

	// Hijacked is true if the handler took the connection over. Status is then what was
	// sent before, or 101.
	Hijacked bool

	// Duration is the time from the decision to the end of the request. If the request
	// waited for its turn, it starts with the turn.
	Duration time.Duration
}

// A failure may be the client's if the client kept the handler waiting until a time-out
// of the server: for tooLong, or for at least half of the request if that is networkDelay
// or more. Less than networkDelay is normal for a network.
const (
	tooLong      = time.Second
	networkDelay = 100 * time.Millisecond
)

// statusClientClosed is the status that proxies log when a client closed its connection
// before the response: nginx's 499.
const statusClientClosed = 499

// brokenOff reports whether the client broke the request off. On a connection that the
// handler took over, a panic may depend on what the client sent, so it counts as the
// client's.
func (o *Outcome) brokenOff() bool {
	return o.Canceled || o.Status == statusClientClosed || o.Hijacked && o.Panicked || errors.Is(o.Err, context.Canceled)
}

// clientsFault reports whether a failure is, or may be, the client's.
func (o *Outcome) clientsFault() bool {
	return o.Canceled || o.Waited >= tooLong || o.Waited >= networkDelay && o.Waited >= o.Duration/2
}
