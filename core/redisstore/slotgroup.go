package redisstore

import (
	"bytes"
	"cmp"
	"slices"
	"sync"

	"github.com/weblimit/weblimit/core/store"
)

// several is a request on its way through several slots.
type several struct {
	groups []slotGroup
	can    int // how many of the groups can deny: they come first

	checks  []store.Check  // in the order of the groups
	results []store.Result // of these
	which   []int          // of the request's checks they are
	ps      []*part
}

// slotGroup is what a request asks of one slot.
type slotGroup struct {
	slot    int
	checks  []store.Check
	results []store.Result
	can     bool  // it can deny
	spread  int64 // the larger, the more keys there are like these: the fewer clients share them
	limit   uint32
	asking  asking

	part      *part // under way
	state     groupState
	unsettled bool  // denied, and some of that may be over in a moment
	settled   bool  // denied, and some of that is not
	counted   bool  // its penalties have counted what it denies
	held      int64 // when its holds were taken, by the server's clock; 0 if it has none
}

type groupState byte

const (
	unasked groupState = iota
	asked              // it would grant, or has given back
	granted            // it has charged, for all it knows
	denied
)

var severals = sync.Pool{New: func() any { return new(several) }}

// newSeveral returns the request that parts were made of.
func newSeveral(ps []*part, checks []store.Check) *several {
	r := severals.Get().(*several)
	r.checks, r.which = slices.Grow(r.checks, len(checks)), r.which[:0]
	r.results = slices.Grow(r.results, len(checks))[:len(checks)]
	clear(r.results)
	for _, p := range ps {
		from := len(r.which)
		for _, i := range p.Checks {
			if i >= 0 {
				r.which = append(r.which, i)
				r.checks = append(r.checks, checks[i])
			}
		}
		to := len(r.which)
		r.groups = append(r.groups, slotGroup{slot: p.slot, checks: r.checks[from:to:to], results: r.results[from:to:to]})
	}
	return r
}

func (r *several) release() {
	clear(r.groups)
	clear(r.checks)
	clear(r.ps[:cap(r.ps)])
	r.groups, r.checks, r.results, r.ps, r.can = r.groups[:0], r.checks[:0], r.results[:0], r.ps[:0], 0
	severals.Put(r)
}

// tell gives the request its results.
func (r *several) tell(results []store.Result) {
	for n, i := range r.which {
		results[i] = r.results[n]
	}
}

// plan puts the groups in order: those that can deny first, and of these the ones
// with the most keys like theirs, by which every process comes to the same order.
func (r *several) plan(s *spreads) {
	for i := range r.groups {
		g := &r.groups[i]
		for j := range g.checks {
			if deniable(&g.checks[j]) {
				g.can = true
			}
			if id := g.checks[j].Rule.ID(); j == 0 || id < g.limit {
				g.limit = id
			}
		}
		if g.can {
			r.can++
			g.spread = s.meetAll(g.checks)
		}
	}
	slices.SortStableFunc(r.groups, func(a, b slotGroup) int {
		switch {
		case a.can != b.can && a.can:
			return -1
		case a.can != b.can:
			return 1
		}
		return cmp.Or(cmp.Compare(b.spread, a.spread), cmp.Compare(a.limit, b.limit))
	})
}

// meetAll notes the keys of checks, and returns a number for the one that most
// clients share. Of the limits of a key, one for each client says what it is: others
// may apply to few of them.
func (s *spreads) meetAll(checks []store.Check) int64 {
	var few [8]int64
	met := few[:0]
	for i := range checks {
		met = append(met, s.meet(&checks[i]))
		for j := range i {
			if bytes.Equal(checks[j].Key, checks[i].Key) {
				met[j] = max(met[j], met[i])
				met[i] = met[j]
			}
		}
	}
	return slices.Min(met)
}

// stepFrom returns where the step ends that begins with a group: the first alone,
// those between together, the last with those that can't deny.
func (r *several) stepFrom(i int) int {
	last := r.can - 1
	switch {
	case i >= last:
		return len(r.groups)
	case i == 0:
		return 1
	}
	return last
}

// isTentative reports whether a group's charge may be given back: all but what the
// last group charges that can deny.
func (r *several) isTentative(i int) bool {
	return r.can > 0 && i != r.can-1
}

// isSuspect reports whether a slot behind the first may deny, which would make the
// charges before it tentative for nothing.
func (r *several) isSuspect(s *suspects) bool {
	for i := 1; i < r.can; i++ {
		if s.any(r.groups[i].checks) {
			return true
		}
	}
	return false
}

// isDenied reports whether a slot has denied the request.
func (r *several) isDenied() bool {
	return slices.ContainsFunc(r.groups, func(g slotGroup) bool { return g.state == denied })
}

// hear reads the answer to a group's part.
func (g *slotGroup) hear(p *part) error {
	before := g.results
	if g.state == denied {
		g.results = make([]store.Result, len(before))
	}
	if err := p.answer(g.checks, g.results); err != nil {
		return err
	}
	g.counted = g.counted || p.Op == take
	if g.state == denied {
		if p.denies() {
			copy(before, g.results)
		} // else the first answer stands: the request is denied for it
		g.results = before
		return nil
	}
	switch {
	case p.Op != refund && p.denies():
		g.state, g.settled, g.unsettled = denied, p.settled, p.unsettled
	case p.granted:
		if g.state = granted; p.holds {
			g.held = p.at
		}
	default:
		g.state = asked
	}
	return nil
}
