// Package billing tests that a bill made from package quota is right, on a real PostgreSQL and
// a real Redis, with processes that are killed. Processes charge accounts and write a journal of
// what was granted, which survives them. Meanwhile processes, Redis and PostgreSQL are killed,
// emptied, frozen and restored. In the end the book, Redis after Reconcile, the days, the statements and the
// exports must have what the journal has.
//
//	go test -run Killed -seed 7 -v .      // one seed, and what happened to it
//	make billing SEEDS=200                // many seeds
package billing
