// Package pgstore keeps the state of limits in PostgreSQL: for what must never be lost, such as
// credits and paid quotas, and for services that have no Redis.
//
//	pool, err := pgxpool.New(ctx, "postgres://app@localhost/app")
//	store, err := pgstore.Open(ctx, pool) // makes its schema, table and functions
//
// It gives the same answers as the stores in memory and in Redis, for all limits. What it adds
// is that a request is answered when its charge is committed: a crash of the process, of
// PostgreSQL or of the machine forgets no charge whose request was served. An operation with
// a key (see core.Limit.OncePer) is charged once, whoever repeats it and whenever. With
// synchronous_commit off, a crash of PostgreSQL can lose the last charges, and nothing else.
//
// The store needs PostgreSQL 14 or later and pgx 5.9.2 or later. docs/run/postgres.md has
// settings, permissions, sizes and measurements.
//
// # Round trips
//
// The store decides in Go, by what it remembers of the rows, and has one statement write the
// new rows if the old ones are still there: one round trip and one transaction. So it is for a
// new client, and for one whose last request went through the same process. If another process
// has changed a row, the statement returns it, and the store decides again: two round trips.
// After two such losses it locks the rows first, in the order of arrival, so that a key that
// many processes ask for makes progress in each of them: two round trips more, and two in all
// for the next calls, until nobody else changes the row.
//
// While a call is under way, other calls of the same process for the same row wait. The next
// transaction then decides all of them, one after the other, in the order in which they came.
// So a hot key costs PostgreSQL a transaction for each flight, and not for each request. Calls
// for different rows use up to [Config].Connections connections at the same time; when these
// are taken, calls gather, too.
//
// Calls that have rows in common are written together or not at all. A row that a call reads
// beside those that it writes stays as it is until they are written. So calls of several limits
// happen one after the other, as in one process: they are linearizable. Locks are taken in
// one order by all, so two transactions never wait for each other.
//
// # Time
//
// PostgreSQL's clock decides. A process learns it from each answer and decides at a time
// that is not later. The statement refuses a decision from the future, or one that is too
// old: more than a second, or when its caller no longer waits. So a process with a wrong
// clock can't grant anything, and a request that PostgreSQL reads too late, such as after a
// stall, is not charged.
//
// # Failure
//
// An error of any method is a [store.Error] with a class. The charge may have been made or
// not, unless the error is a [store.Undone]; it is not repeated by the store, and a
// core.Limiter decides by the limit's outage action. Deadlocks and failed serializations are
// repeated within the deadline. After five failures in a row the store asks nothing for half
// a second, and then probes in the background while there are calls.
//
// A row that another transaction has locked delays calls for that row alone, until their
// deadline.
//
// # Pools and poolers
//
// The pool is yours and stays open. A pool of its own keeps limits and the rest of the
// application from waiting for each other's connections. A pooler in transaction mode, such
// as PgBouncer, works: no state of a session is used. For poolers that don't know prepared
// statements, set default_query_exec_mode=exec in the connection string.
package pgstore
