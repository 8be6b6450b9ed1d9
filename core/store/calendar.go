package store

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// PeriodUnit is the unit of a [Calendar] rule's windows.
type PeriodUnit uint8

// The units of calendar windows.
const (
	CalendarDay   PeriodUnit = 1
	CalendarMonth PeriodUnit = 2
)

// String returns "day" or "month".
func (u PeriodUnit) String() string {
	switch u {
	case CalendarDay:
		return "day"
	case CalendarMonth:
		return "month"
	}
	return "unknown unit"
}

// MarshalText returns the text of String, so that logs in JSON have words and no numbers.
func (u PeriodUnit) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// Period specifies the windows of a [Calendar] rule.
type Period struct {
	Unit     PeriodUnit
	Day      int            // day of the month on which a window begins, 1 to 31; 0 for CalendarDay
	Location *time.Location // time zone in which days and months begin
}

func (k *Period) validate() error {
	switch {
	case k.Location == nil:
		return errors.New("say in which time zone days and months begin, such as time.UTC: the location is nil")
	case k.Unit != CalendarDay && k.Unit != CalendarMonth:
		return fmt.Errorf("unknown unit of calendar windows %d", k.Unit)
	case k.Unit == CalendarMonth && (k.Day < 1 || k.Day > 31):
		return fmt.Errorf("a billing month begins on a day from 1 to 31, got %d", k.Day)
	}
	return nil
}

// calendar computes the windows of a Period, and caches the current one. A process has one
// calendar for each Period, so that rules with equal Periods are equal.
type calendar struct {
	Period
	id      int64 // stands for the Period in stores
	current atomic.Pointer[span]
}

// span is one window, from start until end. The window after it ends at next. All times
// are microseconds since the epoch.
type span struct{ start, end, next int64 }

// calendarName identifies a calendar.
type calendarName struct {
	unit           PeriodUnit
	day            int
	zone           string
	winter, summer int // seconds east of Greenwich: two zones can have one name
}

// calendars holds all calendars by calendarName. An application has a handful.
var calendars sync.Map

// calendarOf returns the calendar of a valid Period.
func calendarOf(k Period) *calendar {
	name := calendarName{unit: k.Unit, day: k.Day, zone: k.Location.String()}
	_, name.winter = time.Date(2020, time.January, 15, 0, 0, 0, 0, time.UTC).In(k.Location).Zone()
	_, name.summer = time.Date(2020, time.July, 15, 0, 0, 0, 0, time.UTC).In(k.Location).Zone()
	if known, ok := calendars.Load(name); ok {
		return known.(*calendar)
	}
	known, _ := calendars.LoadOrStore(name, &calendar{Period: k, id: name.id()})
	return known.(*calendar)
}

// id returns a number of up to 47 bits, above 0.
func (n *calendarName) id() int64 {
	h := fnv.New64a()
	h.Write([]byte(n.zone + "|" + strconv.Itoa(n.winter) + "|" + strconv.Itoa(n.summer)))
	id := int64(h.Sum64()>>22) << 5
	if n.unit == CalendarMonth {
		id |= int64(n.day)
	}
	return max(id, 1)
}

// at returns the window of now. All but the first call in a window take two comparisons.
func (c *calendar) at(now int64) *span {
	p := c.current.Load()
	if p == nil || now < p.start || now >= p.end {
		p = c.find(now)
		c.current.Store(p)
	}
	return p
}

// of returns the window of an earlier time.
func (c *calendar) of(at int64) *span {
	if p := c.current.Load(); p != nil && p.start <= at && at < p.end {
		return p
	}
	return c.find(at)
}

// endOf returns the end of the window of an earlier time.
func (c *calendar) endOf(at int64) int64 { return c.of(at).end }

// find returns the window of now. Windows are numbered: a day that a time zone skipped is an
// empty window, which begins when the next one does.
func (c *calendar) find(now int64) *span {
	t := time.UnixMicro(now).In(c.Location)
	n := t.Year()*12 + int(t.Month()) - 1
	if c.Unit == CalendarDay {
		n = t.YearDay() + daysBefore(t.Year())
	}
	start, end := c.begins(n), c.begins(n+1)
	for now < start { // before the month's billing day
		n--
		start, end = c.begins(n), start
	}
	for end <= now { // clocks were set back from a day into the one before it
		n++
		start, end = end, c.begins(n+1)
	}
	next := end
	for ; next <= end; n++ {
		next = c.begins(n + 2)
	}
	return &span{start, end, next}
}

// daysBefore returns the number of the last day before a year: days since the epoch.
func daysBefore(year int) int {
	return int(time.Date(year, time.January, 0, 0, 0, 0, 0, time.UTC).Unix() / (24 * 3600))
}

// begins returns the start of a window by its number. Months are numbered from January of
// year 0, days from the epoch.
func (c *calendar) begins(n int) int64 {
	if c.Unit == CalendarDay {
		return firstInstant(int64(n)*24*3600, c.Location) * 1e6
	}
	year, month := n/12, time.Month(n%12+1)
	last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
	return firstInstant(time.Date(year, month, min(c.Day, last), 0, 0, 0, 0, time.UTC).Unix(), c.Location) * 1e6
}

// firstInstant returns the first instant, in seconds since the epoch, at which clocks in a
// time zone show the given time or a later one. The time is given as seconds since the
// epoch of a clock in UTC that shows it. time.Date does not say which instant it returns
// for a time that clocks skip or show twice.
func firstInstant(clock int64, loc *time.Location) int64 {
	t := time.Unix(clock-48*3600, 0).In(loc)
	for {
		_, offset := t.Zone()
		from, until := t.ZoneBounds()
		at := clock - int64(offset)
		if !from.IsZero() {
			at = max(at, from.Unix())
		}
		if !until.IsZero() && !until.After(t) {
			// After 2037, Go takes the end of a leap year to be a day earlier than it is.
			until = t.Add(15 * time.Minute)
		}
		if until.IsZero() || at < until.Unix() {
			return at
		}
		t = until
	}
}

// Period returns the start and the end of the calendar window of a time, and the end of
// the window after it, for stores whose own clock may be in that one already. All times are
// microseconds since the epoch. It returns zeros for other algorithms.
func (r *Rule) Period(at int64) (start, end, next int64) {
	if r.calendar == nil {
		return 0, 0, 0
	}
	p := r.calendar.at(at)
	return p.start, p.end, p.next
}

// PeriodEnd returns the end of the calendar window of a time. The time may lie in the past,
// which costs more than the present. It returns 0 for other algorithms.
func (r *Rule) PeriodEnd(at int64) int64 {
	if r.calendar == nil {
		return 0
	}
	return r.calendar.endOf(at)
}

// PeriodOf returns the calendar window that a result's units belong to: that of its time, or the one after it if
// the store's clock was set back over its beginning, since a window that has begun goes on. Both times are
// microseconds since the epoch. It returns zeros for other algorithms.
func (r *Rule) PeriodOf(result *Result) (start, end int64) {
	if r.calendar == nil {
		return 0, 0
	}
	p := r.calendar.of(result.At)
	if result.At+result.ResetAfter.Microseconds() == p.next {
		p = r.calendar.of(p.next - 1)
	}
	return p.start, p.end
}
