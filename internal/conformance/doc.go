// Package conformance checks the response fields that core writes by hand
// against an implementation of RFC 9651 that knows nothing of core. It is a
// module of its own, so that no user downloads that implementation.
package conformance
