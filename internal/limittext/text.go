// Package limittext reads and writes the numbers of a limit as text, such as "100/minute burst 20", for core.ParseLimit
// and core.Limit.String. The grammar is in the doc of core.ParseLimit. The package knows no limits: a [Text] is what is
// written, and core makes a limit of it.
package limittext

import (
	"strconv"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// Words are the algorithms that texts name.
type Words []Word

// Word is an algorithm's word in texts, behind which a second one may stand.
type Word struct {
	Word, Second string
	Algorithm    store.Algorithm
}

// Text is what the text of a limit says. A pointer is nil for what it does not say.
type Text struct {
	Concurrent bool // Quota is slots
	Quota      int64
	Window     time.Duration
	Calendar   store.Period    // instead of Window; zero for none
	Algorithm  store.Algorithm // 0 for none, and for a leaky bucket
	Jitter     bool
	FromUse    bool // windows begin with first use, which says the algorithm, too
	Burst      *int64
	Soft       *int64
	Debt       *int64
	Wait       *time.Duration
	Leaky      *time.Duration // the longest wait of a leaky bucket, instead of Wait
	Lease      *time.Duration
}

// Write returns the text that Parse reads as t.
func (w Words) Write(t *Text) string {
	b := make([]byte, 0, 64)
	switch {
	case t.Concurrent:
		b = strconv.AppendInt(append(b, "concurrent "...), t.Quota, 10)
	case t.Calendar.Unit != 0:
		b = appendPeriod(append(strconv.AppendInt(b, t.Quota, 10), '/'), t.Calendar)
	default:
		b = appendSpan(append(strconv.AppendInt(b, t.Quota, 10), '/'), t.Window)
	}
	if t.Burst != nil && (t.Leaky == nil || *t.Burst != 1) {
		b = strconv.AppendInt(append(b, " burst "...), *t.Burst, 10)
	}
	for _, a := range w { // a calendar is said by the window, and slots by "concurrent"
		if a.Algorithm == t.Algorithm && t.Leaky == nil && !t.FromUse {
			b = append(append(b, ' '), a.Word...)
		}
	}
	if t.Jitter {
		b = append(b, " jitter"...)
	}
	if t.FromUse {
		b = append(b, " from first use"...)
	}
	b = appendTime(b, " leaky ", t.Leaky)
	b = appendTime(b, " wait ", t.Wait)
	b = appendTime(b, " lease ", t.Lease)
	if t.Soft != nil {
		b = strconv.AppendInt(append(b, " soft "...), *t.Soft, 10)
	}
	if t.Debt != nil {
		b = strconv.AppendInt(append(b, " debt "...), *t.Debt, 10)
	}
	return string(b)
}

// appendTime appends an option with a duration, if the text says it.
func appendTime(b []byte, option string, d *time.Duration) []byte {
	if d == nil {
		return b
	}
	return appendDuration(append(b, option...), *d)
}

// appendSpan appends a window: one unit by its name, others as a duration.
func appendSpan(b []byte, window time.Duration) []byte {
	for _, u := range units {
		if u.length == window {
			return append(b, u.names[0]...)
		}
	}
	return appendDuration(b, window)
}

// appendDuration appends a duration as numbers with short units, 1h30m.
func appendDuration(b []byte, d time.Duration) []byte {
	if d <= 0 {
		return append(strconv.AppendInt(b, int64(d/time.Second), 10), 's')
	}
	for _, u := range [...]struct {
		name   string
		length time.Duration
	}{{"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}, {"us", time.Microsecond}, {"ns", 1}} {
		if n := d / u.length; n > 0 {
			b = append(strconv.AppendInt(b, int64(n), 10), u.name...)
			d %= u.length
		}
	}
	return b
}

// appendPeriod appends the period of a calendar and its time zone.
func appendPeriod(b []byte, p store.Period) []byte {
	if p.Unit == store.CalendarDay {
		b = append(b, "day "...)
	} else {
		b = append(b, "month "...)
		if p.Day != 1 {
			b = append(strconv.AppendInt(append(b, "from "...), int64(p.Day), 10), ' ')
		}
	}
	if p.Location == nil {
		return append(b, "?"...)
	}
	return append(b, p.Location.String()...)
}
