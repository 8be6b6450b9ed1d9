package core

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/integer"
)

// WarnAt warns clients before the limit denies them. A level is above 0 and at most 1
// of the burst. From the request whose charge reaches a level, responses have the
// header X-RateLimit-Warning and decisions a [Decision.WarnLevel]. Config.OnWarning is
// called once per key, level and window. A request that reaches several levels at once
// causes a call for each, the lowest first.
//
// In a fixed or calendar window one charge reaches a level, so OnWarning is called once
// over all processes that share the store. If the use falls below the level again, by a
// refund, a reset or a change of the limit, another process may repeat the call.
// Processes that count by themselves, with prefetched quota or during an outage, may
// each make it once.
//
// Defaults to no levels. Where Config.OnWarning is set, calendar windows default to 0.8,
// 0.9 and 1; WarnAt() without levels disables them.
func (l Limit) WarnAt(levels ...float64) Limit {
	l.settings.set(setWarn)
	l.warnAt = slices.AppendSeq(make([]float64, 0, len(levels)), slices.Values(levels))
	slices.Sort(l.warnAt)
	return l
}

// Warning is the event that a client has reached a level of [Limit.WarnAt]; see
// Config.OnWarning.
type Warning struct {
	Limit string  // the limit's name
	Level float64 // the level that was reached
	Used  int64   // units in use, this request's included
	Burst int64   // the units that can be used
	Key   string  // the limit's key, in which secrets are hashed

	// Soft is true if the client is over the limit's soft limit; see [Limit.Soft].
	Soft bool

	// Shadow is true if the limit is in shadow mode, so that the client is not warned.
	Shadow bool
}

// calendarLevels are the levels of calendar windows without WarnAt, if Config.OnWarning
// is set.
var calendarLevels = []float64{0.8, 0.9, 1}

const headerWarning = "X-Ratelimit-Warning"

// maxWarned bounds how many events are remembered, so that they are not repeated.
// Beyond it, events of the oldest keys may be.
const maxWarned = 1 << 16

// threshold returns how many units must be used to reach a level of the burst, which is
// taken to a millionth.
func threshold(level float64, burst int64) int64 {
	return max(integer.CeilMulDiv(int64(level*1e6+0.5), burst, 1e6), 1)
}

// warn sets the highest level that a charged result has reached, and calls OnWarning and tells the
// asker, unless it is nil, if this request reached it. On the way up only one charge crosses a level,
// so few requests have to look up whether the event was sent before.
func (l *Limiter) warn(ctx context.Context, from *limit, key []byte, cost int64, r *LimitResult, asker *asked) {
	levels := from.warnAt
	if asker != nil && levels == nil && r.Rule.Algorithm == store.Calendar {
		levels = calendarLevels
	}
	if len(levels) == 0 || !r.Charged {
		return
	}
	used := r.used()
	for i, level := range levels {
		at := threshold(level, r.Rule.Whole)
		if used < at {
			return
		}
		r.WarnLevel = level
		if used-cost < at && (l.onWarning != nil || asker != nil) && l.firstWarning(ctx, from, i, key, r) {
			w := Warning{
				Limit: r.Rule.Name, Level: level, Used: used, Burst: r.Rule.Whole, Key: string(key),
				Soft: r.Rule.Soft > 0 && used > r.Rule.Soft, Shadow: r.Shadow,
			}
			if l.onWarning != nil {
				l.onWarning(ctx, w)
			}
			if asker != nil {
				tellAsker(asker, w, from)
			}
		}
	}
}

// tellAsker notes a warning for whoever asks, who is not told a key that says more than the request does.
func tellAsker(q *asked, w Warning, from *limit) {
	if q.Request != nil && from.key.ReadsMore() {
		w.Key = ""
	}
	q.Warnings = append(q.Warnings, w)
}

// longestPeriod returns an upper bound of the length of a calendar limit's windows. It allows for days that a time
// zone had twice.
func longestPeriod(k *store.Period) time.Duration {
	if k.Unit == store.CalendarDay {
		return 2 * 24 * time.Hour
	}
	return 33 * 24 * time.Hour
}

// firstWarning reports whether an event was not sent before in this window. It remembers
// events in a store in memory. A token bucket can cross a level again and again while it
// refills, so its window is the least time between two events. A fixed or calendar
// window crosses a level once, so its end is part of the key.
func (l *Limiter) firstWarning(ctx context.Context, from *limit, level int, limitKey []byte, r *LimitResult) bool {
	key := strconv.AppendInt(nil, int64(level), 10)
	window := r.Rule.Window
	if r.Rule.Algorithm == store.Calendar {
		window = longestPeriod(&r.Rule.Calendar)
	}
	if r.Rule.Algorithm.EndsAtOnce() {
		key = strconv.AppendInt(append(key, '@'), r.At+r.ResetAfter.Microseconds(), 10)
	}
	key = append(append(key, '|'), limitKey...)
	// An event takes two units of three, so that its bucket is never exhausted. Among
	// exhausted buckets, a full Memory would search anew for each victim.
	once, err := store.NewRule(from.rule.Name, store.Numbers{Algorithm: store.SlidingLog, Quota: 3, Window: window})
	if err != nil {
		return true
	}
	var results [1]Result
	err = l.warned().Take(ctx, []Check{{Key: key, Rule: &once, Cost: 2}}, results[:])
	return err == nil && results[0].Allowed
}

const overSoft = "over soft limit; policy="

// appendWarning appends the value of the warning header.
func appendWarning(dst []byte, r *LimitResult) []byte {
	if r.Soft {
		dst = append(dst, overSoft...)
	} else {
		dst = append(dst, "approaching limit; policy="...)
	}
	dst = appendQuoted(dst, r.Rule.Name)
	dst = append(dst, "; used="...)
	dst = strconv.AppendInt(dst, r.usedPercent(), 10)
	return append(dst, '%')
}

func (r *LimitResult) usedPercent() int64 {
	return r.used() * 100 / r.Rule.Whole
}

// used returns how many units were used after a charge. It is right for the lower class
// of KeepFree, too: its requests are charged only while their own burst is not used up.
func (r *LimitResult) used() int64 { return r.Rule.Burst - r.Remaining }

// outranks reports whether the warning of r is to be shown instead of another limiter's, which
// is "" if there is none: one over its soft limit, or else the one with more use.
func (r *LimitResult) outranks(warning string) bool {
	if r.Soft != strings.HasPrefix(warning, overSoft) {
		return r.Soft
	}
	return usedPercent(warning) < r.usedPercent()
}

// usedPercent parses the percentage that appendWarning wrote. It returns -1 if there is
// none.
func usedPercent(warning string) int64 {
	_, used, _ := strings.Cut(warning, "; used=")
	n, err := strconv.ParseInt(strings.TrimSuffix(used, "%"), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// warning returns the result that the warning header shows: one over its soft limit, or
// else the one with the highest level, or nil.
func (d *Decision) warning() *LimitResult {
	var highest *LimitResult
	results := d.Results()
	for i := range results {
		r := &results[i]
		if !r.told() || r.WarnLevel == 0 && !r.Soft {
			continue
		}
		if highest == nil || r.Soft && !highest.Soft || r.Soft == highest.Soft && r.WarnLevel > highest.WarnLevel {
			highest = r
		}
	}
	return highest
}

// WarnLevel returns the highest level of [Limit.WarnAt] that the request has reached on
// any enforced limit, or 0 if none.
func (d *Decision) WarnLevel() float64 {
	level := 0.0
	for _, r := range d.Results() {
		if r.Enforced() {
			level = max(level, r.WarnLevel)
		}
	}
	return level
}
