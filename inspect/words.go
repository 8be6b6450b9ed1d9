package inspect

import (
	"fmt"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/pageapi"
	"github.com/weblimit/weblimit/metrics/top"
)

func denialOf(d *top.Denial) *pageapi.Denial {
	if d.Reason == core.ReasonUndecided {
		return nil
	}
	return &pageapi.Denial{
		At: d.At, Reason: d.Reason.String(), Shadow: d.Shadow, Cost: d.Cost, Remaining: d.Remaining,
		Quota: d.Quota, Burst: d.Burst, WindowMS: d.Window.Milliseconds(), RetryAfterMS: d.RetryAfter.Milliseconds(), Why: why(d), Version: d.Version,
	}
}

// why says in one sentence why a request was denied, the kind of reason first.
func why(d *top.Denial) string {
	switch d.Reason {
	case core.ReasonBlocked:
		return "Blocked, by hand or for exceeding this limit repeatedly" + wait(d.RetryAfter, "; %s to go") + "."
	case core.ReasonNeverFits:
		return fmt.Sprintf("Too large: the request cost %s, and there is never room for more than %s. Waiting can't help.", grouped(d.Cost), grouped(d.Burst))
	case core.ReasonMissingKey:
		return "Key missing: the request lacked what this limit counts by."
	case core.ReasonAmbiguousKey:
		return "Key ambiguous: the request had what this limit counts by several times."
	case core.ReasonInvalidCost:
		return "Cost invalid: it was negative."
	case core.ReasonOutageDenied:
		return "Outage: the store did not answer, and this limit then denies."
	case core.ReasonDeniedTogether:
		return "Denied together: it was decided with others, of which one was denied."
	case core.ReasonCanceled:
		return "Canceled: the request ended while it waited for its turn."
	}
	if d.Standing != store.Undivided {
		return whyOfShare(d)
	}
	text := "Used up: nothing left"
	if d.Remaining > 0 {
		text = "Too little left: " + grouped(d.Remaining)
	}
	text += " of " + numbers(d.Quota, d.Burst, short(d.Window))
	if d.Cost != 1 {
		text += fmt.Sprintf(", the request cost %s", grouped(d.Cost))
	}
	return text + wait(d.RetryAfter, ". Told to wait %s") + "."
}

// whyOfShare is why for a limit that clients divide.
func whyOfShare(d *top.Denial) string {
	share := fmt.Sprintf("its share, then %s per %s", grouped(d.Share), short(d.Window))
	text := "Used up: nothing left of the limit itself, of which the client was within " + share
	switch d.Standing {
	case store.OverShare:
		text = "Over " + share + ", and others might need what was left"
	case store.UserOver:
		text = "Over an equal part: the client had room, of which this user had used more than others"
	case store.OverMaximum:
		text = "Over the maximum of the client"
	}
	if d.Cost != 1 {
		text += fmt.Sprintf(", the request cost %s", grouped(d.Cost))
	}
	return text + wait(d.RetryAfter, ". Told to wait %s") + "."
}

// wait formats a duration, or returns "" for none.
func wait(d time.Duration, format string) string {
	if d <= 0 {
		return ""
	}
	return fmt.Sprintf(format, short(d))
}

// numbers returns a limit's numbers in words.
func numbers(quota, burst int64, window string) string {
	text := grouped(quota) + " per " + window
	if burst != quota {
		text += ", burst " + grouped(burst)
	}
	return text
}

// calendarWindow names the window of a calendar limit.
func calendarWindow(p store.Period) string {
	if p.Unit == store.CalendarMonth {
		return "calendar month"
	}
	return "calendar day"
}

// grouped writes a number with commas: 12,345.
func grouped(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// short writes a duration for people, rounded up to what matters: 850ms, 4s, 1m, 2h10m, 3d.
func short(d time.Duration) string {
	const day = 24 * time.Hour
	up := func(unit time.Duration) time.Duration { return (d + unit - 1).Truncate(unit) }
	switch {
	case d <= 0:
		return "0s"
	case d < time.Second:
		return fmt.Sprintf("%dms", max(1, up(time.Millisecond).Milliseconds()))
	case d < 10*time.Second && d%time.Second != 0:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", up(100*time.Millisecond).Seconds()), ".0") + "s"
	case d < 2*day:
		unit := time.Second
		if d >= time.Hour {
			unit = time.Minute
		}
		d = up(unit)
		if d%day == 0 {
			return fmt.Sprintf("%dd", d/day)
		}
		text := d.String()
		if d%time.Minute == 0 {
			text = strings.TrimSuffix(text, "0s")
		}
		if d%time.Hour == 0 {
			text = strings.TrimSuffix(text, "0m")
		}
		return text
	}
	d = up(time.Hour)
	if h := d % day / time.Hour; h > 0 && d < 10*day {
		return fmt.Sprintf("%dd%dh", d/day, h)
	}
	return fmt.Sprintf("%dd", d/day)
}
