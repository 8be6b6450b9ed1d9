package storetest

import (
	"fmt"
	"sync"
	"time"
	_ "time/tzdata" // for machines without a zone database

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// modelCalendars are calendar limits in very different time zones.
var modelCalendars = []func(n int64) core.Limit{
	func(n int64) core.Limit { return core.PerCalendarDay(n, Zone("Europe/Berlin")) },
	func(n int64) core.Limit { return core.PerCalendarDay(n, Zone("Asia/Beirut")) },
	func(n int64) core.Limit { return core.PerCalendarDay(n, Zone("Australia/Lord_Howe")) },
	func(n int64) core.Limit { return core.PerMonth(n, Zone("America/New_York")) },
	func(n int64) core.Limit { return core.PerMonth(n, time.UTC) },
	func(n int64) core.Limit { return core.PerBillingMonth(n, 31, Zone("Asia/Kolkata")) },
	func(n int64) core.Limit { return core.PerBillingMonth(n, 14, time.UTC) },
	func(n int64) core.Limit { return core.PerCalendarDay(n, time.UTC) },
}

// modelKind is the meaning of a limit of modelCalendars. The key is its unit in stores.
type modelKind struct {
	day int // 0 for calendar days
	loc *time.Location
}

var modelKinds = sync.OnceValue(func() map[int64]modelKind {
	said := []modelKind{
		{0, Zone("Europe/Berlin")},
		{0, Zone("Asia/Beirut")},
		{0, Zone("Australia/Lord_Howe")},
		{1, Zone("America/New_York")},
		{1, time.UTC},
		{31, Zone("Asia/Kolkata")},
		{14, time.UTC},
		{0, time.UTC},
	}
	kinds := map[int64]modelKind{}
	for i, limit := range modelCalendars {
		r, err := limit(1).Rule()
		if err != nil {
			panic(err)
		}
		kinds[r.Integers.Unit] = said[i]
	}
	return kinds
})

// Zone returns the time zone of a name, which must exist.
func Zone(name string) *time.Location {
	loc, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return loc
}

var modelEdges sync.Map // of string to int64

// modelPeriod returns the start and the end of the rule's period at t. It finds them by
// looking at the zone's clock minute by minute.
func modelPeriod(r *core.Rule, t int64) (start, end int64) {
	kind, ok := modelKinds()[r.Integers.Unit]
	if !ok {
		panic(fmt.Sprintf("the model does not know limit %q's calendar", r.Name))
	}
	at := time.UnixMicro(t).In(kind.loc)
	back := 2
	if kind.day > 0 {
		back = 32
	}
	for ; ; back-- {
		if next := kind.begins(at.Year(), at.Month(), at.Day()-back+1); next > t {
			return start, next
		} else if next > start {
			start = next
		}
	}
}

// modelPeriodOf is modelPeriod for rules of all kinds.
func modelPeriodOf(r *core.Rule, t int64) (start, end int64) {
	if !onCalendar(r) {
		return 0, 0
	}
	return modelPeriod(r, t)
}

// modelChargedIn returns the period that was charged, as a result says: the one after its time if that ends
// with what is left of it.
func modelChargedIn(r *core.Rule, charged *core.Result) (start, end int64) {
	start, end = modelPeriodOf(r, charged.At)
	if nextStart, nextEnd := modelPeriodOf(r, end); end > 0 && charged.At+charged.ResetAfter.Microseconds() == nextEnd {
		return nextStart, nextEnd
	}
	return start, end
}

// begins returns the first minute in which a zone's clock shows a day or a later one. It
// returns 0 if no period begins on that day.
func (k modelKind) begins(year int, month time.Month, day int) int64 {
	date := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	if k.day > 0 && date.Day() != k.day && (date.Day() > k.day || date.AddDate(0, 0, 1).Day() != 1) {
		return 0
	}
	name := date.Format(time.DateOnly) + k.loc.String()
	if known, ok := modelEdges.Load(name); ok {
		return known.(int64)
	}
	for t := date.Add(-15 * time.Hour); ; t = t.Add(time.Minute) {
		if !t.In(k.loc).Before(time.Date(date.Year(), date.Month(), date.Day(), 0, 0, 0, 0, k.loc)) && t.In(k.loc).Day() == date.Day() {
			modelEdges.Store(name, t.UnixMicro())
			return t.UnixMicro()
		}
	}
}

// span is a range of time that matters to a rule.
func span(r *core.Rule) time.Duration {
	if onCalendar(r) {
		return 31 * 24 * time.Hour
	}
	return r.Window
}

func calendarEdges(r *rig) {
	for i, tt := range []struct {
		name  string
		limit core.Limit
		now   string
		left  time.Duration // until the current window ends
		next  time.Duration // length of the next window
	}{
		{"the day before clocks go forward in Berlin", modelCalendars[0](3), "2026-03-28T12:00:00+01:00", 12 * time.Hour, 23 * time.Hour},
		{"the day before clocks go back in Berlin", modelCalendars[0](3), "2026-10-24T12:00:00+02:00", 12 * time.Hour, 25 * time.Hour},
		{"the day before one that has no 0:00 in Beirut", modelCalendars[1](3), "2026-03-28T22:30:00+02:00", 90 * time.Minute, 23 * time.Hour},
		{"the day before half an hour more on Lord Howe", modelCalendars[2](3), "2026-04-04T23:00:00+11:00", time.Hour, 24*time.Hour + 30*time.Minute},
		{"February of a leap year in New York", modelCalendars[3](3), "2028-02-29T23:00:00-05:00", time.Hour, 31*24*time.Hour - time.Hour},
		{"the 30th of April and a bill of the 31st in Kolkata", modelCalendars[5](3), "2027-04-29T23:59:59+05:30", time.Second, 31 * 24 * time.Hour},
		{"the last of February and a bill of the 31st in Kolkata", modelCalendars[5](3), "2027-02-27T23:59:59+05:30", time.Second, 31 * 24 * time.Hour},
	} {
		now := must.Get(time.Parse(time.RFC3339, tt.now))(r)
		r.Set(now)
		limit, key := rule(r, tt.limit.Named("calendar")), fmt.Sprint("edges", i)
		if got := r.wantTake(limit, key, 3, true, 0); got.ResetAfter != tt.left {
			r.Errorf("%s: the window ends in %v, want %v", tt.name, got.ResetAfter, tt.left)
		}
		r.Advance(tt.left - time.Microsecond)
		if got := r.wantTake(limit, key, 1, false, 0); got.RetryAfter != time.Microsecond {
			r.Errorf("%s: retry after %v, want 1µs", tt.name, got.RetryAfter)
		}
		r.Advance(time.Microsecond)
		if got := r.wantTake(limit, key, 2, true, 1); got.ResetAfter != tt.next {
			r.Errorf("%s: the next window ends in %v, want %v", tt.name, got.ResetAfter, tt.next)
		}
	}
}

func calendarRefunds(r *rig) {
	limit := rule(r, modelCalendars[4](10).Named("calendar"))
	r.Set(time.Date(2026, time.March, 31, 23, 0, 0, 0, time.UTC))
	march := r.wantTake(limit, "k", 6, true, 4)
	check.Equal(r, "a refund in March leaves", r.refund(limit, "k", 2, march).Remaining, 6)
	r.Advance(time.Hour)
	april := r.wantTake(limit, "k", 5, true, 5)
	check.Equal(r, "a refund of March in April leaves", r.refund(limit, "k", 4, march).Remaining, 5)
	check.Equal(r, "a refund of April leaves", r.refund(limit, "k", 9, april).Remaining, 10)
	r.wantTake(limit, "k", 2, true, 8)
	r.Set(time.Date(2026, 3, 31, 23, 59, 0, 0, time.UTC)) // April's window goes on
	back := r.wantTake(limit, "k", 3, true, 5)
	check.Equal(r, "a refund of April before April leaves", r.refund(limit, "k", 1, back).Remaining, 6)
	r.Advance(time.Hour)
	check.Equal(r, "a refund in April of what was charged to it before leaves", r.refund(limit, "k", 2, back).Remaining, 8)
}

func calendarChanged(r *rig) {
	calendar := modelCalendars[4]
	for _, other := range Algorithms(100, time.Hour) {
		r.wantTake(rule(r, other.Named("changed")), "to", 60, true, 40)
		r.wantPeek(rule(r, calendar(200).Named("changed")), "to", 140)
		r.wantTake(rule(r, calendar(70).Named("changed")), "to", 1, true, 9)
		r.reset(rule(r, calendar(70).Named("changed")), "to")
		r.wantTake(rule(r, calendar(100).Named("changed")), "from", 60, true, 40)
		r.wantTake(rule(r, other.Named("changed")), "from", 1, true, 39)
		r.reset(rule(r, other.Named("changed")), "from")
	}
	r.wantTake(rule(r, calendar(100).Named("changed")), "zone", 60, true, 40)
	r.wantTake(rule(r, modelCalendars[5](100).Named("changed")), "zone", 1, true, 39)
	r.wantTake(rule(r, calendar(5_000_000_000).Named("changed")), "zone", 0, true, 5_000_000_000-61)
	r.wantTake(rule(r, calendar(100).Named("changed")), "zone", 1, true, 38)
}
