package core

import (
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// PerMonth allows n units per calendar month of a time zone. It is a fixed window that
// begins and ends with the month there: 28 to 31 days, an hour more or less where
// clocks change. Up to 2n units can pass around the edge of two months.
//
// Months and days begin at 0:00. Where clocks skip that hour they begin at the first
// instant of the day; where clocks are set back over 0:00, at the first of the two.
//
// Two time zones are the same if their names are, and their offsets in winter and
// summer; so a zone can be loaded twice. Processes that share a store should have the
// same zone data. Don't use time.Local, which each process takes from its machine.
//
// The clock of the process says which period it is, and that of the store when it
// ends. The end is exact as long as the two are less than a period apart. A nil loc is
// an error when the limit is used, and so are Burst, Jitter and another algorithm.
func PerMonth(n int64, loc *time.Location) Limit { return PerBillingMonth(n, 1, loc) }

// PerCalendarDay allows n units per calendar day of a time zone, which has 23 or 25
// hours where clocks change. See [PerMonth] for the details. [PerDay] is a token bucket
// of 24 hours.
func PerCalendarDay(n int64, loc *time.Location) Limit {
	return perPeriod(n, store.Period{Unit: store.CalendarDay, Location: loc})
}

// PerBillingMonth allows n units per month that begins on the given day, 1 to 31, such
// as the day a subscription was bought. A month without that day begins on its last
// day: with day 31, on January 31, February 28 or 29, March 31, April 30. Any other day
// is an error when the limit is used. See [PerMonth] for the details.
func PerBillingMonth(n int64, day int, loc *time.Location) Limit {
	return perPeriod(n, store.Period{Unit: store.CalendarMonth, Day: day, Location: loc})
}

func perPeriod(n int64, period store.Period) Limit {
	return newLimit(store.Numbers{Algorithm: store.Calendar, Quota: n, Calendar: period})
}
