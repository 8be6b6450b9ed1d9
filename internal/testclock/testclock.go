// Package testclock lets the tests of this module choose the time of a store in
// memory, which is not for applications to do.
package testclock

// Set has a store in memory, a *memstore.Store, decide at the times of a clock:
// microseconds since the epoch. Before the store is used. Package memstore fills it in.
var Set func(store any, now func() int64)
