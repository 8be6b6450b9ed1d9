package usage

import (
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/integer"
)

// Report is what a client is told. As JSON it has the names of the tags.
type Report struct {
	// Limits are those that apply to the request, by their names.
	Limits map[string]Limit `json:"limits"`

	// Unlimited says that a bypass lets the request through all limiters, which ask no limit.
	Unlimited bool `json:"unlimited,omitempty"`

	// Incomplete says that days and forecasts are missing that there are otherwise: the book did not answer.
	Incomplete bool `json:"incomplete,omitempty"`
}

// Limit is one limit for this client.
type Limit struct {
	Limit     int64 `json:"limit"`     // units that can be used at once, or in a window
	Used      int64 `json:"used"`      // of these. For a class of requests, also what others of the bucket have used of its part
	Remaining int64 `json:"remaining"` // Limit less Used, but where clients divide the limit

	// Share is how many units per window are the client's at present, of a limit that clients divide: see core.Limit.Fair. Then
	// Used is what the client has used of its share, and Remaining what it can use now, which is more while others leave
	// it. Left out for other limits.
	Share int64 `json:"share,omitempty"`

	// Reset is when all of it is there again if nothing more is used, and for windows when the present one ends.
	Reset int64 `json:"reset"`

	// Window is how long the limit takes to grant all its units, in seconds. It is left out for periods of the calendar, for
	// concurrent requests, and if it is not a whole number.
	Window int64 `json:"window,omitempty"`

	// Unit is "concurrent-requests" for a limit of those, and else left out.
	Unit string `json:"unit,omitempty"`

	// Soft is from how many used units on a request is over the soft limit, such as overage. Left out for none.
	Soft int64 `json:"soft,omitempty"`

	// PassedOver says that another limit of a choice is charged at present: see core.First.
	PassedOver bool `json:"passed_over,omitempty"`

	// Blocked says that all requests are denied, whatever remains, until RetryAfter seconds have passed.
	Blocked bool `json:"blocked,omitempty"`

	// RetryAfter is after how many seconds one more unit can be used, if none can now. Left out if one can.
	RetryAfter int64 `json:"retry_after,omitempty"`

	Period   *Period   `json:"period,omitempty"`   // of a calendar limit
	Days     []Day     `json:"days,omitempty"`     // of the period, with use, in order: as of a few seconds ago
	Forecast *Forecast `json:"forecast,omitempty"` // from the second day of a period on
}

// Period is a period of the calendar, in the limit's time zone.
type Period struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"` // the first instant of the next one
}

// Day is the use of one day.
type Day struct {
	Day  string `json:"day"`  // such as 2026-11-28, in the limit's time zone
	Used int64  `json:"used"` // below 0 if more was given back than used
}

// limitOf returns what a client is told of a limit, without days.
func limitOf(r *core.LimitResult) Limit {
	rule := r.Rule
	l := Limit{Limit: rule.Burst, Remaining: min(max(r.Remaining, 0), rule.Burst), Reset: seconds(r.At + r.ResetAfter.Microseconds()), Soft: rule.Soft, PassedOver: r.PassedOver}
	l.Used = l.Limit - l.Remaining
	if !r.Allowed {
		l.Blocked, l.RetryAfter = r.Blocked, seconds(r.RetryAfter.Microseconds())
	}
	switch rule.Algorithm {
	case store.Calendar:
		start, end := rule.PeriodOf(&r.Result)
		zone := rule.Calendar.Location
		l.Reset = seconds(end) // exactly, where the service rounds times
		l.Period = &Period{time.UnixMicro(start).In(zone), time.UnixMicro(end).In(zone)}
	case store.Concurrency:
		l.Unit = "concurrent-requests"
	case store.TokenBucket:
		l.Window = whole(integer.CeilMulDiv(rule.Burst, rule.Window.Microseconds(), rule.Quota))
	default:
		l.Window = whole(rule.Window.Microseconds())
	}
	if r.Standing != store.Undivided {
		l.divided(r)
	}
	return l
}

// divided sets what is said of a limit that clients divide.
func (l *Limit) divided(r *core.LimitResult) {
	l.Share = r.Share
	if l.Used = max(l.Share-l.Remaining, 0); r.Standing.IsOver() {
		l.Used = l.Share
	}
	l.Used = min(l.Used, l.Limit)
}

// seconds returns microseconds in seconds, rounded up.
func seconds(micros int64) int64 { return integer.CeilDiv(micros, 1e6) }

// whole returns microseconds in seconds, or 0 if they are no whole number of these.
func whole(micros int64) int64 {
	if micros%1e6 != 0 {
		return 0
	}
	return micros / 1e6
}
