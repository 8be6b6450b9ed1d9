// Package pgledger keeps a book in PostgreSQL.
//
// All processes write batches of accounts in one order, that of [ledger.Compare], and lock rows in that order by writing
// them, so none waits for another in a circle. What PostgreSQL ends as a deadlock nevertheless, such as against a
// partition that is being made, is done once more: see again. Beside rows there are two advisory locks, for migrations and
// for partitions; no transaction takes one of them after a row, nor both.
//
// The tables that grow have a partition for each month, so that old months leave without a DELETE: see partitions.go.
package pgledger

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/quota/internal/ledger"
)

// Ledger is the ledger in PostgreSQL. Its statements work on whole batches, by arrays in the
// order of accounts, so that processes can't wait for each other in a circle.
type Ledger struct {
	Pool   *pgxpool.Pool
	schema string
	levels []int       // percent, of the bits of Position.Levels
	ready  atomic.Bool // the tables are there

	Silence time.Duration // see listenCheck

	text struct {
		states, days, behind, notices, begun, unknown, known, accounts, closing, begin string
	}
}

// New returns the ledger in a schema. levels are those of Config.Levels.
func New(pool *pgxpool.Pool, schema string, levels []int) *Ledger {
	l := &Ledger{Pool: pool, schema: schema, levels: levels, Silence: listenCheck}
	for to, text := range map[*string]string{
		&l.text.states: insertStates, &l.text.days: insertDays, &l.text.behind: selectBehind, &l.text.notices: insertNotices,
		&l.text.begun: insertBegun, &l.text.unknown: updateUnknown, &l.text.known: upsertKnown,
		&l.text.accounts: upsertAccounts, &l.text.closing: updateClosed, &l.text.begin: insertGenerations,
	} {
		*to = l.SQL(text)
	}
	return l
}

const (
	// insertStates writes the states of generations. One that is new to the ledger gets a base of -1,
	// until the end of the transaction.
	insertStates = `
INSERT INTO {schema}.generation AS g (limit_name, key, period_start, period_end, generation, position, used, at, base)
SELECT *, -1 FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::bigint[], $6::bigint[], $7::bigint[], $8::timestamptz[])
ON CONFLICT (limit_name, key, period_start, period_end, generation)
DO UPDATE SET position = excluded.position, used = excluded.used, at = excluded.at
WHERE excluded.position > g.position AND NOT g.closed`

	// selectBehind finds the states that were not written, or whose generation is unknown.
	selectBehind = `
SELECT t.n, g.closed, g.position, g.used, (extract(epoch FROM g.at) * 1000000)::bigint, g.base
FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::bigint[], $6::bigint[], $7::bigint[])
WITH ORDINALITY AS t (limit_name, key, period_start, period_end, generation, position, used, n)
JOIN {schema}.generation g USING (limit_name, key, period_start, period_end, generation)
WHERE g.closed OR g.position > t.position OR g.used <> t.used OR g.base < 0`

	insertDays = `
INSERT INTO {schema}.day AS d (limit_name, key, period_start, period_end, generation, position, used, day, at)
SELECT t.* FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::bigint[], $6::bigint[], $7::bigint[], $8::date[], $9::timestamptz[])
AS t (limit_name, key, period_start, period_end, generation, position, used, day, at)
ON CONFLICT (limit_name, key, period_start, period_end, generation, day)
DO UPDATE SET position = excluded.position, used = excluded.used, at = excluded.at
WHERE excluded.position > d.position`

	// insertNotices writes the notices that are new, as notice.follows says: see AgainStep.
	insertNotices = `
WITH made AS (
	INSERT INTO {schema}.notice (limit_name, key, period_start, period_end, level, used, included, hard, at)
	SELECT limit_name, key, period_start, period_end, level + 10000 * before.times, t.used, t.included, hard, at
	FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::int[], $6::bigint[], $7::bigint[], $8::bigint[], $9::timestamptz[])
	AS t (limit_name, key, period_start, period_end, level, used, included, hard, at)
	CROSS JOIN LATERAL (
		SELECT count(*) FILTER (WHERE o.level % 10000 = t.level)::int AS times,
		max(o.included) FILTER (WHERE o.level % 10000 = t.level) AS included, max(o.used) AS used
		FROM {schema}.notice o WHERE (o.limit_name, o.key, o.period_start, o.period_end) = (t.limit_name, t.key, t.period_start, t.period_end)) before
	WHERE before.times = 0 OR t.included > before.included AND (t.included * t.level + 99) / 100 > before.used
	ORDER BY 1, 2, 3, 4, 5
	ON CONFLICT (limit_name, key, period_start, period_end, level) DO NOTHING
	RETURNING id
)
INSERT INTO {schema}.delivery (channel, notice) SELECT name, id FROM made CROSS JOIN {schema}.channel`

	// insertBegun makes the accounts of first generations, which stores begin by themselves with nothing
	// used: the ledger hears of them with the first position that is written.
	insertBegun = `
WITH begun AS (
	UPDATE {schema}.generation g SET base = 0
	FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[]) AS t (limit_name, key, period_start, period_end)
	WHERE (g.limit_name, g.key, g.period_start, g.period_end, g.generation) = (t.limit_name, t.key, t.period_start, t.period_end, 1)
)
INSERT INTO {schema}.account (limit_name, key, period_start, period_end, generation)
SELECT *, 1 FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[])
ON CONFLICT (limit_name, key, period_start, period_end) DO NOTHING`

	// updateUnknown sets the base of later generations that the ledger has lost.
	updateUnknown = `
UPDATE {schema}.generation g SET base = least(g.used, (
	SELECT coalesce(sum(o.used - o.base), 0) FROM {schema}.generation o
	WHERE (o.limit_name, o.key, o.period_start, o.period_end) = (g.limit_name, g.key, g.period_start, g.period_end) AND o.base >= 0))
FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::bigint[])
AS t (limit_name, key, period_start, period_end, generation)
WHERE (g.limit_name, g.key, g.period_start, g.period_end, g.generation) = (t.limit_name, t.key, t.period_start, t.period_end, t.generation)`

	// upsertKnown makes sure that later generations have higher numbers.
	upsertKnown = `
INSERT INTO {schema}.account AS a (limit_name, key, period_start, period_end, generation)
SELECT * FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::bigint[])
ON CONFLICT (limit_name, key, period_start, period_end)
DO UPDATE SET generation = greatest(a.generation, excluded.generation)`

	upsertAccounts = `
INSERT INTO {schema}.account AS a (limit_name, key, period_start, period_end, generation)
SELECT *, 2 FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[])
ON CONFLICT (limit_name, key, period_start, period_end)
DO UPDATE SET generation = a.generation + 1`

	// updateClosed closes generations. One of which the store has used more than the ledger knows ends with
	// that, as the last use of its day.
	updateClosed = `
WITH last AS (
	SELECT t.*, greatest(g.position, t.position) + 1 AS after FROM {schema}.generation g
	JOIN unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::bigint[], $6::bigint[], $7::bigint[], $8::timestamptz[], $9::date[])
	AS t (limit_name, key, period_start, period_end, generation, position, used, at, day) USING (limit_name, key, period_start, period_end, generation)
	WHERE t.used > g.used
), days AS (
	INSERT INTO {schema}.day AS d (limit_name, key, period_start, period_end, generation, position, used, day, at)
	SELECT limit_name, key, period_start, period_end, generation, after, used, day, at FROM last
	ON CONFLICT (limit_name, key, period_start, period_end, generation, day)
	DO UPDATE SET position = excluded.position, used = excluded.used, at = excluded.at
)
UPDATE {schema}.generation g SET closed = true,
	position = coalesce(l.after, g.position), used = coalesce(l.used, g.used), at = greatest(g.at, l.at)
FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::bigint[])
AS t (limit_name, key, period_start, period_end, generation)
LEFT JOIN last l USING (limit_name, key, period_start, period_end, generation)
WHERE (g.limit_name, g.key, g.period_start, g.period_end, g.generation) = (t.limit_name, t.key, t.period_start, t.period_end, t.generation)`

	// insertGenerations begins generations with what was used, up to MaxBase.
	insertGenerations = `
WITH made AS (
	INSERT INTO {schema}.generation (limit_name, key, period_start, period_end, generation, base, position, used, at)
	SELECT a.limit_name, a.key, a.period_start, a.period_end, a.generation, b.base, a.generation << 36, b.base, 'epoch'
	FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[]) AS t (limit_name, key, period_start, period_end)
	JOIN {schema}.account a USING (limit_name, key, period_start, period_end)
	CROSS JOIN LATERAL (
		SELECT coalesce(sum(g.used - g.base), 0)::bigint AS total FROM {schema}.generation g
		WHERE (g.limit_name, g.key, g.period_start, g.period_end) = (a.limit_name, a.key, a.period_start, a.period_end)) s
	CROSS JOIN LATERAL (SELECT least(greatest(s.total, 0), 2251799813685247) AS base) b
	RETURNING *
)
SELECT t.n, made.generation, made.base
FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[]) WITH ORDINALITY AS t (limit_name, key, period_start, period_end, n)
JOIN made USING (limit_name, key, period_start, period_end)`
)

// Begin implements [ledger.Ledger].
func (l *Ledger) Begin(ctx context.Context, openings []ledger.Opening, positions []ledger.Position, answers []ledger.Begun) error {
	starts := func(yield func(int64) bool) {
		for i := range openings {
			if !yield(openings[i].Start) {
				return
			}
		}
		for i := range positions {
			if !yield(positions[i].Start) {
				return
			}
		}
	}
	return l.again(ctx, starts, func() error {
		return pgx.BeginFunc(ctx, l.Pool, func(tx pgx.Tx) error {
			if len(positions) > 0 {
				if err := l.write(ctx, tx, positions); err != nil {
					return err
				}
			}
			return l.beginIn(ctx, tx, openings, answers)
		})
	})
}

// beginIn begins generations. The accounts' rows are locked by the first statement, so that
// no two transactions begin the same.
func (l *Ledger) beginIn(ctx context.Context, tx pgx.Tx, openings []ledger.Opening, answers []ledger.Begun) error {
	order := make([]int, len(openings)) // so that no two transactions wait for each other
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return ledger.Compare(&openings[i].Account, &openings[j].Account) })
	var all accountColumns
	var closing stateColumns
	for _, i := range order {
		all.add(&openings[i].Account)
		if openings[i].Closes != nil {
			closing.add(openings[i].Closes)
		}
	}
	var batch pgx.Batch
	batch.Queue(l.text.accounts, all.limits, all.keys, all.starts, all.ends)
	if len(closing.keys) > 0 {
		batch.Queue(l.text.closing, closing.limits, closing.keys, closing.starts, closing.ends, closing.generations,
			closing.positions, closing.used, closing.at, closing.days)
	}
	found := 0
	batch.Queue(l.text.begin, all.limits, all.keys, all.starts, all.ends).Query(func(rows pgx.Rows) error {
		var n, generation, base int64
		_, err := pgx.ForEachRow(rows, []any{&n, &generation, &base}, func() error {
			answers[order[n-1]] = ledger.Begun{Generation: generation, Total: base}
			found++
			return nil
		})
		return err
	})
	if err := tx.SendBatch(ctx, &batch).Close(); err != nil {
		return err
	}
	if found != len(openings) {
		return fmt.Errorf("weblimit: quota: the ledger began %d of %d generations", found, len(openings))
	}
	return nil
}
