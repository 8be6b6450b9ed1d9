package store

import (
	"context"
	"errors"
	"strings"
)

// Class names why a store did not answer: in events, logs and metrics. The
// classes are few, and none holds anything of a request.
type Class string

// The classes of errors.
const (
	// The server can't be reached, or does not answer in time.
	ClassTimeout    Class = "timeout"      // no answer before the deadline
	ClassConnection Class = "connection"   // refused, reset, or cut before the answer was complete
	ClassClosed     Class = "closed"       // the application has closed the client
	ClassOpen       Class = "breaker open" // not asked, since it failed before; see EventBreakerOpened
	ClassOverload   Class = "overload"     // not asked: too many checks wait already

	// The server answers, and can't decide now.
	ClassReadOnly    Class = "READONLY"    // a replica, such as a master that failed over
	ClassLoading     Class = "LOADING"     // it reads its data from disk
	ClassMasterDown  Class = "MASTERDOWN"  // a replica that lost its master
	ClassClusterDown Class = "CLUSTERDOWN" // the slot has no master now
	ClassBusy        Class = "BUSY"        // a script runs for too long
	ClassMemory      Class = "OOM"         // its memory is full
	ClassDisk        Class = "MISCONF"     // it can't save, and refuses to write
	ClassMoved       Class = "MOVED"       // the slot moves faster than it can be followed
	ClassTryAgain    Class = "TRYAGAIN"    // the keys of one request are on two nodes while a slot moves

	// The server answers, and never will decide like this: somebody has to act.
	ClassPermission  Class = "NOPERM"      // the user may not run a command, or not on these keys
	ClassLogin       Class = "NOAUTH"      // no password, or a wrong one
	ClassType        Class = "WRONGTYPE"   // a key holds what is not ours
	ClassValue       Class = "VALUE"       // a key holds a value of an unknown version
	ClassSlots       Class = "CROSSSLOT"   // a single-server client talks to a Cluster
	ClassUnsupported Class = "unsupported" // the server lacks a command: too old, or not Redis

	ClassUnknown Class = "unknown" // anything else
)

// Error is how a store says why it did not answer. A check that ended with
// one may have been charged or not, and is not sent again.
type Error struct {
	Class Class
	Node  string // the server's address; "" if it is not about one
	Err   error
}

// Error names the node, the class and the cause.
func (e *Error) Error() string {
	s := "weblimit: store"
	if e.Node != "" {
		s += " " + e.Node
	}
	if e.Err == nil {
		return s + ": " + string(e.Class)
	}
	cause := strings.TrimPrefix(e.Err.Error(), "weblimit: ")
	if !strings.HasPrefix(cause, string(e.Class)) { // Redis's own words begin with it
		s += ": " + string(e.Class)
	}
	return s + ": " + cause
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// errorOf returns err as an Error; stores of others may return any error.
func errorOf(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	class := ClassUnknown
	if errors.Is(err, context.DeadlineExceeded) {
		class = ClassTimeout
	}
	return &Error{Class: class, Err: err}
}
