package pgstore

// What the errors of pgx and PostgreSQL mean: their class, and whether the work was certainly
// not done.

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"github.com/weblimit/weblimit/core/store"
)

// classOfCode are SQLSTATEs with a class of their own.
var classOfCode = map[string]store.Class{
	"25006": store.ClassReadOnly,    // read_only_sql_transaction: a standby, or default_transaction_read_only
	"53100": store.ClassDisk,        // disk_full
	"53200": store.ClassMemory,      // out_of_memory
	"53300": store.ClassOverload,    // too_many_connections
	"55P03": store.ClassBusy,        // lock_not_available: another transaction holds the record
	"40001": store.ClassBusy,        // serialization_failure, again and again
	"40P01": store.ClassBusy,        // deadlock_detected, again and again
	"57014": store.ClassTimeout,     // query_canceled, by a statement_timeout
	"57P01": store.ClassConnection,  // admin_shutdown
	"57P02": store.ClassConnection,  // crash_shutdown
	"57P03": store.ClassLoading,     // cannot_connect_now: starting up, or recovering
	"57P05": store.ClassConnection,  // idle_session_timeout
	"42501": store.ClassPermission,  // insufficient_privilege
	"42P01": store.ClassUnsupported, // undefined_table: Migrate was not called
	"42883": store.ClassUnsupported, // undefined_function
	"3F000": store.ClassUnsupported, // invalid_schema_name
	"3D000": store.ClassUnsupported, // invalid_catalog_name: no such database
	"26000": store.ClassUnsupported, // invalid_sql_statement_name: prepared statements through a pooler
	"42P05": store.ClassUnsupported, // duplicate_prepared_statement, the same
}

// classOfClass are the classes of SQLSTATEs, their first two digits.
var classOfClass = map[string]store.Class{
	"08": store.ClassConnection,
	"28": store.ClassLogin,
	"53": store.ClassOverload, // insufficient resources
	"58": store.ClassDisk,     // system errors, mostly of files
}

// classOf returns the class of an error of pgx.
func classOf(err error) store.Class {
	var known *store.Error
	if errors.As(err, &known) {
		return known.Class
	}
	if errors.Is(err, errLayout) {
		return store.ClassValue
	}
	// What the server has said comes first: pgx wraps it in errors of its own.
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		if class, ok := classOfCode[pg.Code]; ok {
			return class
		}
		if class, ok := classOfClass[pg.Code[:min(2, len(pg.Code))]]; ok {
			return class
		}
		return store.ClassUnknown
	}
	var timeout net.Error
	switch {
	case errors.Is(err, puddle.ErrClosedPool):
		return store.ClassClosed
	case errors.Is(err, errClock), pgconn.Timeout(err), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, os.ErrDeadlineExceeded):
		return store.ClassTimeout
	case errors.As(err, &timeout) && timeout.Timeout():
		return store.ClassTimeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, new(*net.OpError)),
		errors.Is(err, net.ErrClosed), errors.As(err, new(syscall.Errno)), errors.As(err, new(*pgconn.ConnectError)),
		strings.Contains(err.Error(), "conn closed"): // pgx exports no value for it
		return store.ClassConnection
	}
	return store.ClassUnknown
}

// isUndone reports whether the statement that failed has certainly changed nothing: it was not
// sent, or PostgreSQL refused it and goes on. An error that ends the connection may come
// after the commit.
func isUndone(err error) bool {
	if errors.As(err, new(*unsent)) {
		return true
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		severity := pg.SeverityUnlocalized
		if severity == "" { // not all poolers send it
			severity = pg.Severity
		}
		return severity == "ERROR"
	}
	return err != nil && pgconn.SafeToRetry(err)
}

// isRetried reports whether the same transaction may succeed when it is run again.
func isRetried(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01")
}
