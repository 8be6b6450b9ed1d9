package pgledger

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/micros"
)

// longestPeriod bounds how long before a time a period that it is in can begin, so that
// queries read the partitions that they need and no others.
const longestPeriod = 40 * 24 * time.Hour

// where selects accounts: see argsOf.
const where = `
WHERE ($1 = '' OR limit_name = $1) AND ($2 = '' OR key = $2)
AND period_end > $3 AND period_start < $4 AND period_start > $5 AND ($6::text[] IS NULL OR key = ANY ($6))`

// earliest is earlier than any period, and within what PostgreSQL can store.
var earliest = time.Date(1900, time.January, 1, 0, 0, 0, 0, time.UTC)

// argsOf returns the arguments of where.
func argsOf(s *ledger.Selection) []any {
	from := micros.Time(max(s.From, earliest.UnixMicro()))
	return []any{s.Limit, s.Key, from, micros.Time(s.To), from.Add(-longestPeriod), s.Keys}
}

// Usage implements [ledger.Ledger].
func (l *Ledger) Usage(ctx context.Context, s ledger.Selection, yield func(ledger.Use) error) error {
	rows, err := l.Pool.Query(ctx, l.SQL(`SELECT limit_name, key, period_start, period_end, sum(used - base)::bigint
		FROM {schema}.generation`+where+` GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`), argsOf(&s)...)
	if err != nil {
		return err
	}
	var u ledger.Use
	_, err = pgx.ForEachRow(rows, append(accountOfRow(&u.Account), &u.Used), func() error { return yield(u) })
	return err
}

// Days implements [ledger.Ledger].
func (l *Ledger) Days(ctx context.Context, s ledger.Selection) (all []ledger.DayUse, err error) {
	rows, err := l.Pool.Query(ctx, l.SQL(`SELECT limit_name, key, period_start, period_end, day, sum(units)::bigint FROM (
		SELECT d.*, d.used - lag(d.used, 1, g.base) OVER (
			PARTITION BY d.limit_name, d.key, d.period_start, d.period_end, d.generation ORDER BY d.position) AS units
		FROM (SELECT * FROM {schema}.day`+where+`) d
		JOIN {schema}.generation g USING (limit_name, key, period_start, period_end, generation)) u
		GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5`), argsOf(&s)...)
	if err != nil {
		return nil, err
	}
	var d ledger.DayUse
	var day time.Time
	_, err = pgx.ForEachRow(rows, append(accountOfRow(&d.Account), &day, &d.Used), func() error {
		d.Date = int32(day.Unix() / (24 * 3600))
		all = append(all, d)
		return nil
	})
	return all, err
}

// Tenants implements [ledger.Ledger].
func (l *Ledger) Tenants(ctx context.Context, a ledger.Account, n int) ([]string, error) {
	rows, err := l.Pool.Query(ctx, l.SQL(`(SELECT key FROM {schema}.account WHERE limit_name = $1 AND period_start = $2 AND period_end = $3 AND key > $4 ORDER BY 1 LIMIT $5)
		UNION (SELECT DISTINCT tenant FROM {schema}.change WHERE limit_name = $1 AND at < $3 AND tenant > $4 ORDER BY 1 LIMIT $5)
		ORDER BY 1 LIMIT $5`), a.Limit, micros.Time(a.Start), micros.Time(a.End), a.Key, n)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// Open implements [ledger.Ledger].
func (l *Ledger) Open(ctx context.Context, at int64, after ledger.Account, n int) ([]ledger.Standing, error) {
	rows, err := l.Pool.Query(ctx, l.SQL(`SELECT limit_name, key, period_start, period_end,
		g.generation, base, position, used, (extract(epoch FROM at) * 1000000)::bigint, closed
		FROM (SELECT limit_name, key, period_start, period_end FROM {schema}.account
			WHERE period_end > $1 AND period_start > $2
			AND (limit_name, key, period_start, period_end) > ($3, $4, $5, $6)
			ORDER BY 1, 2, 3, 4 LIMIT $7) a
		JOIN {schema}.generation g USING (limit_name, key, period_start, period_end)
		ORDER BY 1, 2, 3, 4, 5`),
		micros.Time(at), micros.Time(at).Add(-longestPeriod), after.Limit, after.Key, micros.Time(after.Start), micros.Time(after.End), n)
	if err != nil {
		return nil, err
	}
	var all []ledger.Standing
	var a ledger.Account
	var g ledger.Life
	_, err = pgx.ForEachRow(rows, append(accountOfRow(&a), &g.Generation, &g.Base, &g.Position, &g.Used, &g.At, &g.Closed), func() error {
		if len(all) == 0 || all[len(all)-1].Account != a {
			all = append(all, ledger.Standing{Account: a})
		}
		s := &all[len(all)-1]
		s.Lives = append(s.Lives, g)
		s.Total += g.Used - g.Base
		return nil
	})
	return all, err
}
