// Package conformance checks weblimit against software that knows nothing of it:
// the response fields that core writes by hand against an implementation of RFC
// 9651, and preflights with the CORS middleware that users of each framework take.
// It is a module of its own, so that no user downloads any of that.
package conformance
