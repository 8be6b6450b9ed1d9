package quota

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

func (l *pgLedger) openChannels(ctx context.Context, names []string) error {
	_, err := l.pool.Exec(ctx, l.sql(`INSERT INTO {schema}.channel (name) SELECT unnest($1::text[]) ORDER BY 1 ON CONFLICT DO NOTHING`), names)
	return err
}

func (l *pgLedger) channels(ctx context.Context) ([]string, error) {
	rows, err := l.pool.Query(ctx, l.sql("SELECT name FROM {schema}.channel ORDER BY 1"))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (l *pgLedger) removeChannel(ctx context.Context, name string) (known bool, err error) {
	err = pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, l.sql("DELETE FROM {schema}.channel WHERE name = $1"), name)
		if err != nil {
			return err
		}
		known = tag.RowsAffected() > 0
		_, err = tx.Exec(ctx, l.sql("DELETE FROM {schema}.delivery WHERE channel = $1"), name)
		return err
	})
	return known, err
}

// claimDeliveries is one short transaction. Rows that another process is claiming are passed
// over. More rows than are wanted are locked, so that those of one tenant don't fill the window.
//
// A first attempt is due at once, and orders by due. Of others, those that were written by a clock
// that is set back now are due at the next call.
const claimDeliveries = `
WITH mended AS (
	UPDATE {schema}.delivery d SET due = now(), written = now() FROM (
		SELECT notice FROM {schema}.delivery
		WHERE channel = $1 AND state = 'waiting' AND attempts > 0 AND $2 AND written > now() + interval '1 second' AND due > now()
		LIMIT 1000 FOR UPDATE SKIP LOCKED) w
	WHERE d.channel = $1 AND d.notice = w.notice
), due AS (
	SELECT d.notice, d.due, n.key FROM {schema}.delivery d JOIN {schema}.notice n ON n.id = d.notice
	WHERE d.channel = $1 AND d.state = 'waiting' AND (d.attempts > 0) = $2 AND (NOT $2 OR d.due <= now()) AND n.key <> ALL ($3::text[])
	ORDER BY d.due LIMIT $4 * 4 FOR UPDATE OF d SKIP LOCKED
), first AS (
	SELECT notice FROM (SELECT notice, due, row_number() OVER (PARTITION BY key ORDER BY due, notice) AS n FROM due) r
	WHERE n = 1 ORDER BY due LIMIT $4
)
UPDATE {schema}.delivery d SET attempts = d.attempts + 1, due = now() + $5, written = now()
FROM first JOIN {schema}.notice n ON n.id = first.notice
WHERE d.channel = $1 AND d.notice = first.notice
RETURNING d.notice, d.attempts, n.limit_name, n.key, n.period_start, n.period_end, n.level, n.used, n.included, n.hard, n.at`

func (l *pgLedger) claim(ctx context.Context, channel string, again bool, busy []string, n int, lease time.Duration) ([]delivery, error) {
	rows, err := l.pool.Query(ctx, l.sql(claimDeliveries), channel, again, busy, n, lease)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (delivery, error) {
		d := delivery{channel: channel}
		err := row.Scan(append([]any{&d.id, &d.attempts}, noticeOfRow(&d.notice)...)...)
		return d, err
	})
}

// noticeOfRow returns where a row's notice goes.
func noticeOfRow(n *notice) []any {
	return append(accountOfRow(&n.account), &n.level, &n.used, &n.included, &n.hard, (*pgMicros)(&n.at))
}

// pgMicros reads a timestamp as microseconds.
type pgMicros int64

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (m *pgMicros) ScanTimestamptz(v pgtype.Timestamptz) error {
	*m = pgMicros(v.Time.UnixMicro())
	return nil
}

func (l *pgLedger) waiting(ctx context.Context, channel string, most int) (n int64, err error) {
	err = l.pool.QueryRow(ctx, l.sql(`SELECT count(*) FROM
		(SELECT FROM {schema}.delivery WHERE channel = $1 AND state = 'waiting' LIMIT $2) d`), channel, most).Scan(&n)
	return n, err
}

func (l *pgLedger) settle(ctx context.Context, d *delivery, s *settlement) error {
	text, args := "", []any{d.channel, d.id}
	switch s.verdict {
	case delivered: // even if another attempt has begun meanwhile
		text = "SET state = 'delivered', delivered = clock_timestamp(), error = '' WHERE state <> 'delivered'"
	case failed:
		text = "SET due = clock_timestamp() + $4, written = clock_timestamp(), error = $5 WHERE state = 'waiting' AND attempts = $3"
		args = append(args, d.attempts, s.pause, s.err)
	case dead:
		text = "SET state = 'dead', error = $4 WHERE state = 'waiting' AND attempts = $3"
		args = append(args, d.attempts, s.err)
	case released:
		text = "SET due = clock_timestamp(), written = clock_timestamp(), attempts = attempts - 1 WHERE state = 'waiting' AND attempts = $3"
		args = append(args, d.attempts)
	}
	_, err := l.pool.Exec(ctx, l.sql("UPDATE {schema}.delivery ")+text+" AND channel = $1 AND notice = $2", args...)
	return err
}

func (l *pgLedger) deliveries(ctx context.Context, s deliverySelection, yield func(*deliveryRow) error) error {
	rows, err := l.pool.Query(ctx, l.sql(`SELECT d.channel, d.state, d.attempts, d.due, d.delivered, d.error,
		n.limit_name, n.key, n.period_start, n.period_end, n.level, n.used, n.included, n.hard, n.at
		FROM {schema}.delivery d JOIN {schema}.notice n ON n.id = d.notice
		WHERE ($1 = '' OR d.channel = $1) AND ($2 = '' OR d.state = $2) AND ($3 = '' OR n.limit_name = $3) AND ($4 = '' OR n.key = $4)
		ORDER BY d.notice DESC, d.channel`), s.channel, s.state, s.limit, s.key)
	if err != nil {
		return err
	}
	var d deliveryRow
	var at *time.Time
	_, err = pgx.ForEachRow(rows, append([]any{&d.channel, &d.state, &d.attempts, &d.due, &at, &d.err}, noticeOfRow(&d.notice)...), func() error {
		d.due, d.delivered = d.due.UTC(), time.Time{}
		if at != nil {
			d.delivered = at.UTC()
		}
		return yield(&d)
	})
	return err
}

func (l *pgLedger) redeliver(ctx context.Context, channel string, notices []account, levels []int32, included []int64) (int64, error) {
	const again = "UPDATE {schema}.delivery d SET state = 'waiting', attempts = 0, due = clock_timestamp(), delivered = NULL"
	if len(notices) == 0 {
		tag, err := l.pool.Exec(ctx, l.sql(again+" WHERE channel = $1 AND state = 'dead'"), channel)
		return tag.RowsAffected(), err
	}
	var c accountColumns
	for i := range notices {
		c.add(&notices[i])
	}
	tag, err := l.pool.Exec(ctx, l.sql(again+` FROM {schema}.notice n
		JOIN unnest($2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::int[], $7::bigint[])
		AS t (limit_name, key, period_start, period_end, level, included) USING (limit_name, key, period_start, period_end, included)
		WHERE d.channel = $1 AND d.notice = n.id AND n.level % 10000 = t.level`), channel, c.limits, c.keys, c.starts, c.ends, levels, included)
	return tag.RowsAffected(), err
}
