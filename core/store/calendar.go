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

// PeriodUnit is what the windows of a [Calendar] rule are made of.
type PeriodUnit uint8

// The units.
const (
	CalendarDay   PeriodUnit = 1
	CalendarMonth PeriodUnit = 2
)

// Period says when the windows of a [Calendar] rule begin.
type Period struct {
	Unit     PeriodUnit
	Day      int            // of the month on which one begins, 1 to 31; 0 for days
	Location *time.Location // where the days are
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

// calendar knows the periods of a kind. There is one for each kind in a process,
// so that rules with equal periods are equal, and look up the edges once.
type calendar struct {
	Period
	id      int64 // for stores; as good as the kind
	current atomic.Pointer[span]
}

// span is a period from start until end, and the one after it until next, all in
// microseconds since the epoch.
type span struct{ start, end, next int64 }

// calendarName is what makes calendars equal.
type calendarName struct {
	unit           PeriodUnit
	day            int
	zone           string
	winter, summer int // seconds east of Greenwich: two zones can have one name
}

// calendars has each calendar by its calendarName. An application has a handful.
var calendars sync.Map

// calendarOf returns the calendar of a valid kind.
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

// at returns the period that now is in. All but the first call in a period cost
// two comparisons.
func (c *calendar) at(now int64) *span {
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

// LongestPeriod is more than any of the calendar windows takes, days that a zone had
// twice included; 0 for other algorithms.
func (r *Rule) LongestPeriod() time.Duration {
	c := r.calendar
	if c == nil {
		return 0
	}
	if c.Unit == CalendarDay {
		return 2 * 24 * time.Hour
	}
	return 33 * 24 * time.Hour
}

// find returns the period that now is in. Periods are numbered; one that a zone
// has skipped begins when the one after it does, and is empty.
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

// daysBefore returns a number for the day before a year's first, one more for
// each day.
func daysBefore(year int) int {
	return int(time.Date(year, time.January, 0, 0, 0, 0, 0, time.UTC).Unix() / (24 * 3600))
}

// begins returns when the period of a number begins: months are numbered from
// January of year 0, days from the epoch.
func (c *calendar) begins(n int) int64 {
	if c.Unit == CalendarDay {
		return firstInstant(int64(n)*24*3600, c.Location) * 1e6
	}
	year, month := n/12, time.Month(n%12+1)
	last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
	return firstInstant(time.Date(year, month, min(c.Day, last), 0, 0, 0, 0, time.UTC).Unix(), c.Location) * 1e6
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

// calendarWindow is a fixed window whose edges are the calendar's.
type calendarWindow struct{ fixedWindow }

func (calendarWindow) name() string { return "calendar window" }

func (calendarWindow) scale(r *Rule) (Scale, error) {
	if r.Quota > maxScaled {
		return Scale{}, fmt.Errorf("quota %d is too large to count exactly", r.Quota)
	}
	return Scale{Tick: 1, Unit: r.calendar.id, Rate: 1, Capacity: r.Quota}, nil
}

func (calendarWindow) roll(r *Rule, b *Bucket, now, _ int64) {
	if b.Expires == 0 {
		b.X = 0
		b.Expires = r.calendar.at(now).end
	}
}

func (calendarWindow) refund(r *Rule, b *Bucket, _, cost, at int64) {
	if r.calendar.endOf(at) == b.Expires {
		b.X -= min(b.X, cost)
	}
}
