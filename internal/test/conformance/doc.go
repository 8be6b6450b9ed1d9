// Package conformance checks weblimit against independent software: the response fields
// that core writes by hand against an implementation of RFC 9651, and preflights with the
// usual CORS middleware of each framework. It is a module of its own, so that no user
// downloads that software.
package conformance
