package regions

import (
	"fmt"
	"strings"
	"time"

	"github.com/weblimit/weblimit/core/store/regional"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// passes returns when all processes that are not stopped have decided for n windows more.
func (w *world) passes(n int) {
	w.t.Helper()
	until := time.Now().Add(time.Duration(n) * w.order.Window).UnixNano()
	wait.Until(w.t, "all processes have decided for some windows", func() bool {
		w.read()
		for _, r := range w.regions {
			for _, p := range r.processes {
				if !p.halted && (len(p.decisions) == 0 || p.decisions[len(p.decisions)-1].answered < until) {
					return false
				}
			}
		}
		return true
	})
}

// enough is which part of the quota the regions are granted in a good window, in percent. What is missing lies unused in regions
// when the window ends.
const enough = 70

// grants returns when regions have granted more than their floors since a time, and all of them together nearly the
// quota, so that a store that denies everything does not pass.
//
// On a machine with other work it takes long, and there are more decisions to look at each time: a look may take a tenth of
// the time, so that the judge does not keep the regions from what it waits for.
func (w *world) grants(since int64, by ...*region) {
	w.t.Helper()
	began := time.Now()
	again, last := began, error(nil)
	wait.For(w.t, fmt.Sprintf("%v grant more than their floors again", by), func() error {
		if time.Now().Before(again) {
			return last
		}
		looks := time.Now()
		last = w.grantAgain(began, since, by)
		again = time.Now().Add(10 * time.Since(looks))
		return last
	})
}

// grantAgain returns what is missing of that, or nil.
func (w *world) grantAgain(began time.Time, since int64, by []*region) error {
	w.read()
	sums := w.windows(since)
	if !w.isGood(sums) {
		return fmt.Errorf("seed %d: no window had %d %% of its quota in the last %v", w.seed, enough, time.Since(began))
	}
	for _, r := range by {
		for _, l := range []limit{fixed, sliding, bucket} {
			if w.beyondFloor(sums, r, l, since) == 0 {
				return fmt.Errorf("seed %d: %v has granted no more than its floor under limit %v for %v; %+v", w.seed, r, l, time.Since(began), w.stats(r, time.Now().UnixNano()))
			}
		}
	}
	return nil
}

// isGood reports whether a window was granted nearly its quota, or nearly all that was asked for.
func (w *world) isGood(sums map[place]*sum) bool {
	for of, s := range sums {
		if of.limit == fixed && 100*total(s.granted) >= enough*w.order.quota(fixed) {
			return true
		}
	}
	return false
}

// beyondFloor returns when a region has granted more than its floor of a limit, to a key, since a time, or 0.
func (w *world) beyondFloor(sums map[place]*sum, r *region, l limit, since int64) int64 {
	floor := w.order.floor(l, w.order.Regions)
	if l != bucket {
		first := int64(0)
		for of, s := range sums {
			if of.limit == l && s.granted[r] > floor && (first == 0 || s.last < first) {
				first = s.last
			}
		}
		return first
	}
	var units [keysPerLimit]int64
	for _, p := range w.processes {
		for i := range p.decisions {
			d := &p.decisions[i]
			if d.in.region != r || d.limit != bucket || d.outcome != granted || d.asked < since {
				continue
			}
			units[d.key] += d.cost
			regained := w.order.regained(time.Duration(d.answered-since)) * w.order.Floor / (100 * int64(w.order.Regions))
			if units[d.key] > floor+regained+1 {
				return d.answered
			}
		}
	}
	return 0
}

// stats returns the sum of what a region's processes had counted at a time.
func (w *world) stats(r *region, at int64) (sum regional.Counts) {
	for _, p := range w.processes {
		if p.region != r {
			continue
		}
		var last regional.Counts
		for _, s := range p.stats {
			if s.at > at {
				break
			}
			last = s.Counts
		}
		sum = added(sum, last, 1)
	}
	return sum
}

// added returns numbers and those of another, times a factor.
func added(a, b regional.Counts, times int64) regional.Counts {
	return regional.Counts{
		Messages: a.Messages + times*b.Messages, Failed: a.Failed + times*b.Failed, Crowded: a.Crowded + times*b.Crowded,
		Leased: a.Leased + times*b.Leased, Spent: a.Spent + times*b.Spent, Lost: a.Lost + times*b.Lost, Skewed: a.Skewed + times*b.Skewed, Told: a.Told + times*b.Told,
		Waited: a.Waited + times*b.Waited, Early: a.Early + times*b.Early,
	}
}

// phase is a part of a run.
type phase struct {
	name        string
	from, until int64
}

// report prints what was granted in each phase.
func (w *world) report(phases []phase) {
	w.t.Helper()
	var text strings.Builder
	sums := w.windows(0)
	for _, p := range phases {
		fmt.Fprintf(&text, "\n%s, %.1f s:", p.name, time.Duration(p.until-p.from).Seconds())
		for _, l := range []limit{fixed, sliding, overdrawn} {
			n, granted, asked, by := int64(0), int64(0), int64(0), make(map[*region]int64)
			for of, s := range sums {
				begins, ends := w.order.span(l, of.window)
				if of.limit != l || begins < p.from/1000 || ends > p.until/1000 {
					continue
				}
				n++
				granted += total(s.granted)
				asked += min(total(s.asked), w.order.quota(l))
				for r, units := range s.granted {
					by[r] += units
				}
			}
			if n == 0 {
				continue
			}
			for r := range by {
				by[r] /= n
			}
			fmt.Fprintf(&text, "\n  %v: granted %d of %d that could be, a window and key; by region %s; %d windows", l, granted/n, asked/n, perRegion(by), n)
		}
		for _, r := range w.regions {
			fmt.Fprintf(&text, "\n  %v %+v", r, added(w.stats(r, p.until), w.stats(r, p.from), -1))
		}
	}
	w.t.Log(text.String())
}
