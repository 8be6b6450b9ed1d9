// Package conformance checks weblimit against independent software: the response fields
// that core writes by hand against an implementation of RFC 9651, and preflights with the
// usual CORS middleware of each framework.
package conformance
