package quota

import (
	"time"
)

// farFuture is later than any period, and within what PostgreSQL can store.
var farFuture = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)

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

// monthOf returns the month of a time in UTC, counted from January of year 0.
func monthOf(t time.Time) int { t = t.UTC(); return t.Year()*12 + int(t.Month()) - 1 }

// beginOf returns the start of a month.
func beginOf(month int) time.Time {
	return time.Date(month/12, time.Month(month%12+1), 1, 0, 0, 0, 0, time.UTC)
}
