package regions

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// place is what is counted together: a key under a limit, in a window.
type place struct {
	limit  limit
	key    int
	window int64
}

// sum is what became of the requests of a place.
type sum struct {
	granted, asked, unknown map[*region]int64     // units
	least                   map[*region]*decision // the denial of the lowest cost
	first, last             int64                 // when the first was asked for, and the last was answered
}

// windows counts the decisions after a time by windows, each by its region's clock.
func (w *world) windows(since int64) map[place]*sum {
	sums := make(map[place]*sum)
	for _, p := range w.processes {
		for i := range p.decisions {
			d := &p.decisions[i]
			if d.limit == bucket || d.asked < since {
				continue
			}
			at := d.at
			if d.outcome == unknown {
				at = d.answered / 1000
			}
			of := place{d.limit, d.key, w.order.window(d.limit, at)}
			s := sums[of]
			if s == nil {
				s = &sum{granted: make(map[*region]int64), asked: make(map[*region]int64), unknown: make(map[*region]int64), least: make(map[*region]*decision), first: d.asked}
				sums[of] = s
			}
			s.first, s.last = min(s.first, d.asked), max(s.last, d.answered)
			s.asked[p.region] += d.cost
			switch d.outcome {
			case granted:
				s.granted[p.region] += d.cost
			case unknown:
				s.unknown[p.region] += d.cost
			case denied:
				if begins, _ := w.order.span(of.limit, of.window); d.asked/1000 < begins {
					break
				}
				if least := s.least[p.region]; least == nil || d.cost < least.cost {
					s.least[p.region] = d
				}
			}
		}
	}
	return sums
}

func total(by map[*region]int64) (n int64) {
	for _, units := range by {
		n += units
	}
	return n
}

// judge checks all that was granted, and that no floor was kept from anybody.
func (w *world) judge() {
	w.t.Helper()
	w.read()
	sums := w.windows(0)
	for of, s := range sums {
		w.judgeMost(of, s)
		w.judgeLeast(of, s)
	}
	for key := range keysPerLimit {
		w.judgeBucket(key)
	}
	if w.t.Failed() && !w.told["events"] {
		w.told["events"] = true
		w.t.Logf("seed %d; what has happened:\n%s", w.seed, strings.Join(w.events, "\n"))
	}
}

// fail reports a place once.
func (w *world) fail(of string, format string, args ...any) {
	w.t.Helper()
	if w.told[of] {
		return
	}
	w.told[of] = true
	w.t.Errorf("seed %d: %s: %s", w.seed, of, fmt.Sprintf(format, args...))
}

// judgeMost checks that all regions together have granted no more in a window than they may.
func (w *world) judgeMost(of place, s *sum) {
	w.t.Helper()
	quota, more, why := w.order.quota(of.limit), int64(w.order.Regions)*w.order.overdraft(of.limit), []string(nil)
	begins, ends := w.order.span(of.limit, of.window)
	for _, l := range w.losses {
		if l.at/1000 < begins || l.began/1000 >= ends {
			continue
		}
		again := int64(0)
		switch {
		case l.region != nil:
			again = w.leased(of, l.region, l.since, l.at) + w.order.floor(of.limit, w.order.Regions) + w.order.overdraft(of.limit)
		case l.since != 0: // an older replica has forgotten what was leased last
			again = w.leased(of, nil, l.since, l.at)
		}
		more += again
		why = append(why, fmt.Sprintf("%d since data was lost", again))
	}
	for _, r := range w.rolled { // floors were larger before, and are rounded otherwise
		if r[1]/1000 >= begins && r[0]/1000 < ends {
			again := w.order.floor(of.limit, w.order.Regions) + int64(w.order.Regions)
			more += again
			why = append(why, fmt.Sprintf("%d since the number of regions has changed", again))
		}
	}
	for _, j := range w.jumps {
		if j.to < j.from && total(s.granted) > quota { // the window may come twice
			again := w.grantedBefore(of, &j)
			more += again
			why = append(why, fmt.Sprintf("%d since a clock was set back", again))
		}
	}
	if got := total(s.granted); got > quota+more {
		w.fail(w.name(of), "granted %d units, %s; the quota is %d, and %d more are possible (%s); home has leased%s\nand granted were%s", got, perRegion(s.granted), quota, more, strings.Join(why, ", "), w.leases(of), w.grantsOf(of))
	}
}

// name returns a place in words.
func (w *world) name(of place) string {
	begins, _ := w.order.span(of.limit, of.window)
	return fmt.Sprintf("key %s, limit %v, the window that begins at %s", client(of.key), of.limit, time.UnixMicro(begins).Format("15:04:05.000"))
}

func perRegion(units map[*region]int64) string {
	all := slices.SortedFunc(maps.Keys(units), func(a, b *region) int { return a.number - b.number })
	texts := make([]string, len(all))
	for i, r := range all {
		texts[i] = fmt.Sprintf("%v %d", r, units[r])
	}
	return strings.Join(texts, ", ")
}

// leases returns what home has leased in a window, or a moment before or after it, in words.
func (w *world) leases(of place) string {
	var text strings.Builder
	for _, p := range w.processes {
		for i := range p.leases {
			l := &p.leases[i]
			if window := w.order.window(of.limit, l.at); l.limit == of.limit && l.key == of.key && window >= of.window-1 && window <= of.window+1 {
				fmt.Fprintf(&text, "\n  %d to %s, asked at %s, answered at %s, as of %s", l.units, p.name, clock(l.asked), clock(l.answered), clock(1000*l.at))
			}
		}
	}
	for _, p := range w.processes {
		for _, r := range p.refunds {
			if window := w.order.window(of.limit, r.answered/1000); r.limit == of.limit && r.key == of.key && window >= of.window-1 && window <= of.window+1 {
				fmt.Fprintf(&text, "\n  and got %d from %s at %s, charged %t as of %s", r.units, p.name, clock(r.answered), r.charged, clock(1000*r.at))
			}
		}
	}
	return text.String()
}

// grantsOf returns what was granted in a window, in words.
func (w *world) grantsOf(of place) string {
	var text strings.Builder
	for _, p := range w.processes {
		for i := range p.decisions {
			if d := &p.decisions[i]; d.limit == of.limit && d.key == of.key && d.outcome == granted && w.order.window(of.limit, d.at) == of.window {
				fmt.Fprintf(&text, "\n  %d by %s, asked at %s, answered at %s, as of %s", d.cost, p.name, clock(d.asked), clock(d.answered), clock(1000*d.at))
			}
		}
	}
	return text.String()
}

// leased returns how many units home has leased to a region, or to all if it is nil, in a window, between two times.
func (w *world) leased(of place, to *region, since, until int64) (units int64) {
	for _, p := range w.processes {
		if to != nil && p.region != to {
			continue
		}
		for i := range p.leases {
			l := &p.leases[i]
			if l.limit == of.limit && l.key == of.key && l.answered >= since && l.asked <= until && w.order.window(of.limit, l.at) == of.window {
				units += l.units
			}
		}
	}
	return units
}

// grantedBefore returns what a region had granted in a window before its clock was set back, or had leased for the next one,
// which then can end in this one; for home, what it had leased in the window.
func (w *world) grantedBefore(of place, j *jump) (units int64) {
	next := of
	next.window++
	if j.region == nil {
		return w.leased(of, nil, 0, j.at)
	}
	for _, p := range w.processes {
		for i := range p.decisions {
			d := &p.decisions[i]
			if p.region == j.region && d.limit == of.limit && d.key == of.key && d.outcome == granted && d.asked <= j.at && w.order.window(d.limit, d.at) == of.window {
				units += d.cost
			}
		}
	}
	return units + w.leased(next, j.region, 0, j.at)
}

// judgeLeast checks that a region has denied no request while most of its floor was free. It knows that of windows that
// begin empty, where no clock was set.
//
// A process that was denied a large request by the floor does not ask it for smaller ones for a second, so the highest cost may
// be left. Requests that were asked for before the window are not counted: they had the floor of the one before.
func (w *world) judgeLeast(of place, s *sum) {
	w.t.Helper()
	if of.limit == sliding {
		return
	}
	for r, d := range s.least {
		if w.turned(r) {
			continue
		}
		free := w.order.floor(of.limit, w.order.Regions) - w.order.MaxCost
		for _, p := range w.processes { // those may have charged what nobody was told of
			if p.region == r && p.killed {
				free -= int64(w.order.Goroutines) * w.order.MaxCost
			}
		}
		if got := s.granted[r] + s.unknown[r]; got <= free {
			w.fail(w.name(of), "%v has denied %d units, and granted only %d, less than its floor; granted %s; process %s asked at %s and was answered at %s, as of %s", r, d.cost, got,
				perRegion(s.granted), d.in.name, clock(d.asked), clock(d.answered), clock(1000*d.at))
		}
	}
}

// turned reports whether the clock of a region was set.
func (w *world) turned(r *region) bool {
	return slices.ContainsFunc(w.jumps, func(j jump) bool { return j.region == r })
}

// clock returns a time in nanoseconds in words.
func clock(nanos int64) string { return time.Unix(0, nanos).Format("05.000000") }
