package core

import (
	"fmt"
	"strconv"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// String returns the numbers of the limit as [ParseLimit] reads them, such as "100/minute burst
// 20". The rest of the limit is not in it: its name, keys, cost, penalty, warning levels and policies,
// and whatever functions decide. It is "" for the zero Limit.
func (l Limit) String() string {
	n := &l.numbers
	if n.Algorithm == 0 {
		return ""
	}
	b := make([]byte, 0, 64)
	switch {
	case n.concurrent:
		b = strconv.AppendInt(append(b, "concurrent "...), n.Quota, 10)
	case n.Algorithm == store.Calendar:
		b = appendPeriod(append(strconv.AppendInt(b, n.Quota, 10), '/'), n.Calendar)
	default:
		b = appendSpan(append(strconv.AppendInt(b, n.Quota, 10), '/'), n.Window)
	}
	leaky := n.chosen == store.TokenBucket && l.wait != 0 && n.hasBurst
	if n.hasBurst && (!leaky || n.Burst != 1) {
		b = strconv.AppendInt(append(b, " burst "...), n.Burst, 10)
	}
	for _, a := range algorithmWords { // a calendar and slots are chosen by their constructors
		if a.algorithm == n.chosen && !leaky {
			b = append(append(b, ' '), a.word...)
		}
	}
	if n.Jitter {
		b = append(b, " jitter"...)
	}
	switch {
	case leaky:
		b = appendDuration(append(b, " leaky "...), l.wait)
	case l.wait != 0:
		b = appendDuration(append(b, " wait "...), l.wait)
	}
	if n.hasLease {
		b = appendDuration(append(b, " lease "...), n.Window)
	}
	if n.hasSoft {
		b = strconv.AppendInt(append(b, " soft "...), n.Soft, 10)
	}
	return string(b)
}

// MarshalText returns the text of [Limit.String], for [flag.TextVar], JSON, YAML and other
// configuration. It fails if that text would not make the same numbers: for the zero Limit,
// for one that can never work, and for a calendar in a time zone without an IANA name.
func (l Limit) MarshalText() ([]byte, error) {
	text := l.String()
	again := l
	if err := again.UnmarshalText([]byte(text)); err != nil {
		return nil, fmt.Errorf("weblimit: limit %q has no text: %s", l.name, store.Reason(err))
	}
	before, err := l.Rule()
	if err != nil {
		return nil, err
	}
	if after, err := again.Rule(); err != nil || before != after || l.wait != again.wait {
		return nil, fmt.Errorf("weblimit: limit %q has no text: %q does not say all of its numbers", l.name, text)
	}
	return []byte(text), nil
}

// UnmarshalText replaces the numbers of the limit by those that [ParseLimit] reads, and keeps the
// rest: name, keys, cost, penalty, policies and functions. So a limit in code can be the default
// of a flag:
//
//	limit := core.PerMinute(100).By(keyfuncs.ClientIP()).Named("api")
//	flag.TextVar(&limit, "limit", limit, "requests per client")
//
// If there is an error, the limit stays as it is.
func (l *Limit) UnmarshalText(text []byte) error {
	if len(text) > maxLimitText {
		text = text[:maxLimitText+1] // refused, and not worth a copy of it all
	}
	parsed, err := ParseLimit(string(text))
	if err != nil {
		return err
	}
	n, kept := parsed.numbers, &l.numbers
	n.Block, n.hasPenalty = kept.Block, kept.hasPenalty
	n.Once, n.Repeats, n.hasRepeats = kept.Once, kept.Repeats, kept.hasRepeats
	l.numbers, l.wait = n, parsed.wait
	l.settings.made = l.settings.made&^inText | parsed.settings.made
	l.settings.again = l.settings.again&^inText | parsed.settings.again
	if l.name == "" && !l.named {
		l.name = parsed.name
	}
	if l.cost == 0 && !l.settings.has(setCost|setCostBy) && !l.estimate {
		l.cost = parsed.cost
	}
	return nil
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
