package pgledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/quota/internal/ledger"
)

// ErrNoBook says that there are no tables.
var ErrNoBook = errors.New("weblimit: quota: the database has no book")

// declaredBy is the version of the tables from which on processes declare their limits with what
// tools need of them.
const declaredBy = 5

// Check reports whether the tables are there, and of a version that this process can use.
func (l *Ledger) Check(ctx context.Context) error {
	var version int
	err := l.Pool.QueryRow(ctx, l.SQL("SELECT coalesce(max(version), 0) FROM {schema}.migration")).Scan(&version)
	var e *pgconn.PgError
	switch {
	case errors.As(err, &e) && (e.Code == "42P01" || e.Code == "3F000"):
		return fmt.Errorf("%w in the schema %q: an application makes it, with quota.Open", ErrNoBook, l.schema)
	case err != nil:
		return fmt.Errorf("weblimit: quota: asking the ledger: %w", err)
	case version < declaredBy:
		return fmt.Errorf("weblimit: quota: the tables in the schema %q are of version %d, and this wants %d: an application of this version brings them up to date", l.schema, version, declaredBy)
	}
	return nil
}

// Declare implements [ledger.Ledger].
func (l *Ledger) Declare(ctx context.Context, all []ledger.Declaration) error {
	if err := l.SetUp(ctx); err != nil {
		return err
	}
	var batch pgx.Batch
	for i := range all { // in order, so that processes don't wait for each other in a circle
		d := &all[i]
		batch.Queue(l.SQL(`INSERT INTO {schema}.declared (limit_name, unit, day, zone, january, july, period, quota, soft, keys, per_tenant)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
			ON CONFLICT (limit_name) DO UPDATE SET (unit, day, zone, january, july, period, quota, soft, keys, per_tenant, at) =
			(excluded.unit, excluded.day, excluded.zone, excluded.january, excluded.july, excluded.period, excluded.quota, excluded.soft,
			excluded.keys, excluded.per_tenant, excluded.at)`),
			d.Name, d.Unit.String(), d.Day, d.Zone, d.January, d.July, d.Period, d.Quota, d.Soft, d.Keys, d.PerTenant)
	}
	return l.Pool.SendBatch(ctx, &batch).Close()
}

// Declarations implements [ledger.Ledger].
func (l *Ledger) Declarations(ctx context.Context) ([]ledger.Declaration, error) {
	rows, err := l.Pool.Query(ctx, l.SQL(`SELECT limit_name, unit, day, zone, january, july, period, quota, soft, keys, per_tenant, at FROM {schema}.declared ORDER BY 1`))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (d ledger.Declaration, err error) {
		var unit string
		err = row.Scan(&d.Name, &unit, &d.Day, &d.Zone, &d.January, &d.July, &d.Period, &d.Quota, &d.Soft, &d.Keys, &d.PerTenant, &d.At)
		if d.Unit = store.CalendarMonth; unit == store.CalendarDay.String() {
			d.Unit = store.CalendarDay
		}
		d.At = d.At.UTC()
		return d, err
	})
}
