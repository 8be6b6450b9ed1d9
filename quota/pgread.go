package quota

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
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
func argsOf(s *selection) []any {
	from := timeOf(max(s.from, earliest.UnixMicro()))
	return []any{s.limit, s.key, from, timeOf(s.to), from.Add(-longestPeriod), s.keys}
}

func (l *pgLedger) usage(ctx context.Context, s selection, yield func(use) error) error {
	rows, err := l.pool.Query(ctx, l.sql(`SELECT limit_name, key, period_start, period_end, sum(used - base)::bigint
		FROM {schema}.generation`+where+` GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`), argsOf(&s)...)
	if err != nil {
		return err
	}
	var u use
	_, err = pgx.ForEachRow(rows, append(accountOfRow(&u.account), &u.used), func() error { return yield(u) })
	return err
}

func (l *pgLedger) days(ctx context.Context, s selection) (all []dayUse, err error) {
	rows, err := l.pool.Query(ctx, l.sql(`SELECT limit_name, key, period_start, period_end, day, sum(units)::bigint FROM (
		SELECT d.*, d.used - lag(d.used, 1, g.base) OVER (
			PARTITION BY d.limit_name, d.key, d.period_start, d.period_end, d.generation ORDER BY d.position) AS units
		FROM (SELECT * FROM {schema}.day`+where+`) d
		JOIN {schema}.generation g USING (limit_name, key, period_start, period_end, generation)) u
		GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5`), argsOf(&s)...)
	if err != nil {
		return nil, err
	}
	var d dayUse
	var start, end, day time.Time
	_, err = pgx.ForEachRow(rows, []any{&d.limit, &d.key, &start, &end, &day, &d.used}, func() error {
		d.start, d.end, d.date = start.UnixMicro(), end.UnixMicro(), int32(day.Unix()/(24*3600))
		all = append(all, d)
		return nil
	})
	return all, err
}

func (l *pgLedger) tenants(ctx context.Context, a account, n int) ([]string, error) {
	rows, err := l.pool.Query(ctx, l.sql(`(SELECT key FROM {schema}.account WHERE limit_name = $1 AND period_start = $2 AND period_end = $3 AND key > $4 ORDER BY 1 LIMIT $5)
		UNION (SELECT DISTINCT tenant FROM {schema}.change WHERE limit_name = $1 AND at < $3 AND tenant > $4 ORDER BY 1 LIMIT $5)
		ORDER BY 1 LIMIT $5`), a.limit, timeOf(a.start), timeOf(a.end), a.key, n)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (l *pgLedger) open(ctx context.Context, at int64, after account, n int) ([]standing, error) {
	rows, err := l.pool.Query(ctx, l.sql(`SELECT limit_name, key, period_start, period_end,
		g.generation, base, position, used, (extract(epoch FROM at) * 1000000)::bigint, closed
		FROM (SELECT limit_name, key, period_start, period_end FROM {schema}.account
			WHERE period_end > $1 AND period_start > $2
			AND (limit_name, key, period_start, period_end) > ($3, $4, $5, $6)
			ORDER BY 1, 2, 3, 4 LIMIT $7) a
		JOIN {schema}.generation g USING (limit_name, key, period_start, period_end)
		ORDER BY 1, 2, 3, 4, 5`),
		timeOf(at), timeOf(at).Add(-longestPeriod), after.limit, after.key, timeOf(after.start), timeOf(after.end), n)
	if err != nil {
		return nil, err
	}
	var all []standing
	var a account
	var start, end time.Time
	var g life
	_, err = pgx.ForEachRow(rows, []any{&a.limit, &a.key, &start, &end, &g.generation, &g.base, &g.position, &g.used, &g.at, &g.closed}, func() error {
		a.start, a.end = start.UnixMicro(), end.UnixMicro()
		if len(all) == 0 || all[len(all)-1].account != a {
			all = append(all, standing{account: a})
		}
		s := &all[len(all)-1]
		s.lives = append(s.lives, g)
		s.total += g.used - g.base
		return nil
	})
	return all, err
}
