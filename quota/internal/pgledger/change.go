package pgledger

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weblimit/weblimit/quota/internal/micros"
	"github.com/weblimit/weblimit/quota/internal/terms"
)

const changeColumns = `operation, kind, limit_name, tenant, plan, included, hard, units, expires, period_start, reason`

// Apply implements [ledger.Ledger].
func (l *Ledger) Apply(ctx context.Context, c *terms.Change) (applied bool, err error) {
	err = pgx.BeginFunc(ctx, l.Pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, l.SQL(`INSERT INTO {schema}.change (`+changeColumns+`)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (operation) DO NOTHING`),
			c.Operation, string(c.Kind), c.Limit, c.Tenant, c.Plan, c.Included, c.Hard, c.Units, optional(c.Expires), optional(c.Start), c.Reason)
		if err != nil {
			return err
		}
		if applied = tag.RowsAffected() == 1; applied {
			_, err := tx.Exec(ctx, "SELECT pg_notify($1, $2)", l.channel(), c.Limit+"\n"+c.Tenant)
			return err
		}
		rows, err := tx.Query(ctx, l.SQL(`SELECT `+changeColumns+`, at FROM {schema}.change WHERE operation = $1`), c.Operation)
		if err != nil {
			return err
		}
		before, err := pgx.CollectExactlyOneRow(rows, scanChange)
		if err != nil {
			return err
		}
		return before.RepeatedBy(c)
	})
	return applied && err == nil, err
}

// scanChange reads changeColumns and at.
func scanChange(row pgx.CollectableRow) (c terms.Change, err error) {
	var expires, start *time.Time
	var at time.Time
	err = row.Scan(&c.Operation, &c.Kind, &c.Limit, &c.Tenant, &c.Plan, &c.Included, &c.Hard, &c.Units, &expires, &start, &c.Reason, &at)
	if expires != nil {
		c.Expires = expires.UnixMicro()
	}
	if start != nil {
		c.Start = start.UnixMicro()
	}
	c.At = at.UnixMicro()
	return c, err
}

// optional returns a time, or nil for 0.
func optional(at int64) *time.Time {
	if at == 0 {
		return nil
	}
	t := micros.Time(at)
	return &t
}

// Facts implements [ledger.Ledger].
func (l *Ledger) Facts(ctx context.Context, limit string, tenants []string) (map[string]*terms.Facts, error) {
	all := make(map[string]*terms.Facts, len(tenants))
	for _, tenant := range tenants {
		all[tenant] = new(terms.Facts)
	}
	var batch pgx.Batch
	batch.Queue(l.SQL(`SELECT `+changeColumns+`, at FROM {schema}.change
		WHERE limit_name = $1 AND (tenant = ANY ($2) OR tenant = '') ORDER BY seq`), limit, tenants).Query(func(rows pgx.Rows) error {
		changes, err := pgx.CollectRows(rows, scanChange)
		for i := range changes {
			c := &changes[i]
			if c.Kind == terms.ChangePlan {
				for _, f := range all {
					f.Changes = append(f.Changes, *c)
				}
			} else {
				all[c.Tenant].Changes = append(all[c.Tenant].Changes, *c)
			}
		}
		return err
	})
	// Only for credits it matters what was used in other periods.
	batch.Queue(l.SQL(`WITH c AS (
			SELECT tenant, min(at) AS at FROM {schema}.change WHERE limit_name = $1 AND tenant = ANY ($2) AND kind = 'credit' GROUP BY 1)
		SELECT g.key, g.period_start, g.period_end, sum(g.used - g.base)::bigint AS used
		FROM c JOIN {schema}.generation g ON g.limit_name = $1 AND g.key = c.tenant AND g.period_end > c.at
		GROUP BY 1, 2, 3
		UNION SELECT d.key, d.period_start, d.period_end, d.used
		FROM c JOIN {schema}.carried d ON d.limit_name = $1 AND d.key = c.tenant AND d.period_end > c.at
		ORDER BY 2`), limit, tenants).Query(func(rows pgx.Rows) error {
		var tenant string
		var start, end time.Time
		var used int64
		_, err := pgx.ForEachRow(rows, []any{&tenant, &start, &end, &used}, func() error {
			all[tenant].Periods = append(all[tenant].Periods, terms.PeriodUse{Start: start.UnixMicro(), End: end.UnixMicro(), Used: used})
			return nil
		})
		return err
	})
	batch.Queue("SELECT now()").QueryRow(func(row pgx.Row) error {
		var now time.Time
		err := row.Scan(&now)
		for _, f := range all {
			f.Now = now.UnixMicro()
		}
		return err
	})
	return all, l.Pool.SendBatch(ctx, &batch).Close()
}

// channel is the name under which changes are announced.
func (l *Ledger) channel() string { return "weblimit_" + l.schema }

// Listen uses a connection of its own, which it would otherwise take from the pool for good.
func (l *Ledger) Listen(ctx context.Context, ready func(), changed func(limit, tenant string)) error {
	config := l.Pool.Config()
	// A server that is frozen or cut off takes a connection and never answers.
	if of := config.ConnConfig; of.ConnectTimeout <= 0 || of.ConnectTimeout > l.Silence {
		of.ConnectTimeout = l.Silence
	}
	if config.BeforeConnect != nil { // it may set a password that changes
		if err := config.BeforeConnect(ctx, config.ConnConfig); err != nil {
			return err
		}
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		done, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(done) // the connection is not needed any more
	}()
	if err := l.inTime(ctx, func(ctx context.Context) error {
		_, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{l.channel()}.Sanitize())
		return err
	}); err != nil {
		return err
	}
	ready()
	for {
		wait, cancel := context.WithTimeout(ctx, l.Silence)
		n, err := conn.WaitForNotification(wait)
		cancel()
		switch {
		case err == nil:
			limit, tenant, _ := strings.Cut(n.Payload, "\n")
			changed(limit, tenant)
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, context.DeadlineExceeded) && !conn.IsClosed():
			if err := l.inTime(ctx, conn.Ping); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// listenCheck is how long the ledger may be silent until it is asked whether it is there, and how long it may take to
// answer that.
const listenCheck = 10 * time.Second

// inTime asks something that the ledger must answer in time.
func (l *Ledger) inTime(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, l.Silence)
	defer cancel()
	return ask(ctx)
}

// Present implements [ledger.Ledger].
func (l *Ledger) Present(ctx context.Context, process string, limits []string, lost time.Duration) (gone []string, clock time.Time, err error) {
	if err := l.SetUp(ctx); err != nil {
		return nil, clock, err
	}
	var batch pgx.Batch
	batch.Queue(l.SQL(`INSERT INTO {schema}.process (id, seen, limits) VALUES ($1, now(), $2)
		ON CONFLICT (id) DO UPDATE SET seen = now(), limits = excluded.limits`), process, limits)
	batch.Queue(l.SQL(`UPDATE {schema}.process SET seen = now() WHERE id IN (
		SELECT id FROM {schema}.process WHERE seen NOT BETWEEN now() - $1::interval AND now() + $1::interval AND limits <@ $2 FOR UPDATE SKIP LOCKED) RETURNING id`),
		lost, limits).Query(func(rows pgx.Rows) (err error) {
		gone, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	batch.Queue("SELECT clock_timestamp()").QueryRow(func(row pgx.Row) error { return row.Scan(&clock) })
	return gone, clock, l.Pool.SendBatch(ctx, &batch).Close()
}

// Leave implements [ledger.Ledger].
func (l *Ledger) Leave(ctx context.Context, processes ...string) error {
	_, err := l.Pool.Exec(ctx, l.SQL(`DELETE FROM {schema}.process WHERE id = ANY ($1)`), processes)
	return err
}
