package pgledger

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/weblimit/weblimit/quota/internal/ledger"
)

// OpenChannels implements [ledger.Ledger].
func (l *Ledger) OpenChannels(ctx context.Context, names []string) error {
	_, err := l.Pool.Exec(ctx, l.SQL(`INSERT INTO {schema}.channel (name) SELECT unnest($1::text[]) ORDER BY 1 ON CONFLICT DO NOTHING`), names)
	return err
}

// Channels implements [ledger.Ledger].
func (l *Ledger) Channels(ctx context.Context) ([]string, error) {
	rows, err := l.Pool.Query(ctx, l.SQL("SELECT name FROM {schema}.channel ORDER BY 1"))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// RemoveChannel implements [ledger.Ledger].
func (l *Ledger) RemoveChannel(ctx context.Context, name string) (known bool, err error) {
	err = pgx.BeginFunc(ctx, l.Pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, l.SQL("DELETE FROM {schema}.channel WHERE name = $1"), name)
		if err != nil {
			return err
		}
		known = tag.RowsAffected() > 0
		_, err = tx.Exec(ctx, l.SQL("DELETE FROM {schema}.delivery WHERE channel = $1"), name)
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

// Claim implements [ledger.Ledger].
func (l *Ledger) Claim(ctx context.Context, channel string, again bool, busy []string, n int, lease time.Duration) ([]ledger.Delivery, error) {
	rows, err := l.Pool.Query(ctx, l.SQL(claimDeliveries), channel, again, busy, n, lease)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (ledger.Delivery, error) {
		d := ledger.Delivery{Channel: channel}
		err := row.Scan(append([]any{&d.ID, &d.Attempts}, noticeOfRow(&d.Notice)...)...)
		return d, err
	})
}

// noticeOfRow returns where a row's notice goes.
func noticeOfRow(n *ledger.Notice) []any {
	return append(accountOfRow(&n.Account), &n.Level, &n.Used, &n.Included, &n.Hard, (*timestamp)(&n.At))
}

// timestamp reads a timestamp as microseconds.
type timestamp int64

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (m *timestamp) ScanTimestamptz(v pgtype.Timestamptz) error {
	*m = timestamp(v.Time.UnixMicro())
	return nil
}

// Waiting implements [ledger.Ledger].
func (l *Ledger) Waiting(ctx context.Context, channel string, most int) (n int64, err error) {
	err = l.Pool.QueryRow(ctx, l.SQL(`SELECT count(*) FROM
		(SELECT FROM {schema}.delivery WHERE channel = $1 AND state = 'waiting' LIMIT $2) d`), channel, most).Scan(&n)
	return n, err
}

// Settle implements [ledger.Ledger].
func (l *Ledger) Settle(ctx context.Context, d *ledger.Delivery, s *ledger.Settlement) error {
	text, args := "", []any{d.Channel, d.ID}
	switch s.Verdict {
	case ledger.Delivered: // even if another attempt has begun meanwhile
		text = "SET state = 'delivered', delivered = clock_timestamp(), error = '' WHERE state <> 'delivered'"
	case ledger.Failed:
		text = "SET due = clock_timestamp() + $4, written = clock_timestamp(), error = $5 WHERE state = 'waiting' AND attempts = $3"
		args = append(args, d.Attempts, s.Pause, s.Err)
	case ledger.Dead:
		text = "SET state = 'dead', error = $4 WHERE state = 'waiting' AND attempts = $3"
		args = append(args, d.Attempts, s.Err)
	case ledger.Released:
		text = "SET due = clock_timestamp(), written = clock_timestamp(), attempts = attempts - 1 WHERE state = 'waiting' AND attempts = $3"
		args = append(args, d.Attempts)
	}
	_, err := l.Pool.Exec(ctx, l.SQL("UPDATE {schema}.delivery ")+text+" AND channel = $1 AND notice = $2", args...)
	return err
}

// Deliveries implements [ledger.Ledger].
func (l *Ledger) Deliveries(ctx context.Context, s ledger.DeliverySelection, yield func(*ledger.DeliveryRow) error) error {
	rows, err := l.Pool.Query(ctx, l.SQL(`SELECT d.channel, d.state, d.attempts, d.due, d.delivered, d.error,
		n.limit_name, n.key, n.period_start, n.period_end, n.level, n.used, n.included, n.hard, n.at
		FROM {schema}.delivery d JOIN {schema}.notice n ON n.id = d.notice
		WHERE ($1 = '' OR d.channel = $1) AND ($2 = '' OR d.state = $2) AND ($3 = '' OR n.limit_name = $3) AND ($4 = '' OR n.key = $4)
		ORDER BY d.notice DESC, d.channel`), s.Channel, s.State, s.Limit, s.Key)
	if err != nil {
		return err
	}
	var d ledger.DeliveryRow
	var at *time.Time
	_, err = pgx.ForEachRow(rows, append([]any{&d.Channel, &d.State, &d.Attempts, &d.Due, &at, &d.Err}, noticeOfRow(&d.Notice)...), func() error {
		d.Due, d.Delivered = d.Due.UTC(), time.Time{}
		if at != nil {
			d.Delivered = at.UTC()
		}
		return yield(&d)
	})
	return err
}

// Redeliver implements [ledger.Ledger].
func (l *Ledger) Redeliver(ctx context.Context, channel string, notices []ledger.Account, levels []int32, included []int64) (int64, error) {
	const again = "UPDATE {schema}.delivery d SET state = 'waiting', attempts = 0, due = clock_timestamp(), delivered = NULL"
	if len(notices) == 0 {
		tag, err := l.Pool.Exec(ctx, l.SQL(again+" WHERE channel = $1 AND state = 'dead'"), channel)
		return tag.RowsAffected(), err
	}
	var c accountColumns
	for i := range notices {
		c.add(&notices[i])
	}
	tag, err := l.Pool.Exec(ctx, l.SQL(again+` FROM {schema}.notice n
		JOIN unnest($2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::int[], $7::bigint[])
		AS t (limit_name, key, period_start, period_end, level, included) USING (limit_name, key, period_start, period_end, included)
		WHERE d.channel = $1 AND d.notice = n.id AND n.level % 10000 = t.level`), channel, c.limits, c.keys, c.starts, c.ends, levels, included)
	return tag.RowsAffected(), err
}
