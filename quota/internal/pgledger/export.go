package pgledger

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/micros"
)

// OpenExport implements [ledger.Ledger].
func (l *Ledger) OpenExport(ctx context.Context, name string, since time.Time) error {
	from := since
	if from.IsZero() {
		from = time.Now()
	}
	// Of two clocks the earlier: a period that ends between them has to be sent.
	_, err := l.Pool.Exec(ctx, l.SQL(`INSERT INTO {schema}.sink (name, since, scanned, due)
		SELECT $1, t, t, now() FROM (SELECT CASE WHEN $3 THEN $2 ELSE least($2, now()) END AS t) s ON CONFLICT DO NOTHING`),
		name, from, !since.IsZero())
	return err
}

// BeginPass implements [ledger.Ledger].
func (l *Ledger) BeginPass(ctx context.Context, p *ledger.Pass) (ok bool, err error) {
	err = l.Pool.QueryRow(ctx, l.SQL(`UPDATE {schema}.sink SET owner = $2, lease = clock_timestamp() + $3, written = clock_timestamp()
		WHERE name = $1 AND (due <= clock_timestamp() AND (lease <= clock_timestamp() OR owner = $2) OR `+setBack+`)
		RETURNING greatest(since, least(scanned, now()) - $4::interval), now(), whole NOT BETWEEN now() - $5::interval AND now()`),
		p.Name, p.Process, p.Lease, ledger.Lateness, ledger.WholeEvery).Scan(&p.Since, &p.Began, &p.Whole)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// setBack says that the server's clock is behind the one that wrote a row: it was set back, or another
// server took over. A second more or less is no reason to take a lease from a process that holds it.
const setBack = `written > clock_timestamp() + interval '1 second'`

// renewLease has a process hold its lease for its whole length again.
const renewLease = `UPDATE {schema}.sink SET lease = clock_timestamp() + $3, written = clock_timestamp() WHERE name = $1 AND owner = $2`

// accountsToExport selects a page of accounts.
const accountsToExport = `
SELECT limit_name, key, period_start, period_end FROM {schema}.account
WHERE period_end > $1 AND period_start > $2 AND (cardinality($3::text[]) = 0 OR limit_name = ANY ($3::text[]))
AND (limit_name, key, period_start, period_end) > ($4, $5, $6, $7)
ORDER BY 1, 2, 3, 4 LIMIT $8`

// insertIncrements writes an increment for each day of accounts on which more was used than the
// receiver has, and none is on its way. Accounts without a new position are passed over, unless
// the pass is a whole one. All of it is one statement, and so sees one state of the ledger.
const insertIncrements = `
WITH present AS (
	SELECT t.*, sum(g.position)::bigint AS positions
	FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[]) AS t (limit_name, key, period_start, period_end)
	JOIN {schema}.generation g USING (limit_name, key, period_start, period_end)
	GROUP BY 1, 2, 3, 4
), changed AS MATERIALIZED (
	SELECT p.* FROM present p
	LEFT JOIN {schema}.exported x ON (x.limit_name, x.key, x.period_start, x.period_end) = (p.limit_name, p.key, p.period_start, p.period_end) AND x.sink = $5
	WHERE $7 OR x.positions IS DISTINCT FROM p.positions
), noted AS ( -- those with an increment on its way are looked at again
	INSERT INTO {schema}.exported AS x (sink, limit_name, key, period_start, period_end, positions)
	SELECT $5, c.* FROM changed c WHERE NOT EXISTS (
		SELECT FROM {schema}.export e WHERE e.sink = $5 AND e.pending IS NOT NULL
		AND (e.limit_name, e.key, e.period_start, e.period_end) = (c.limit_name, c.key, c.period_start, c.period_end))
	ORDER BY 2, 3, 4, 5
	ON CONFLICT (limit_name, key, period_start, period_end, sink) DO UPDATE SET positions = excluded.positions
	WHERE x.positions <> excluded.positions
)
INSERT INTO {schema}.export AS e (sink, limit_name, key, period_start, period_end, day, sent, seq, pending, at)
SELECT $5, limit_name, key, period_start, period_end, day, 0, 1, u.total, u.at
FROM (
	SELECT limit_name, key, period_start, period_end, day, sum(units)::bigint AS total, max(at) AS at FROM (
		SELECT d.*, d.used - lag(d.used, 1, g.base) OVER (
			PARTITION BY d.limit_name, d.key, d.period_start, d.period_end, d.generation ORDER BY d.position) AS units
		FROM changed
		JOIN {schema}.day d USING (limit_name, key, period_start, period_end)
		JOIN {schema}.generation g USING (limit_name, key, period_start, period_end, generation)
	) s GROUP BY 1, 2, 3, 4, 5
) u
LEFT JOIN (SELECT * FROM {schema}.export WHERE sink = $5) x USING (limit_name, key, period_start, period_end, day)
WHERE x.pending IS NULL AND (u.total > coalesce(x.sent, 0) OR u.total < coalesce(x.sent, 0) AND NOT $6)
ORDER BY 2, 3, 4, 5, 6
ON CONFLICT (limit_name, key, period_start, period_end, day, sink)
DO UPDATE SET pending = excluded.pending - e.sent, seq = e.seq + 1, at = excluded.at
WHERE e.pending IS NULL AND (excluded.pending > e.sent OR excluded.pending < e.sent AND NOT $6)`

// selectIncrements selects what the receiver does not have.
const selectIncrements = `
SELECT limit_name, key, period_start, period_end, day, seq, sent, pending, e.at
FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[]) AS t (limit_name, key, period_start, period_end)
JOIN {schema}.export e USING (limit_name, key, period_start, period_end)
WHERE e.sink = $5 AND e.pending IS NOT NULL
ORDER BY 1, 2, 3, 4, 5`

// accountsAfter returns the next page of accounts. It keeps the planner from sorting all the
// accounts that are left, for each page again, instead of reading the index in its order.
func (l *Ledger) accountsAfter(ctx context.Context, p *ledger.Pass, after *ledger.Account, n int) (c accountColumns, err error) {
	err = pgx.BeginFunc(ctx, l.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL enable_sort = off"); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, l.SQL(accountsToExport), p.Since, p.Since.Add(-longestPeriod), append([]string{}, p.Limits...),
			after.Limit, after.Key, micros.Time(after.Start), micros.Time(after.End), n)
		if err != nil {
			return err
		}
		var a ledger.Account
		_, err = pgx.ForEachRow(rows, accountOfRow(&a), func() error {
			c.add(&a)
			return nil
		})
		return err
	})
	return c, err
}

// NextIncrements implements [ledger.Ledger].
func (l *Ledger) NextIncrements(ctx context.Context, p *ledger.Pass, after ledger.Account, n int) (page ledger.Page, ok bool, err error) {
	tag, err := l.Pool.Exec(ctx, l.SQL(renewLease), p.Name, p.Process, p.Lease)
	if err != nil || tag.RowsAffected() == 0 {
		return page, false, err
	}
	c, err := l.accountsAfter(ctx, p, &after, n)
	if err != nil || len(c.limits) == 0 {
		return page, err == nil, err
	}
	last := len(c.limits) - 1
	page.Last = ledger.Account{Limit: c.limits[last], Key: c.keys[last], Start: c.starts[last].UnixMicro(), End: c.ends[last].UnixMicro()}
	page.More = len(c.limits) == n
	starts := func(yield func(int64) bool) {
		for _, start := range c.starts {
			if !yield(start.UnixMicro()) {
				return
			}
		}
	}
	err = l.again(ctx, starts, func() error {
		_, err := l.Pool.Exec(ctx, l.SQL(insertIncrements), c.limits, c.keys, c.starts, c.ends, p.Name, p.HoldBack, p.Whole)
		return err
	})
	if err != nil {
		return page, false, err
	}
	rows, err := l.Pool.Query(ctx, l.SQL(selectIncrements), c.limits, c.keys, c.starts, c.ends, p.Name)
	if err != nil {
		return page, false, err
	}
	page.All, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (i ledger.Increment, err error) {
		var day time.Time
		err = row.Scan(append(accountOfRow(&i.Account), &day, &i.Seq, &i.Sent, &i.Value, (*timestamp)(&i.At))...)
		i.Date = int32(day.Unix() / (24 * 3600))
		return i, err
	})
	return page, err == nil, err
}

// accountOfRow returns where a row's account goes.
func accountOfRow(a *ledger.Account) []any {
	return []any{&a.Limit, &a.Key, (*timestamp)(&a.Start), (*timestamp)(&a.End)}
}

// Sent implements [ledger.Ledger].
func (l *Ledger) Sent(ctx context.Context, p *ledger.Pass, all []ledger.Increment) error {
	var c accountColumns
	var days []time.Time
	var seqs []int64
	for i := range all {
		c.add(&all[i].Account)
		days, seqs = append(days, micros.Date(all[i].Date)), append(seqs, all[i].Seq)
	}
	var batch pgx.Batch
	batch.Queue(l.SQL(`UPDATE {schema}.export e SET sent = e.sent + e.pending, pending = NULL
		FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::date[], $6::bigint[])
		AS t (limit_name, key, period_start, period_end, day, seq)
		WHERE (e.limit_name, e.key, e.period_start, e.period_end, e.day) = (t.limit_name, t.key, t.period_start, t.period_end, t.day)
		AND e.sink = $7 AND e.seq = t.seq AND e.pending IS NOT NULL`), c.limits, c.keys, c.starts, c.ends, days, seqs, p.Name)
	batch.Queue(l.SQL(renewLease), p.Name, p.Process, p.Lease)
	return l.Pool.SendBatch(ctx, &batch).Close()
}

// Pending implements [ledger.Ledger].
func (l *Ledger) Pending(ctx context.Context, name string, most int) (n int64, err error) {
	err = l.Pool.QueryRow(ctx, l.SQL(`SELECT count(*) FROM
		(SELECT FROM {schema}.export WHERE sink = $1 AND pending IS NOT NULL LIMIT $2) e`), name, most).Scan(&n)
	return n, err
}

// EndPass implements [ledger.Ledger].
func (l *Ledger) EndPass(ctx context.Context, p *ledger.Pass, complete bool, pause time.Duration) error {
	_, err := l.Pool.Exec(ctx, l.SQL(`UPDATE {schema}.sink SET owner = '', lease = 'epoch', due = clock_timestamp() + $4, written = clock_timestamp(),
		scanned = CASE WHEN $3 THEN $5 ELSE scanned END, whole = CASE WHEN $3 AND $6 THEN $5 ELSE whole END
		WHERE name = $1 AND owner = $2`), p.Name, p.Process, complete, pause, p.Began, p.Whole)
	return err
}
