// Package testclock chooses the time of a store in memory, for the tests of this module
// and for package weblimittest. Applications do not choose it.
package testclock

// Set has a store in memory, a *memstore.Store, decide at the times of a clock:
// microseconds since the epoch. Before the store is used. Package memstore fills it in.
var Set func(store any, now func() int64)

// SetLocal does the same for the buckets that stand in for a store, a core.Store, while it
// does not answer. Before a limiter is made on the store. Package core fills it in.
var SetLocal func(store any, now func() int64)
