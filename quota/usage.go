package quota

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/micros"
)

// Query selects accounts. The zero Query selects all that are current.
type Query struct {
	// Limit is the limit's name. Defaults to all limits.
	Limit string

	// Tenant is the key as the limit counts it, such as keyfuncs.Encode("tenant", "acme").
	// Defaults to all tenants.
	Tenant string

	// From and To select periods that overlap the time from From until To. A period that ends
	// at From, or begins at To, does not. Either may be zero: then nothing is too early, or too late.
	// Both default to now.
	From, To time.Time
}

// Usage is the use of a limit by one tenant in one period.
type Usage struct {
	Limit  string
	Tenant string // the key as the limit counts it
	Start  time.Time
	End    time.Time
	Used   int64
}

// DayUsage is the use of a limit by one tenant on one day.
type DayUsage struct {
	Usage // of the day; Start and End are those of the period

	// Day is the day in the limit's time zone, as midnight in UTC.
	Day time.Time
}

// during returns the query with times, given the present.
func (q Query) during(now time.Time) Query {
	if q.From.IsZero() && q.To.IsZero() {
		q.From, q.To = now, now.Add(time.Microsecond)
	}
	if q.To.IsZero() {
		q.To = micros.FarFuture
	}
	return q
}

// selection returns the query as the ledger wants it.
func (q Query) selection() ledger.Selection {
	q = q.during(time.Now())
	s := ledger.Selection{Limit: q.Limit, From: micros.Of(q.From), To: micros.Of(q.To)}
	if q.Tenant != "" {
		s.Key = ledger.TextOf([]byte(q.Tenant))
	}
	return s
}

func usageOf(a *ledger.Account, used int64) Usage {
	return Usage{Limit: a.Limit, Tenant: tenantOf(a.Key), Start: micros.Time(a.Start), End: micros.Time(a.End), Used: used}
}

// Usage yields the use of the accounts that a query selects, in the order of limit, tenant and
// period. It reads what is written: the last Config.FlushEvery may be missing. An error ends it: [ErrUnknownLimit] if
// there is no limit of the query's name.
func (b *Book) Usage(ctx context.Context, q Query) iter.Seq2[Usage, error] {
	return func(yield func(Usage, error) bool) {
		found := false
		err := q.validate()
		if err == nil {
			err = b.ledger.Usage(ctx, q.selection(), func(u ledger.Use) error {
				found = true
				if !yield(usageOf(&u.Account, u.Used), nil) {
					return errStop
				}
				return nil
			})
			if err != nil && !errors.Is(err, errStop) {
				err = fmt.Errorf("weblimit: quota: asking the ledger: %w", err)
			}
		}
		if err == nil && !found {
			err = b.wantLimit(ctx, q.Limit)
		}
		if err != nil && !errors.Is(err, errStop) {
			yield(Usage{}, err)
		}
	}
}

var errStop = errors.New("weblimit: quota: the caller needs no more")

// Days returns the use by day of the accounts that a query selects, in the order of limit, tenant,
// period and day. Days without use are left out. Units that were given back on a later day
// count there, and can make it negative. The errors are those of [Book.Usage].
func (b *Book) Days(ctx context.Context, q Query) ([]DayUsage, error) {
	if err := q.validate(); err != nil {
		return nil, err
	}
	days, err := b.ledger.Days(ctx, q.selection())
	if err != nil {
		return nil, fmt.Errorf("weblimit: quota: asking the ledger: %w", err)
	}
	if len(days) == 0 {
		if err := b.wantLimit(ctx, q.Limit); err != nil {
			return nil, err
		}
	}
	all := make([]DayUsage, len(days))
	for i, d := range days {
		all[i] = DayUsage{usageOf(&d.Account, d.Used), micros.Date(d.Date)}
	}
	return all, nil
}

// validate returns an error for a query that can select nothing.
func (q *Query) validate() error {
	if !q.To.IsZero() && !q.From.Before(q.To) {
		return fmt.Errorf("weblimit: quota: Query.From is %v, and To %v, which must be later", q.From, q.To)
	}
	return nil
}

// wantLimit returns [ErrUnknownLimit] for a limit of which nothing was found, if there is none of that name. It may be "".
func (b *Book) wantLimit(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	_, err := b.limit(ctx, name)
	return err
}

// tenantOf returns the tenant of a text, which is the text itself if only its hash is known.
func tenantOf(text string) string {
	if key, known := ledger.KeyOf(text); known {
		return string(key)
	}
	return text
}

// UsedByDay returns the units that a tenant has used under a limit on each day, such as "2026-11-28", of the period that a
// time is in: what usage.Config.Days takes. It is written to the ledger up to Config.FlushEvery ago. A limit that the book does
// not know has no days.
func (b *Book) UsedByDay(ctx context.Context, limit, tenant string, at time.Time) (map[string]int64, error) {
	all, err := b.Days(ctx, Query{Limit: limit, Tenant: tenant, From: at, To: at.Add(time.Microsecond)})
	switch {
	case errors.Is(err, ErrUnknownLimit):
		return nil, nil
	case err != nil:
		return nil, err
	}
	days := make(map[string]int64, len(all))
	for i := range all {
		days[all[i].Day.Format(time.DateOnly)] = all[i].Used
	}
	return days, nil
}
