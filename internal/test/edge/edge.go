// Package edge keeps tests that count by the real clock away from the edges of windows: what they count
// would be in two of them.
package edge

import "time"

// AwayFromMonth waits for the next month if this one ends within a time, in UTC. In TestMain: the go
// command waits for no test binary much longer than its time-out.
func AwayFromMonth(near time.Duration) { time.Sleep(untilMonth(time.Now(), near)) }

// AwayFrom waits for the next window of a length, such as an hour or a day, if the present one ends
// within a time, in UTC.
func AwayFrom(length, near time.Duration) { time.Sleep(untilWindow(time.Now(), length, near)) }

func untilMonth(now time.Time, near time.Duration) time.Duration {
	now = now.UTC()
	return until(now, time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC), near)
}

func untilWindow(now time.Time, length, near time.Duration) time.Duration {
	return until(now, now.Truncate(length).Add(length), near)
}

// until returns how long to wait if next is near.
func until(now, next time.Time, near time.Duration) time.Duration {
	if left := next.Sub(now); left <= near {
		return left + time.Millisecond
	}
	return 0
}
