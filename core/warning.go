package core

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/integer"
)

// WarnAt tells clients that come near the limit before it refuses them: from the
// request on whose charge reaches a level, above 0 and at most 1 of the burst,
// responses have a warning header, the decision a level, and Config.OnWarning
// gets one event per key, level and window; a request that reaches several levels
// at once sends one for each, the lowest first. Defaults to none, and to 0.8, 0.9
// and 1 for a calendar window where OnWarning is set; WarnAt() means none there.
//
// In a fixed or calendar window one charge reaches a level, so there is one event
// over all processes that share the store. There can be more where what was used
// falls below a level again, by a refund, a reset or a change of the limit: then a
// process sends none that it has sent before. Prefetching and outages, in which
// processes don't know of each other, can bring one per process.
func (l Limit) WarnAt(levels ...float64) Limit {
	l.warnAt = slices.AppendSeq(make([]float64, 0, len(levels)), slices.Values(levels))
	slices.Sort(l.warnAt)
	return l
}

// Warning is the event that a client has come near a limit; see [Limit.WarnAt].
type Warning struct {
	Limit string  // its name
	Level float64 // the level of WarnAt that was reached
	Used  int64   // units, the request's own included
	Burst int64   // the units of which they are part
	Key   string  // who; as canonical as store keys are, secrets hashed

	// Soft says that the client is over the limit's soft limit; see [Limit.Soft].
	Soft bool

	// Shadow says that the limit is on trial, and that the client is not told.
	Shadow bool
}

// calendarLevels are the levels of calendar windows that have no WarnAt, where
// events are wanted.
var calendarLevels = []float64{0.8, 0.9, 1}

const headerWarning = "X-Ratelimit-Warning"

// maxWarned bounds the memory of which events have been sent. Beyond it, the
// events of the oldest keys may repeat.
const maxWarned = 1 << 16

// threshold returns the units from which on level is reached. Levels are taken
// to a millionth.
func threshold(level float64, burst int64) int64 {
	return max(integer.CeilMulDiv(int64(level*1e6+0.5), burst, 1e6), 1)
}

// warn finds the highest level that a charged result has reached, and sends an
// event if this very request reached it. Since a charge moves the count from
// below a level to above it only once on the way up, few requests get as far as
// asking whether the event was sent before.
func (l *Limiter) warn(ctx context.Context, from *limit, key []byte, cost int64, r *LimitResult) {
	if len(from.warnAt) == 0 || !r.Charged {
		return
	}
	used := r.used()
	for i, level := range from.warnAt {
		at := threshold(level, r.Rule.Whole)
		if used < at {
			return
		}
		r.WarnLevel = level
		if used-cost < at && l.onWarning != nil && l.firstWarning(ctx, from, i, key, r) {
			l.onWarning(ctx, Warning{
				Limit: r.Rule.Name, Level: level, Used: used, Burst: r.Rule.Whole, Key: string(key),
				Soft: r.Rule.Soft > 0 && used > r.Rule.Soft, Shadow: r.Shadow,
			})
		}
	}
}

// firstWarning reports whether a level's event is due: once per key and window.
// A bucket can cross a level again and again while it refills, a window just
// once in its time, so a window is part of the key and its length the time
// between events.
func (l *Limiter) firstWarning(ctx context.Context, from *limit, level int, who []byte, r *LimitResult) bool {
	key := strconv.AppendInt(nil, int64(level), 10)
	window := r.Rule.Window
	if r.Rule.Algorithm == store.Calendar {
		window = r.Rule.LongestPeriod()
	}
	if r.Rule.Algorithm == store.FixedWindow || r.Rule.Algorithm == store.Calendar {
		key = strconv.AppendInt(append(key, '@'), r.At+r.ResetAfter.Microseconds(), 10)
	}
	key = append(append(key, '|'), who...)
	// An event takes two units of three: of buckets that have nothing left, a full
	// Memory would look for each one's victim anew.
	once, err := store.NewRule(from.rule.Name, store.Numbers{Algorithm: store.SlidingLog, Quota: 3, Window: window})
	if err != nil {
		return true
	}
	var results [1]Result
	err = l.warned.Take(ctx, []Check{{Key: key, Rule: &once, Cost: 2}}, results[:])
	return err == nil && results[0].Allowed
}

// appendWarning writes the value of the warning header: of several limits, one that
// is over its soft limit, else the one of the highest level.
func appendWarning(dst []byte, r *LimitResult) []byte {
	if r.Soft {
		dst = append(dst, "over soft limit; policy="...)
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

// used returns the units that a charged result found used, its own included.
// Of the lower class, nothing is charged that finds more used than its part.
func (r *LimitResult) used() int64 { return r.Rule.Burst - r.Remaining }

// usedPercent reads what appendWarning wrote, or -1.
func usedPercent(warning string) int64 {
	_, used, _ := strings.Cut(warning, "; used=")
	n, err := strconv.ParseInt(strings.TrimSuffix(used, "%"), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// warning returns the result with the highest warning level, or nil. To be over a
// soft limit is above all levels.
func (d *Decision) warning() *LimitResult {
	var highest *LimitResult
	results := d.Results()
	for i := range results {
		r := &results[i]
		if r.Shadow || r.WarnLevel == 0 && !r.Soft {
			continue
		}
		if highest == nil || r.Soft && !highest.Soft || r.Soft == highest.Soft && r.WarnLevel > highest.WarnLevel {
			highest = r
		}
	}
	return highest
}

// WarnLevel returns the highest level of [Limit.WarnAt] that the request has
// reached on any enforced limit, or 0.
func (d *Decision) WarnLevel() float64 {
	level := 0.0
	for _, r := range d.Results() {
		if !r.Shadow {
			level = max(level, r.WarnLevel)
		}
	}
	return level
}
