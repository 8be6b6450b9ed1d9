package prove

import (
	"math"
	"slices"
)

// When operations may have happened whose time nobody was told.

// aheadOf returns by how much the server's clock is ahead of the test's, at least and at most, in microseconds.
func aheadOf(part []*operation) (slow, fast int64) {
	slow, fast = math.MinInt64/2, math.MaxInt64/2
	for _, o := range part {
		if t := o.at() - o.Ahead; len(o.Results) > 0 && o.Kind != refund && !o.isRepeat() {
			slow, fast = max(slow, t-o.Return/1000-1), min(fast, t-o.Call/1000+1)
		}
	}
	return slow, fast
}

// mostBehind is how far behind the time may be by which a process decides, in microseconds: see pgstore.
const mostBehind = 1_000_000

// timesOf returns when operations may have happened whose time nobody was told, by the server's clock: the
// first and the last time, and those at which something becomes different that later answers about the
// same bucket are about. All other times come to the same.
func timesOf(limits []limit, part []*operation, slow, fast int64, behind bool) map[int][]int64 {
	times := map[int][]int64{}
	for _, o := range part {
		if o.Undone || o.Kind == reset || o.Kind == unblock || !o.unknown() && o.Kind != block {
			continue
		}
		from, to := o.Call/1000+slow+o.Ahead, int64(math.MaxInt64)
		if behind {
			from -= mostBehind
		}
		if !o.unknown() {
			to = o.Return/1000 + fast + 1 + o.Ahead
		}
		found := []int64{from}
		if !o.unknown() {
			found = append(found, to)
		}
		for _, later := range part {
			for i, r := range later.Results {
				c := later.Checks[i]
				if later.Return < o.Call || !slices.ContainsFunc(o.Checks, func(x check) bool { return x.Key == c.Key && x.Limit == c.Limit }) {
					continue
				}
				if o.Kind == block {
					if r.Blocked { // by this block, which may be hidden behind a longer wait
						found = append(found, r.At+r.Window-o.Micros, r.At+1-o.Micros)
						for _, at := range whenOf(later, part, slow, fast) {
							found = append(found, at+1-o.Micros)
						}
					}
					continue
				}
				for _, length := range lengths(&limits[c.Limit]) {
					for _, span := range [...]int64{r.RetryAfter, r.ResetAfter, r.Window} {
						for _, kept := range keptOf(limits, part, c) {
							found = append(found, r.At+span-length-kept)
						}
					}
				}
			}
		}
		found = slices.DeleteFunc(found, func(t int64) bool { return t < from || t > to })
		slices.Sort(found)
		times[o.ID] = slices.Compact(found)
	}
	return times
}

// whenOf returns the times at which the model looks at a repeated denial, which other operations can have
// come before. See spec.denies.
func whenOf(repeat *operation, part []*operation, slow, fast int64) (all []int64) {
	if !repeat.isRepeat() {
		return nil
	}
	first, last := repeat.Call/1000+slow+repeat.Ahead, repeat.Return/1000+fast+repeat.Ahead
	all = append(all, first)
	for _, o := range part {
		if t := o.at(); len(o.Results) > 0 && !o.isRepeat() && t > first && t <= last {
			all = append(all, t)
		}
	}
	return all
}

// keptOf returns by how much less than whole units refunds of a token bucket may have given back, in
// microseconds of refilling: time had given that back already.
func keptOf(limits []limit, part []*operation, of check) []int64 {
	l, all := &limits[of.Limit], []int64{0}
	if l.Algorithm != tokenBucket {
		return all
	}
	for _, o := range part {
		for i, c := range o.Checks {
			if o.Kind != refund || c.Key != of.Key || c.Limit != of.Limit || len(o.Results) == 0 || !o.Before[i].Charged || len(all) == 8 {
				continue
			}
			own := c.Cost * l.Window / l.Quota
			kept := min(max(o.Results[i].At-o.Before[i].At-max(o.Before[i].ResetAfter-own, 0), 0), own)
			for _, k := range all {
				all = append(all, k+kept)
			}
		}
	}
	return all
}

// lengths returns how long things can last that an operation begins.
func lengths(l *limit) (all []int64) {
	switch l.Algorithm {
	case tokenBucket:
		for n := range 4*(l.Burst+l.Wait*l.Quota/l.Window+1) + 1 { // 0 if nothing is left but what a refund kept
			all = append(all, ceilDiv(n*l.Window, l.Quota))
		}
	case slidingLog, concurrency:
		all = []int64{l.Window}
	case fixedWindow:
		if l.FromUse { // another window begins at no time that an operation chooses
			all = []int64{l.Window}
		}
	}
	if l.After > 0 {
		all = append(all, l.Within)
		for length := l.For; ; length = min(length*l.Factor, l.Max) {
			if all = append(all, length); length >= l.Max || l.Factor == 1 {
				break
			}
		}
	}
	return all
}
