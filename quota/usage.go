package quota

import (
	"cmp"
	"time"
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
	Limit  string
	Tenant string
	Start  time.Time // of the period
	End    time.Time

	// Day is the day in the limit's time zone, as midnight in UTC.
	Day  time.Time
	Used int64
}

// during returns the query with times, given the present.
func (q Query) during(now time.Time) Query {
	if q.From.IsZero() && q.To.IsZero() {
		q.From, q.To = now, now.Add(time.Microsecond)
	}
	if q.To.IsZero() {
		q.To = farFuture
	}
	return q
}

// farFuture is later than any period, and within what PostgreSQL can store.
var farFuture = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)

// selects reports whether the query selects an account.
func (q *Query) selects(a *account) bool {
	return (q.Limit == "" || q.Limit == a.limit) && (q.Tenant == "" || q.Tenant == a.key) &&
		a.end > micros(q.From) && a.start < micros(q.To)
}

func usageOf(a *account, used int64) Usage {
	return Usage{Limit: a.limit, Tenant: a.key, Start: timeOf(a.start), End: timeOf(a.end), Used: used}
}

func compareAccounts(a, b *account) int {
	return cmp.Or(cmp.Compare(a.limit, b.limit), cmp.Compare(a.key, b.key), cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end))
}

// micros returns a time in microseconds since the epoch; the zero time is the earliest.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return -1 << 60
	}
	return t.UnixMicro()
}

func timeOf(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// dateOf returns the start of a day, given in days since the epoch.
func dateOf(date int32) time.Time { return time.Unix(int64(date)*24*3600, 0).UTC() }
