package store

import (
	"context"
	"errors"
	"strings"
)

// Class is the reason why a store did not answer, for events, logs and metrics. There are
// few classes, and none contains data of a request.
type Class string

// The classes of errors. Those of one kind of server alone are declared by its store.
const (
	// The server can't be reached, or does not answer in time.
	ClassTimeout    Class = "timeout"      // no answer before the deadline
	ClassConnection Class = "connection"   // refused, reset, or cut before the answer was complete
	ClassClosed     Class = "closed"       // the application has closed the client
	ClassOpen       Class = "breaker open" // not asked, because it failed before; see EventBreakerOpened
	ClassOverload   Class = "overload"     // not asked, because too many checks are waiting already

	// The server answers, but can't decide at the moment.
	ClassReadOnly Class = "READONLY" // a replica, such as a former master after a failover
	ClassLoading  Class = "LOADING"  // it is reading its data from disk
	ClassBusy     Class = "BUSY"     // a script has been running for too long
	ClassMemory   Class = "OOM"      // its memory is full
	ClassDisk     Class = "MISCONF"  // it can't save to disk, and refuses writes

	// The server answers, but will never decide as it is set up: an operator has to act.
	ClassPermission  Class = "NOPERM"      // the user may not run a command, or not on these keys
	ClassLogin       Class = "NOAUTH"      // no password, or a wrong one
	ClassValue       Class = "VALUE"       // a key holds a value of an unknown version
	ClassUnsupported Class = "unsupported" // the server lacks a command: it is too old, or not Redis

	ClassUnknown Class = "unknown" // anything else
)

// Error is the error of a store that did not answer. The checks of the call may have been
// charged or not; they are not sent again, unless an [Undone] says which were not.
type Error struct {
	Class Class
	Node  string // the server's address; "" if the error is not about one server
	Err   error  // the cause; may be nil

	// Late says that the store answers, and only something that it needs to decide a calendar limit has not come in
	// time. It is no outage: even a limit that denies in one is then decided in this process.
	Late bool
}

// Error returns the node, the class and the cause.
func (e *Error) Error() string {
	s := "weblimit: store"
	if e.Node != "" {
		s += " " + e.Node
	}
	if e.Err == nil {
		return s + ": " + string(e.Class)
	}
	cause := Reason(e.Err)
	if !strings.HasPrefix(cause, string(e.Class)) { // Redis's own messages begin with it
		s += ": " + string(e.Class)
	}
	return s + ": " + cause
}

// Unwrap returns the cause, or nil.
func (e *Error) Unwrap() error { return e.Err }

// Undone is the error of a Charge, Refund or Renew that certainly has not changed some of the
// call's checks: the server was not asked for them, or refused. The caller may send these
// again, once. Nothing is known of the others. It wraps the [Error].
type Undone struct {
	Checks []int // their indexes in the call, in no order
	Err    error
}

// Error returns the text of Err.
func (e *Undone) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Undone) Unwrap() error { return e.Err }

// ErrorOf returns the [Error] that err is or wraps, for its class and node. Other people's stores may
// return any error: for those it returns one with err as its cause, of [ClassTimeout] if a deadline has
// passed, and otherwise of [ClassUnknown]. It returns nil for nil.
func ErrorOf(err error) *Error {
	if err == nil {
		return nil
	}
	return errorOf(err)
}

// errorOf is ErrorOf, and returns an Error for nil, too.
func errorOf(err error) *Error {
	var e *Error
	if errors.As(err, &e) && e.Class != "" {
		return e
	}
	class, node := ClassUnknown, ""
	if e != nil {
		node = e.Node
	}
	if errors.Is(err, context.DeadlineExceeded) {
		class = ClassTimeout
	}
	return &Error{Class: class, Node: node, Err: err}
}
