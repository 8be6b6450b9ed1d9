package quota

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const changeColumns = `operation, kind, limit_name, tenant, plan, included, hard, units, expires, period_start, reason`

func (l *pgLedger) apply(ctx context.Context, c *change) (applied bool, err error) {
	err = pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, l.sql(`INSERT INTO {schema}.change (`+changeColumns+`)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (operation) DO NOTHING`),
			c.operation, string(c.kind), c.limit, c.tenant, c.plan, c.included, c.hard, c.units, optional(c.expires), optional(c.start), c.reason)
		if err != nil {
			return err
		}
		if applied = tag.RowsAffected() == 1; applied {
			_, err := tx.Exec(ctx, "SELECT pg_notify($1, $2)", l.channel(), c.limit+"\n"+c.tenant)
			return err
		}
		rows, err := tx.Query(ctx, l.sql(`SELECT `+changeColumns+`, at FROM {schema}.change WHERE operation = $1`), c.operation)
		if err != nil {
			return err
		}
		before, err := pgx.CollectExactlyOneRow(rows, scanChange)
		if err != nil {
			return err
		}
		return before.repeatedBy(c)
	})
	return applied && err == nil, err
}

// scanChange reads changeColumns and at.
func scanChange(row pgx.CollectableRow) (c change, err error) {
	var expires, start *time.Time
	var at time.Time
	err = row.Scan(&c.operation, &c.kind, &c.limit, &c.tenant, &c.plan, &c.included, &c.hard, &c.units, &expires, &start, &c.reason, &at)
	if expires != nil {
		c.expires = expires.UnixMicro()
	}
	if start != nil {
		c.start = start.UnixMicro()
	}
	c.at = at.UnixMicro()
	return c, err
}

// optional returns a time, or nil for 0.
func optional(micros int64) *time.Time {
	if micros == 0 {
		return nil
	}
	t := timeOf(micros)
	return &t
}

func (l *pgLedger) facts(ctx context.Context, limit string, tenants []string) (map[string]*facts, error) {
	all := make(map[string]*facts, len(tenants))
	for _, tenant := range tenants {
		all[tenant] = new(facts)
	}
	var batch pgx.Batch
	batch.Queue(l.sql(`SELECT `+changeColumns+`, at FROM {schema}.change
		WHERE limit_name = $1 AND (tenant = ANY ($2) OR tenant = '') ORDER BY seq`), limit, tenants).Query(func(rows pgx.Rows) error {
		changes, err := pgx.CollectRows(rows, scanChange)
		for i := range changes {
			c := &changes[i]
			if c.kind == changePlan {
				for _, f := range all {
					f.changes = append(f.changes, *c)
				}
			} else {
				all[c.tenant].changes = append(all[c.tenant].changes, *c)
			}
		}
		return err
	})
	// Only for credits it matters what was used in other periods.
	batch.Queue(l.sql(`WITH c AS (
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
			all[tenant].periods = append(all[tenant].periods, periodUse{start.UnixMicro(), end.UnixMicro(), used})
			return nil
		})
		return err
	})
	batch.Queue("SELECT now()").QueryRow(func(row pgx.Row) error {
		var now time.Time
		err := row.Scan(&now)
		for _, f := range all {
			f.now = now.UnixMicro()
		}
		return err
	})
	return all, l.pool.SendBatch(ctx, &batch).Close()
}

// channel is the name under which changes are announced.
func (l *pgLedger) channel() string { return "weblimit_" + l.schema }

// listen uses a connection of its own, which it would otherwise take from the pool for good.
func (l *pgLedger) listen(ctx context.Context, ready func(), changed func(limit, tenant string)) error {
	config := l.pool.Config()
	// A server that is frozen or cut off takes a connection and never answers.
	if of := config.ConnConfig; of.ConnectTimeout <= 0 || of.ConnectTimeout > l.silence {
		of.ConnectTimeout = l.silence
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
		wait, cancel := context.WithTimeout(ctx, l.silence)
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
func (l *pgLedger) inTime(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, l.silence)
	defer cancel()
	return ask(ctx)
}

func (l *pgLedger) present(ctx context.Context, process string, limits []string, lost time.Duration) (gone []string, clock time.Time, err error) {
	if err := l.setUp(ctx); err != nil {
		return nil, clock, err
	}
	var batch pgx.Batch
	batch.Queue(l.sql(`INSERT INTO {schema}.process (id, seen, limits) VALUES ($1, now(), $2)
		ON CONFLICT (id) DO UPDATE SET seen = now(), limits = excluded.limits`), process, limits)
	batch.Queue(l.sql(`UPDATE {schema}.process SET seen = now() WHERE id IN (
		SELECT id FROM {schema}.process WHERE seen NOT BETWEEN now() - $1::interval AND now() + $1::interval AND limits <@ $2 FOR UPDATE SKIP LOCKED) RETURNING id`),
		lost, limits).Query(func(rows pgx.Rows) (err error) {
		gone, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	batch.Queue("SELECT clock_timestamp()").QueryRow(func(row pgx.Row) error { return row.Scan(&clock) })
	return gone, clock, l.pool.SendBatch(ctx, &batch).Close()
}

func (l *pgLedger) leave(ctx context.Context, processes ...string) error {
	_, err := l.pool.Exec(ctx, l.sql(`DELETE FROM {schema}.process WHERE id = ANY ($1)`), processes)
	return err
}
