package core

import "time"

// Outcome is how a request ended, as far as a limit may want to know.
type Outcome struct {
	// Status is the status that the framework sent, or is about to send: also of
	// an error that the handler returned, and of a panic, which is a 500 unless
	// something was sent before. 0 if no framework is involved.
	Status int

	// Err is the error that the handler returned, where handlers do.
	Err error

	// Panicked says that the handler panicked.
	Panicked bool

	// Canceled says that the request's context ended before the handler returned:
	// the client hung up, or a time-out struck. Fiber does not notice clients
	// that hang up.
	Canceled bool

	// Hijacked says that the handler took the connection over; the status is
	// then what was sent before, or 101.
	Hijacked bool

	// Duration is the time from the decision to the end, or from the request's turn
	// if it had to wait for that.
	Duration time.Duration
}

// RefundOn gives back what a request was charged if f says so of its outcome: for
// failures that should cost nothing, or for successes where only failures
// should count. Ready ones are [ServerErrors], [Failures], [Successes] and
// [Canceled]. Until the outcome is known the charge counts.
//
// What is given back is what still counts of that charge: units of a window that
// is over, or that a bucket has regained, are not given twice. It happens in the
// background after the response, and not at all if the process dies or the store
// does not answer then. f runs once per charged request, maybe on many at once.
// It must not block.
func (l Limit) RefundOn(f func(Outcome) bool) Limit {
	l.refundOn = f
	return l
}

// ServerErrors are responses of status 500 and above, panics included.
func ServerErrors(o Outcome) bool { return o.Status >= 500 || o.Panicked }

// Failures are responses of status 400 and above, and panics.
func Failures(o Outcome) bool { return o.Status >= 400 || o.Panicked }

// Successes are responses of a status below 400. A login form that refunds them
// counts failed attempts only.
func Successes(o Outcome) bool { return !Failures(o) }

// Canceled are requests whose client hung up, or that ran into a time-out.
func Canceled(o Outcome) bool { return o.Canceled }
