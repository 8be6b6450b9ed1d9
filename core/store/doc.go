// Package store is for authors of stores: what a [Store] is asked, and how limits
// count. Those who only use limits need package core, and of this one the classes of
// errors at most.
//
// A [Rule] is a limit's name and its [Numbers], checked by [NewRule] and brought to the
// integers that all stores count with. A store keeps a [Bucket] for each key and rule,
// for some rules a [Penalty], and a [Mark] for each operation that is charged once: the
// [State] of a check. A store that can read, change and write states as one step has
// [Decide], [Charge], [Refund] and [Renew] count, and is about a hundred lines: see the
// Example. One that counts elsewhere, as Redis does, sends a [Reading], from which
// [Rule].Result derives the answer.
//
// Each algorithm is a file of this package. A store embeds [Base] for its [Registry],
// which is what limiters share through it.
package store
