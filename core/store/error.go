//go:build moving

package store

import (
	"context"
	"errors"
	"strings"
)

// ErrorClass names why a store did not answer: in events, logs and metrics. The
// classes are few, and none holds anything of a request.
type ErrorClass string

// The classes of errors.
const (
	// The server can't be reached, or does not answer in time.
	ErrorTimeout    ErrorClass = "timeout"      // no answer before the deadline
	ErrorConnection ErrorClass = "connection"   // refused, reset, or cut before the answer was complete
	ErrorClosed     ErrorClass = "closed"       // the application has closed the client
	ErrorOpen       ErrorClass = "breaker open" // not asked, since it failed before; see EventBreakerOpened
	ErrorOverload   ErrorClass = "overload"     // not asked: too many checks wait already

	// The server answers, and can't decide now.
	ErrorReadOnly    ErrorClass = "READONLY"    // a replica, such as a master that failed over
	ErrorLoading     ErrorClass = "LOADING"     // it reads its data from disk
	ErrorMasterDown  ErrorClass = "MASTERDOWN"  // a replica that lost its master
	ErrorClusterDown ErrorClass = "CLUSTERDOWN" // the slot has no master now
	ErrorBusy        ErrorClass = "BUSY"        // a script runs for too long
	ErrorMemory      ErrorClass = "OOM"         // its memory is full
	ErrorDisk        ErrorClass = "MISCONF"     // it can't save, and refuses to write
	ErrorMoved       ErrorClass = "MOVED"       // the slot moves faster than it can be followed
	ErrorTryAgain    ErrorClass = "TRYAGAIN"    // the keys of one request are on two nodes while a slot moves

	// The server answers, and never will decide like this: somebody has to act.
	ErrorPermission  ErrorClass = "NOPERM"      // the user may not run a command, or not on these keys
	ErrorLogin       ErrorClass = "NOAUTH"      // no password, or a wrong one
	ErrorType        ErrorClass = "WRONGTYPE"   // a key holds what is not ours
	ErrorValue       ErrorClass = "VALUE"       // a key holds a value of an unknown version
	ErrorSlots       ErrorClass = "CROSSSLOT"   // a single-server client talks to a Cluster
	ErrorUnsupported ErrorClass = "unsupported" // the server lacks a command: too old, or not Redis

	ErrorUnknown ErrorClass = "unknown" // anything else
)

// StoreError is how a store says why it did not answer. A check that ended with
// one may have been charged or not, and is not sent again.
type StoreError struct {
	Class ErrorClass
	Node  string // the server's address; "" if it is not about one
	Err   error
}

// Error names the node, the class and the cause.
func (e *StoreError) Error() string {
	s := "weblimit: store"
	if e.Node != "" {
		s += " " + e.Node
	}
	if e.Err == nil {
		return s + ": " + string(e.Class)
	}
	cause := unprefixed(e.Err)
	if !strings.HasPrefix(cause, string(e.Class)) { // Redis's own words begin with it
		s += ": " + string(e.Class)
	}
	return s + ": " + cause
}

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// storeError returns err as a StoreError; stores of others may return any error.
func storeError(err error) *StoreError {
	var e *StoreError
	if errors.As(err, &e) {
		return e
	}
	class := ErrorUnknown
	if errors.Is(err, context.DeadlineExceeded) {
		class = ErrorTimeout
	}
	return &StoreError{Class: class, Err: err}
}
