//go:build moving

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
	return perPeriod(n, periodKind{unit: calendarDay, loc: loc})
}

// PerBillingMonth allows n units per month that begins on a day, 1 to 31: on the
// 15th, say, when the subscription was bought. In months that are shorter it
// begins on the last day: with day 31 on January 31, February 28 or 29, March 31,
// April 30. Another day is an error when the limit is used. See [PerMonth].
func PerBillingMonth(n int64, day int, loc *time.Location) Limit {
	return perPeriod(n, periodKind{unit: calendarMonth, day: day, loc: loc})
}

func perPeriod(n int64, kind periodKind) Limit {
	return Limit{name: DefaultName, quota: n, burst: n, algorithm: Calendar, period: kind, cost: 1}
}

const (
	calendarDay   = 1
	calendarMonth = 2
)

// periodKind is what a limit says of its periods. The zero value is that of a
// limit that has none.
type periodKind struct {
	unit int
	day  int // of the month on which one begins
	loc  *time.Location
}

func (k *periodKind) validate() error {
	switch {
	case k.loc == nil:
		return errors.New("say in which time zone days and months begin, such as time.UTC: the location is nil")
	case k.unit == calendarMonth && (k.day < 1 || k.day > 31):
		return fmt.Errorf("a billing month begins on a day from 1 to 31, got %d", k.day)
	}
	return nil
}

// calendar knows the periods of a kind. There is one for each kind in a process,
// so that rules with equal periods are equal, and look up the edges once.
type calendar struct {
	periodKind
	id      int64 // for stores; as good as the kind
	current atomic.Pointer[period]
}

// period is from start until end, and the one after it until next, all in
// microseconds since the epoch.
type period struct{ start, end, next int64 }

// calendarName is what makes calendars equal.
type calendarName struct {
	unit, day      int
	zone           string
	winter, summer int // seconds east of Greenwich: two zones can have one name
}

// calendars has each calendar by its calendarName. An application has a handful.
var calendars sync.Map

// calendarOf returns the calendar of a valid kind.
func calendarOf(k periodKind) *calendar {
	name := calendarName{unit: k.unit, day: k.day, zone: k.loc.String()}
	_, name.winter = time.Date(2020, time.January, 15, 0, 0, 0, 0, time.UTC).In(k.loc).Zone()
	_, name.summer = time.Date(2020, time.July, 15, 0, 0, 0, 0, time.UTC).In(k.loc).Zone()
	if known, ok := calendars.Load(name); ok {
		return known.(*calendar)
	}
	known, _ := calendars.LoadOrStore(name, &calendar{periodKind: k, id: name.id()})
	return known.(*calendar)
}

// id returns a number of up to 47 bits, above 0.
func (n *calendarName) id() int64 {
	h := fnv.New64a()
	h.Write([]byte(n.zone + "|" + strconv.Itoa(n.winter) + "|" + strconv.Itoa(n.summer)))
	id := int64(h.Sum64()>>22) << 5
	if n.unit == calendarMonth {
		id |= int64(n.day)
	}
	return max(id, 1)
}

// at returns the period that now is in. All but the first call in a period cost
// two comparisons.
func (c *calendar) at(now int64) *period {
	p := c.current.Load()
	if p == nil || now < p.start || now >= p.end {
		p = c.find(now)
		c.current.Store(p)
	}
	return p
}

// endOf returns when the period ends that an earlier time was in.
func (c *calendar) endOf(at int64) int64 {
	if p := c.current.Load(); p != nil && p.start <= at && at < p.end {
		return p.end
	}
	return c.find(at).end
}

// longest is more than any of its periods takes, days that a zone had twice
// included.
func (c *calendar) longest() time.Duration {
	if c.unit == calendarDay {
		return 2 * 24 * time.Hour
	}
	return 33 * 24 * time.Hour
}

// find returns the period that now is in. Periods are numbered; one that a zone
// has skipped begins when the one after it does, and is empty.
func (c *calendar) find(now int64) *period {
	t := time.UnixMicro(now).In(c.loc)
	n := t.Year()*12 + int(t.Month()) - 1
	if c.unit == calendarDay {
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
	return &period{start, end, next}
}

// daysBefore returns a number for the day before a year's first, one more for
// each day.
func daysBefore(year int) int {
	return int(time.Date(year, time.January, 0, 0, 0, 0, 0, time.UTC).Unix() / (24 * 3600))
}

// begins returns when the period of a number begins: months are numbered from
// January of year 0, days from the epoch.
func (c *calendar) begins(n int) int64 {
	if c.unit == calendarDay {
		return firstInstant(int64(n)*24*3600, c.loc) * 1e6
	}
	year, month := n/12, time.Month(n%12+1)
	last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
	return firstInstant(time.Date(year, month, min(c.day, last), 0, 0, 0, 0, time.UTC).Unix(), c.loc) * 1e6
}

// firstInstant returns the first instant at which the clocks of a zone show a time
// or a later one, both in seconds; time.Date does not say what it does with a time
// that they skip or show twice.
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
			// Go takes the end of a leap year for a day earlier than it is, after 2037.
			until = t.Add(15 * time.Minute)
		}
		if until.IsZero() || at < until.Unix() {
			return at
		}
		t = until
	}
}

// newCalendarRule is newRule for calendar windows.
func newCalendarRule(name string, quota int64, c *calendar) (Rule, error) {
	switch {
	case quota < 1:
		return Rule{}, fmt.Errorf("quota must be at least 1, got %d", quota)
	case quota > maxScaled:
		return Rule{}, fmt.Errorf("quota %d is too large to count exactly", quota)
	}
	r := Rule{Name: name, Algorithm: Calendar, Quota: quota, Burst: quota, calendar: c, id: nameID(name)}
	r.scale = Scale{Tick: 1, Unit: c.id, Rate: 1, Capacity: quota, Whole: quota}
	r.setPolicy()
	return r, nil
}

// Period returns when the calendar window began that a time is in, when it ends,
// and when the one after it ends, all in microseconds since the epoch: for stores
// whose clock may be in another one. It returns zeros for other algorithms.
func (r *Rule) Period(at int64) (start, end, next int64) {
	if r.calendar == nil {
		return 0, 0, 0
	}
	p := r.calendar.at(at)
	return p.start, p.end, p.next
}

// PeriodEnd returns when the calendar window ends that a time is in, which may be
// past, as Period does.
func (r *Rule) PeriodEnd(at int64) int64 {
	if r.calendar == nil {
		return 0
	}
	return r.calendar.endOf(at)
}

// rollCalendar is rollWindow for calendar windows.
func (r *Rule) rollCalendar(b *bucket, now int64) {
	if b.expires == 0 {
		b.x = 0
		b.expires = r.calendar.at(now).end
	}
}
