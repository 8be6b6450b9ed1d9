package quota

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weblimit/weblimit/core/store"
)

// noBook says that there are no tables.
var noBook = errors.New("weblimit: quota: the database has no book")

// declaredBy is the version of the tables from which on processes declare their limits with what
// tools need of them.
const declaredBy = 5

// check reports whether the tables are there, and of a version that this process can use.
func (l *pgLedger) check(ctx context.Context) error {
	var version int
	err := l.pool.QueryRow(ctx, l.sql("SELECT coalesce(max(version), 0) FROM {schema}.migration")).Scan(&version)
	var e *pgconn.PgError
	switch {
	case errors.As(err, &e) && (e.Code == "42P01" || e.Code == "3F000"):
		return fmt.Errorf("%w in the schema %q: an application makes it, with quota.Open", noBook, l.schema)
	case err != nil:
		return fmt.Errorf("weblimit: quota: asking the ledger: %w", err)
	case version < declaredBy:
		return fmt.Errorf("weblimit: quota: the tables in the schema %q are of version %d, and this wants %d: an application of this version brings them up to date", l.schema, version, declaredBy)
	}
	return nil
}

func (l *pgLedger) declare(ctx context.Context, all []declaration) error {
	if err := l.setUp(ctx); err != nil {
		return err
	}
	var batch pgx.Batch
	for i := range all { // in order, so that processes don't wait for each other in a circle
		d := &all[i]
		batch.Queue(l.sql(`INSERT INTO {schema}.declared (limit_name, unit, day, zone, january, july, period, quota, soft, keys, per_tenant)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
			ON CONFLICT (limit_name) DO UPDATE SET (unit, day, zone, january, july, period, quota, soft, keys, per_tenant, at) =
			(excluded.unit, excluded.day, excluded.zone, excluded.january, excluded.july, excluded.period, excluded.quota, excluded.soft,
			excluded.keys, excluded.per_tenant, excluded.at)`),
			d.name, d.unit.String(), d.day, d.zone, d.january, d.july, d.period, d.quota, d.soft, d.keys, d.perTenant)
	}
	return l.pool.SendBatch(ctx, &batch).Close()
}

func (l *pgLedger) declarations(ctx context.Context) ([]declaration, error) {
	rows, err := l.pool.Query(ctx, l.sql(`SELECT limit_name, unit, day, zone, january, july, period, quota, soft, keys, per_tenant, at FROM {schema}.declared ORDER BY 1`))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (d declaration, err error) {
		var unit string
		err = row.Scan(&d.name, &unit, &d.day, &d.zone, &d.january, &d.july, &d.period, &d.quota, &d.soft, &d.keys, &d.perTenant, &d.at)
		if d.unit = store.CalendarMonth; unit == store.CalendarDay.String() {
			d.unit = store.CalendarDay
		}
		d.at = d.at.UTC()
		return d, err
	})
}
