package prove

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core/redisstore"
)

// isRepeat reports whether the operation is a denial that a process repeated without asking Redis.
func (o *operation) isRepeat() bool { return len(o.Results) > 0 && o.Results[0].Cached }

// relate finds the denial that each repeat repeats, and since when the repeat must be right: since the
// process last received all that was sent to it, and since it gave units back itself.
func (h *history) relate(tb testing.TB, part []*operation) {
	tb.Helper()
	slow, _ := aheadOf(part)
	age := h.age
	if age == 0 {
		age = redisstore.DefaultDenialAge
	}
	for _, o := range part {
		if !o.isRepeat() {
			continue
		}
		first := firstOf(o, part, func(told *operation) bool { return o.Call/1000+slow <= told.at()+age.Microseconds() })
		if first == nil {
			tb.Errorf("seed %d: process %d repeats what it was not told within %v: %d.%d (called %d, returned %d; the server is %d ahead at least) %s\n%s", h.seed, o.Process, age,
				o.Process, o.Thread, o.Call/1000, o.Return/1000, slow, o.describe(h.job.Limits), h.alike(o, part))
			continue
		}
		if o.Since = first.Call; h.lossOf(o.Process) != drop {
			o.Since = max(o.Since, o.Heard)
		}
		if h.lossOf(o.Process) == refused && slices.ContainsFunc(o.Checks, func(c check) bool { return h.job.Limits[c.Limit].After > 0 }) {
			tb.Errorf("seed %d: process %d, which receives nothing, repeats a block: %s", h.seed, o.Process, o.describe(h.job.Limits))
		}
		for _, b := range part {
			if b.Process == o.Process && b.givesBack() && b.Ended && b.Err == "" && b.Return < o.Call && h.concerns(b, o) {
				o.Since = max(o.Since, b.Return)
			}
		}
		// It is right until something was given back of which the process has not heard.
		until := o.Call
		for _, b := range part {
			if (b.Client == everybody || b.givesBack() && h.concerns(b, o)) && (b.unknown() || b.Return > o.Since) {
				until = min(until, b.Call)
			}
		}
		o.Since = max(o.Since, until)
	}
}

// alike describes what the process was answered to the same request.
func (h *history) alike(repeat *operation, part []*operation) string {
	var s strings.Builder
	for _, o := range part {
		if o.Kind == take && o.Process == repeat.Process && slices.Equal(o.Checks, repeat.Checks) {
			fmt.Fprintf(&s, "  %d.%d (called %d, returned %d) %s\n", o.Process, o.Thread, o.Call/1000, o.Return/1000, o.describe(h.job.Limits))
		}
	}
	return s.String()
}

// firstOf returns the first operation whose answer a repeat may repeat, or nil.
func firstOf(repeat *operation, part []*operation, recent func(told *operation) bool) (first *operation) {
	for _, o := range part {
		if o.Kind != take || o.Process != repeat.Process || o.isRepeat() || o.Call > repeat.Return || o.Err != "" || !slices.Equal(o.Checks, repeat.Checks) {
			continue
		}
		if o.Ended && (!repeat.repeats(o) || !recent(o)) { // else the process was killed before it noted the answer
			continue
		}
		if first == nil || o.Call < first.Call {
			first = o
		}
	}
	return first
}

// lossOf returns what becomes of the messages to a process.
func (h *history) lossOf(process int) loss {
	if h.losses == nil {
		return ""
	}
	return h.losses[process]
}

// givesBack reports whether the operation may end denials.
func (o *operation) givesBack() bool {
	if o.Undone {
		return false
	}
	switch o.Kind {
	case refund, reset, block, unblock:
		return true
	}
	return false
}

// concerns reports whether an operation can end a repeated denial. No such denial depends on slots, but one can
// depend on a block.
func (h *history) concerns(o, repeat *operation) bool {
	return slices.ContainsFunc(o.Checks, func(a check) bool {
		l := &h.job.Limits[a.Limit]
		return (l.Algorithm != concurrency || l.After > 0 && o.Kind != refund) &&
			slices.ContainsFunc(repeat.Checks, func(b check) bool { return a.Key == b.Key && a.Limit == b.Limit })
	})
}

// repeats reports whether the operation says what another one was answered, some time later.
func (o *operation) repeats(b *operation) bool {
	passed := o.Results[0].At - b.Results[0].At
	if passed < 0 {
		return false
	}
	for i, was := range b.Results {
		was.Cached = true
		was.At += passed
		was.ResetAfter = max(was.ResetAfter-passed, 0)
		if !was.Allowed && was.RetryAfter > 0 {
			was.RetryAfter = max(was.RetryAfter-passed, 0)
			was.Window, was.Allowed = was.RetryAfter, was.RetryAfter == 0
		}
		if was != o.Results[i] {
			return false
		}
	}
	return true
}

// repeat returns the state, if a denial may be repeated in it: Redis would deny, too, and not count that.
func (m *spec) repeat(s *state, o *operation) []any {
	if m.denies(s, o) {
		return []any{s}
	}
	var all []any
	for _, before := range m.happen(s, o.Return/1000+m.fast+o.Ahead) {
		if m.denies(before, o) {
			all = append(all, before)
		}
	}
	return all
}

// denies reports whether the operation is denied by the state, which stays as it is.
func (m *spec) denies(s *state, o *operation) (denied bool) {
	got := make([]result, len(o.Checks))
	// What the process does not know is what others did. It has a clock.
	after := m.apply(s, o, max(s.last, o.Call/1000+m.slow+o.Ahead), got)
	for i := range o.Checks {
		c := &o.Checks[i]
		if cell := c.cell(len(m.limits)); after.buckets[cell] != s.buckets[cell] {
			return false
		}
		denied = denied || !c.Shadow && !got[i].Allowed && !o.Results[i].Allowed
	}
	return denied
}

// repeatsOf is which processes of a history repeat denials.
type repeatsOf int

const (
	byNone repeatsOf = iota
	bySome
	byAll
)

func (r repeatsOf) process(n int) bool { return r == byAll || r == bySome && n%2 == 0 }
