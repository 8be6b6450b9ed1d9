package pgledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weblimit/weblimit/quota/internal/micros"
)

// partitioned are the tables that have a partition for each month, by the start of periods.
var partitioned = []string{"account", "generation", "day", "export", "exported"}

// partitionOf returns the name of a table's partition.
func partitionOf(table string, month int) string {
	return table + micros.BeginOf(month).Format("_2006_01")
}

// Prepare makes the partitions of the months around now, so that they are there before the
// first request of a month.
func (l *Ledger) Prepare(ctx context.Context, now time.Time) error {
	return l.partition(ctx, micros.Month(now)-1, micros.Month(now)+2)
}

// partition makes the partitions from one month to another that don't exist. A table is made
// first and attached then, since to make it as a partition would lock out all others.
func (l *Ledger) partition(ctx context.Context, from, to int) error {
	var names []string
	for month := from; month <= to; month++ {
		for _, table := range partitioned {
			names = append(names, partitionOf(table, month))
		}
	}
	var known int
	err := l.Pool.QueryRow(ctx, "SELECT count(*) FROM pg_class WHERE relnamespace = $1::regnamespace AND relname = ANY ($2)",
		pgx.Identifier{l.schema}.Sanitize(), names).Scan(&known)
	if err != nil || known == len(names) {
		return err
	}
	return pgx.BeginFunc(ctx, l.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", l.lockID("partitions")); err != nil {
			return err
		}
		for month := from; month <= to; month++ {
			for _, table := range partitioned {
				if err := l.attach(ctx, tx, table, month); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (l *Ledger) attach(ctx context.Context, tx pgx.Tx, table string, month int) error {
	name := pgx.Identifier{l.schema, partitionOf(table, month)}.Sanitize()
	if exists, err := l.exists(ctx, tx, partitionOf(table, month)); err != nil || exists {
		return err
	}
	parent := pgx.Identifier{l.schema, table}.Sanitize()
	_, err := tx.Exec(ctx, fmt.Sprintf(
		`CREATE TABLE %[1]s (LIKE %[2]s INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES) WITH (fillfactor = 70);
		ALTER TABLE %[2]s ATTACH PARTITION %[1]s FOR VALUES FROM ('%[3]s') TO ('%[4]s')`,
		name, parent, micros.BeginOf(month).Format(time.RFC3339), micros.BeginOf(month+1).Format(time.RFC3339)))
	return err
}

// lacksPartition reports whether a row could not be written for want of a partition.
func lacksPartition(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "23514" && e.ConstraintName == ""
}

// again runs a transaction, and once more if it lacked partitions, which it makes, or was the one to
// end when two waited for each other.
func (l *Ledger) again(ctx context.Context, starts func(yield func(start int64) bool), f func() error) error {
	err := f()
	var e *pgconn.PgError
	if errors.As(err, &e) && e.Code == "40P01" {
		return f()
	}
	if !lacksPartition(err) {
		return err
	}
	months := make(map[int]bool)
	for start := range starts {
		months[micros.Month(micros.Time(start))] = true
	}
	for month := range months {
		if err := l.partition(ctx, month, month); err != nil {
			return err
		}
	}
	return f()
}

// Detach detaches the partitions of the months that ended before a time, and returns the names of
// the tables that they are now. It does not lock out others.
func (l *Ledger) Detach(ctx context.Context, before time.Time) (tables []string, err error) {
	before = micros.BeginOf(micros.Month(before))
	// What is left of credits depends on what was used in those months.
	if _, err := l.Pool.Exec(ctx, l.SQL(`INSERT INTO {schema}.carried (limit_name, key, period_start, period_end, used)
		SELECT limit_name, key, period_start, period_end, sum(used - base) FROM {schema}.generation g
		WHERE period_start < $1 AND EXISTS (SELECT FROM {schema}.change c WHERE c.limit_name = g.limit_name AND c.tenant = g.key AND c.kind = 'credit')
		GROUP BY 1, 2, 3, 4 ON CONFLICT (limit_name, key, period_start, period_end) DO UPDATE SET used = excluded.used`), before); err != nil {
		return nil, err
	}
	for _, table := range partitioned {
		names, err := l.partitionsBefore(ctx, table, micros.Month(before))
		if err != nil {
			return tables, err
		}
		for _, name := range names {
			if _, err := l.Pool.Exec(ctx, fmt.Sprintf("ALTER TABLE %s DETACH PARTITION %s CONCURRENTLY",
				pgx.Identifier{l.schema, table}.Sanitize(), pgx.Identifier{l.schema, name}.Sanitize())); err != nil {
				return tables, err
			}
			tables = append(tables, l.schema+"."+name)
		}
	}
	return tables, nil
}

// partitionsBefore returns the names of a table's partitions of earlier months.
func (l *Ledger) partitionsBefore(ctx context.Context, table string, month int) ([]string, error) {
	rows, err := l.Pool.Query(ctx, `SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = $1::regclass AND c.relname COLLATE "C" < $2 ORDER BY 1`,
		pgx.Identifier{l.schema, table}.Sanitize(), partitionOf(table, month))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
