package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weblimit/weblimit/cmd/weblimit/internal/show"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/pageapi"
	"github.com/weblimit/weblimit/internal/spelling"
)

// grouped writes a number with commas: 12,345.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// perSecond writes a rate: 0, 0.3, 12.5, 1,204.
func perSecond(n float64) string {
	switch {
	case n != n || n < 0 || n > 1e15:
		return "?"
	case n >= 100:
		return grouped(int64(n))
	}
	return strings.TrimSuffix(strconv.FormatFloat(n, 'f', 1, 64), ".0")
}

// percent writes a share.
func percent(share float64) string {
	if share != share || share < 0 || share > 1e6 {
		return "?"
	}
	return strings.TrimSuffix(strconv.FormatFloat(float64(int64(share*1000))/10, 'f', 1, 64), ".0") + " %"
}

// millis is a duration from a number of milliseconds.
func millis(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(max(n, 0), most)) * time.Millisecond
}

// lasting writes a duration for people, rounded up to what matters: 850ms, 12s, 4m30s, 2h10m, 3d4h.
func lasting(d time.Duration) string {
	const day = 24 * time.Hour
	part := func(large, small time.Duration, largeUnit, smallUnit string) string {
		n := int64((d + small - 1) / small) // of the small unit
		each := int64(large / small)
		text := fmt.Sprintf("%d%s", n/each, largeUnit)
		if rest := n % each; rest > 0 {
			text += fmt.Sprintf("%d%s", rest, smallUnit)
		}
		return text
	}
	switch {
	case d <= 0:
		return "0s"
	case d < time.Second:
		return fmt.Sprintf("%dms", (d+time.Millisecond-1)/time.Millisecond)
	case d <= time.Minute-time.Second:
		return fmt.Sprintf("%ds", (d+time.Second-1)/time.Second)
	case d <= time.Hour-time.Second:
		return part(time.Minute, time.Second, "m", "s")
	case d <= day-time.Minute:
		return part(time.Hour, time.Minute, "h", "m")
	case d > 9999*day:
		return "more than 9999d"
	}
	return part(day, time.Hour, "d", "h")
}

// ago says how long before now a time was, by the clock that both come from.
func ago(at, now time.Time) string {
	d := now.Sub(at)
	if d < time.Second {
		return "just now"
	}
	return lasting(d.Truncate(time.Second)) + " ago"
}

// clock writes a time of day, and moment a time. Both are UTC, as other operators and logs have it.
func clock(t time.Time) string  { return t.UTC().Format("15:04:05") + " UTC" }
func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" }

// clientCell returns a cell with a client's key and label.
func clientCell(key, label string) show.Cell {
	return show.Cell{Key: show.Key(key), Text: inParens(label)}
}

// inParens returns a label as it stands behind a key.
func inParens(label string) string {
	if label == "" {
		return ""
	}
	return "(" + label + ")"
}

// stateWord returns what a limit does to a client, and how it stands out.
func stateWord(s *pageapi.State) (string, show.Style) {
	switch {
	case s.Shadow && (s.State == "denied" || s.State == "blocked"):
		return "would deny", show.Yellow
	case s.State == "denied" || s.State == "blocked":
		return s.State, show.Red
	case s.State == "near":
		return "near", show.Yellow
	}
	return s.State, show.Plain
}

// suggested says what a pageapi.Suggestion means: "99.5 % of 1,000 clients stay within 234 per 1m".
func suggested(l *pageapi.Limit) string {
	text := fmt.Sprintf("%s of %s stay within %s ", percent(l.Suggest.Share), plural(l.Suggest.Clients, "client"), grouped(l.Suggest.Quota))
	switch l.Algorithm {
	case store.Concurrency.String():
		return text + "at the same time"
	case store.Calendar.String():
		return text + "per " + l.Window
	}
	return text + "per " + lasting(millis(l.Suggest.WindowMS))
}

// plural returns "1 block" or "2 blocks".
func plural[N int | int64](n N, noun string) string {
	return grouped(int64(n)) + " " + spelling.Plural(n, noun)
}
