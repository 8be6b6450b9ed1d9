package pgledger

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed migrations/*.sql
var migrations embed.FS

// SetUp makes the tables and partitions, once.
func (l *Ledger) SetUp(ctx context.Context) error {
	if l.ready.Load() {
		return nil
	}
	if err := l.Migrate(ctx); err != nil {
		if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.Code == "42501" {
			return fmt.Errorf("%w; open the book once with a role that may CREATE on the database and the schema, or grant that to this one", err)
		}
		return err
	}
	if err := l.Prepare(ctx, time.Now()); err != nil {
		return err
	}
	l.ready.Store(true)
	return nil
}

// IsAway reports whether an error says that PostgreSQL is not there at the moment, rather than that
// it refuses.
func IsAway(err error) bool {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return true // no answer
	}
	// Insufficient resources, such as too many connections; the intervention of an operator, such as a shutdown; and
	// a standby, which takes no writes until it takes over.
	return strings.HasPrefix(e.Code, "53") || strings.HasPrefix(e.Code, "57") || e.Code == "25006"
}

// Migrate brings the tables to the version of this process, as one transaction. Processes
// that start together wait for each other. Tables of a later version stay as they are: each
// version can be used by the processes of the one before, so that a deployment can be rolled
// out and back.
func (l *Ledger) Migrate(ctx context.Context) error {
	return pgx.BeginFunc(ctx, l.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", l.lockID("migrate")); err != nil {
			return err
		}
		var exists bool
		if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", l.schema).Scan(&exists); err != nil {
			return err
		}
		if !exists { // CREATE SCHEMA IF NOT EXISTS needs the right to create one even if it exists
			if _, err := tx.Exec(ctx, l.SQL("CREATE SCHEMA {schema}")); err != nil {
				return err
			}
		}
		if exists, err := l.exists(ctx, tx, "migration"); err != nil {
			return err
		} else if !exists {
			if _, err := tx.Exec(ctx, l.SQL("CREATE TABLE {schema}.migration (version int PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())")); err != nil {
				return err
			}
		}
		var version int
		if err := tx.QueryRow(ctx, l.SQL("SELECT coalesce(max(version), 0) FROM {schema}.migration")).Scan(&version); err != nil {
			return err
		}
		steps, err := fs.Glob(migrations, "migrations/*.sql")
		if err != nil {
			return err
		}
		for i := version; i < len(steps); i++ {
			text, err := migrations.ReadFile(steps[i])
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, l.SQL(string(text))); err != nil {
				return fmt.Errorf("migration %d: %w", i+1, err)
			}
			if _, err := tx.Exec(ctx, l.SQL("INSERT INTO {schema}.migration (version) VALUES ($1)"), i+1); err != nil {
				return err
			}
		}
		return nil
	})
}

// exists reports whether the schema has a table. It does not ask to_regclass, which can still say
// no after another process has made it.
func (l *Ledger) exists(ctx context.Context, tx pgx.Tx, table string) (exists bool, err error) {
	err = tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2)",
		l.schema, table).Scan(&exists)
	return exists, err
}

// SQL puts the name of the schema into a statement.
func (l *Ledger) SQL(text string) string {
	return strings.ReplaceAll(text, "{schema}", pgx.Identifier{l.schema}.Sanitize())
}

// lockID returns the number of an advisory lock of this ledger.
func (l *Ledger) lockID(purpose string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("weblimit quota|" + l.schema + "|" + purpose))
	return int64(h.Sum64())
}
