package core

import (
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// PerMonth allows n units per calendar month in a time zone: the count begins
// anew when the first of the month begins there. It is a fixed window whose edges
// are the calendar's, so up to 2n units can pass around an edge. A month is what
// the calendar says, 28 to 31 days, an hour more or less where clocks change.
//
// Months and days begin at 0:00 or, where clocks skip that hour, at the first
// instant of the day. Where they are set back over 0:00, the first time counts.
//
// Zones are told apart by name and by the time that they have in winter and in
// summer, so two loads of one zone are equal. Processes that share a store should
// have the same zone data. time.Local is what each process takes for it: name the
// zone instead. A nil loc is an error when the limit is used, and so are Burst,
// Jitter and another algorithm. The process's clock says which period it is, and
// the store's clock when it ends: as long as they are less than a period apart,
// that is the calendar's end.
func PerMonth(n int64, loc *time.Location) Limit { return PerBillingMonth(n, 1, loc) }

// PerCalendarDay allows n units per calendar day in a time zone, 23 or 25 hours
// where clocks change. See [PerMonth]. [PerDay] is a bucket of 24 hours.
func PerCalendarDay(n int64, loc *time.Location) Limit {
	return perPeriod(n, store.Period{Unit: store.CalendarDay, Location: loc})
}

// PerBillingMonth allows n units per month that begins on a day, 1 to 31: on the
// 15th, say, when the subscription was bought. In months that are shorter it
// begins on the last day: with day 31 on January 31, February 28 or 29, March 31,
// April 30. Another day is an error when the limit is used. See [PerMonth].
func PerBillingMonth(n int64, day int, loc *time.Location) Limit {
	return perPeriod(n, store.Period{Unit: store.CalendarMonth, Day: day, Location: loc})
}

func perPeriod(n int64, period store.Period) Limit {
	return newLimit(store.Numbers{Algorithm: store.Calendar, Quota: n, Calendar: period})
}
