// Package micros is for times as the ledger has them: in microseconds since the epoch, in UTC.
package micros

import "time"

// FarFuture is later than any period, and within what PostgreSQL can store.
var FarFuture = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)

// Of returns a time in microseconds since the epoch; the zero time is the earliest.
func Of(t time.Time) int64 {
	if t.IsZero() {
		return -1 << 60
	}
	return t.UnixMicro()
}

// Time returns a time that is given in microseconds since the epoch.
func Time(at int64) time.Time { return time.UnixMicro(at).UTC() }

// Date returns the start of a day, given in days since the epoch.
func Date(date int32) time.Time { return time.Unix(int64(date)*24*3600, 0).UTC() }

// Month returns the month of a time in UTC, counted from January of year 0.
func Month(t time.Time) int { t = t.UTC(); return t.Year()*12 + int(t.Month()) - 1 }

// BeginOf returns the start of a month.
func BeginOf(month int) time.Time {
	return time.Date(month/12, time.Month(month%12+1), 1, 0, 0, 0, 0, time.UTC)
}
