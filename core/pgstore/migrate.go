package pgstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	//go:embed sql/schema.sql
	schema1 string
	//go:embed sql/swap.sql
	schema2 string
)

// migrations are the statements of each version of the schema, from version 1 on.
var migrations = []string{schema1, schema2}

// Migrate makes the schema, the table and the functions of the store, or brings them to this
// version of the package. Where they are, it only reads. It may be called twice and from
// several processes at once, and while processes with an older version run.
//
// [Open] calls it. Call it yourself where the application's role may not change the schema:
// with a pool of a role that may, for example in the deployment. The application's role then
// needs USAGE on the schema, and SELECT, INSERT, UPDATE and DELETE on its tables.
func Migrate(ctx context.Context, pool *pgxpool.Pool, config ...Config) error {
	c, err := single(config)
	if err != nil {
		return err
	}
	if c, err = c.complete(pool.Config().MaxConns); err != nil {
		return err
	}
	if version, err := versionOf(ctx, pool, c.Schema); err == nil && version >= len(migrations) {
		return nil
	} else if err != nil && !isMissing(err) {
		return fmt.Errorf("weblimit: pgstore: reading the version of schema %s: %w", c.Schema, err)
	}
	if err := migrate(ctx, pool, c.Schema); err != nil {
		if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.Code == "42501" {
			err = fmt.Errorf("%w; call pgstore.Migrate once with a role that may CREATE on the database and the schema, or grant that to this one", err)
		}
		return fmt.Errorf("weblimit: pgstore: migrating schema %s: %w", c.Schema, err)
	}
	return nil
}

// migrate applies what is missing, one process at a time.
func migrate(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		h := fnv.New64a()
		h.Write([]byte("weblimit pgstore " + schema))
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(h.Sum64())); err != nil {
			return err
		}
		for _, sql := range []string{
			// Without the check, a role that may not make schemas could not use one made for it.
			"DO $$ BEGIN IF to_regnamespace('@') IS NULL THEN CREATE SCHEMA @; END IF; END $$",
			"CREATE TABLE IF NOT EXISTS @.pgstore_version (version integer PRIMARY KEY, since timestamptz NOT NULL DEFAULT now())",
		} {
			if _, err := tx.Exec(ctx, in(schema, sql)); err != nil {
				return err
			}
		}
		version, err := versionOf(ctx, tx, schema)
		if err != nil {
			return err
		}
		for ; version < len(migrations); version++ {
			// Several statements in one: the simple protocol, which has no parameters.
			if _, err := tx.Exec(ctx, in(schema, migrations[version]), pgx.QueryExecModeSimpleProtocol); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, in(schema, "INSERT INTO @.pgstore_version (version) VALUES ($1)"), version+1); err != nil {
				return err
			}
		}
		return nil
	})
}

// in replaces @ by the schema, whose name needs no quotes.
func in(schema, sql string) string { return strings.ReplaceAll(sql, "@", schema) }

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func versionOf(ctx context.Context, q querier, schema string) (version int, err error) {
	err = q.QueryRow(ctx, in(schema, "SELECT coalesce(max(version), 0) FROM @.pgstore_version")).Scan(&version)
	return version, err
}

// isMissing reports whether a table, function or schema does not exist.
func isMissing(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	switch pg.Code {
	case "42P01", "42883", "3F000": // undefined_table, undefined_function, invalid_schema_name
		return true
	}
	return false
}

// single returns the config of a call that takes at most one.
func single(config []Config) (Config, error) {
	switch len(config) {
	case 0:
		return Config{}, nil
	case 1:
		return config[0], nil
	}
	return Config{}, errors.New("weblimit: pgstore: more than one Config")
}
