package regions

import (
	"fmt"
	"slices"
	"time"
)

// judgeBucket checks a key of the token bucket: between any two times, all regions together have granted no more than the
// burst, what the bucket regains meanwhile, and what they had leased before.
//
// The clocks of servers may be wrong, so all times are those at which processes have asked and were answered. What was asked
// for and answered within an interval was certainly granted in it.
func (w *world) judgeBucket(key int) {
	w.t.Helper()
	var grants []*decision
	var leases []*lease
	for _, p := range w.processes {
		for i := range p.decisions {
			if d := &p.decisions[i]; d.limit == bucket && d.key == key && d.outcome == granted {
				grants = append(grants, d)
			}
		}
		for i := range p.leases {
			if l := &p.leases[i]; l.limit == bucket && l.key == key {
				leases = append(leases, l)
			}
		}
	}
	slices.SortFunc(grants, func(a, b *decision) int { return int(a.answered - b.answered) })
	for _, first := range grants {
		from, sum := first.asked, int64(0)
		held := heldAt(leases, nil, from, w.order.period())
		by := make(map[*region]int64)
		for _, d := range grants {
			if d.asked < from {
				continue
			}
			sum += d.cost
			by[d.in.region] += d.cost
			most := w.order.quota(bucket) + w.order.regained(time.Duration(d.answered-from)) + held
			if sum <= most { // what faults add is reckoned only where it matters
				continue
			}
			if more := w.moreInBucket(leases, from, d.answered); sum > most+more {
				w.fail(fmt.Sprintf("key %s, limit %v", client(key), bucket), "from %s on for %v granted %d units, %s; possible are %d, of which %d were leased before, and %d more by faults",
					time.Unix(0, from).Format("15:04:05.000"), time.Duration(d.answered-from), sum, perRegion(by), most, held, more)
				return
			}
		}
	}
}

// regained returns how many units the whole bucket regains in a time, rounded up.
func (n *numbers) regained(d time.Duration) int64 {
	return n.Quota*int64(d)/int64(n.Window) + 1
}

// heldAt returns how many units a region may hold at a time, or all if it is nil: those that were leased within a period
// before.
func heldAt(leases []*lease, by *region, at int64, period time.Duration) (units int64) {
	for _, l := range leases {
		if (by == nil || l.in.region == by) && l.asked < at && l.answered >= at-int64(period) {
			units += l.units
		}
	}
	return units
}

// moreInBucket returns what faults may add in an interval.
func (w *world) moreInBucket(leases []*lease, from, until int64) (units int64) {
	floor := w.order.floor(bucket, w.order.Regions)
	pool := w.order.quota(bucket) - int64(w.order.Regions)*floor
	for _, l := range w.losses {
		switch {
		case l.at < from || l.began > until:
		case l.region != nil: // its floor, and what it holds
			units += floor + heldAt(leases, l.region, l.at, w.order.period()+time.Duration(l.at-l.began))
		case l.since == 0: // home begins with a full pool
			units += pool
		default: // home has forgotten what it has leased meanwhile
			units += min(pool, heldAt(leases, nil, l.at, time.Duration(l.at-l.since)))
		}
	}
	for _, j := range w.jumps {
		whole := floor
		if j.region == nil || j.region.server == w.home {
			whole += pool
		}
		if j.at >= from && j.at <= until {
			units += min(whole, w.order.regained(j.by()))
		}
	}
	return units
}
