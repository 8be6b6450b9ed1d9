package redisstore

// A request on its way through several slots: in which order the slots are asked,
// and what each has answered.

import (
	"bytes"
	"cmp"
	"slices"
	"sync"

	"github.com/weblimit/weblimit/core/store"
)

// multiSlot is a request whose checks are in several slots. Only the request's
// goroutine uses it.
type multiSlot struct {
	groups     []slotGroup // one per slot, in the order in which they are asked
	canDenyLen int         // how many of the groups can deny: they come first

	checks  []store.Check  // of all groups, one after the other
	results []store.Result // of these
	which   []int          // which of the request's checks these are
	jobs    []*job         // for runGroups

	lateEnds int64 // as that of its jobs
}

// slotGroup is the checks of a request that are in one slot.
type slotGroup struct {
	slot    int
	checks  []store.Check
	results []store.Result

	// For the order.
	canDeny     bool
	cardinality int64  // the larger, the more keys there are like these: the fewer clients share them
	firstLimit  uint64 // the smallest id of the limits, for a stable order

	lookup lookup // in the denial cache

	job     *job // under way, or nil
	state   slotState
	denial        // if state is slotDenied
	decided int64 // when the last answer was given, by the server's clock, in microseconds
	counted bool  // a take has counted the denial towards the blocks
	heldAt  int64 // when the holds were left, by the server's clock, in microseconds; 0 if there are none
}

// slotState is what a slot has said.
type slotState byte

const (
	slotUnasked slotState = iota
	slotAsked             // it would grant, or has given back
	slotGranted           // it has charged, for all it knows
	slotDenied
)

// multiSlots are for reuse.
var multiSlots = sync.Pool{New: func() any { return new(multiSlot) }}

// newMultiSlot returns the request that jobs were made of.
func newMultiSlot(js []*job, checks []store.Check) *multiSlot {
	m := multiSlots.Get().(*multiSlot)
	m.checks, m.which = slices.Grow(m.checks, len(checks)), m.which[:0]
	m.results = slices.Grow(m.results, len(checks))[:len(checks)]
	clear(m.results)
	for _, j := range js {
		from := len(m.which)
		for _, i := range j.Checks {
			if i >= 0 { // no penalty
				m.which = append(m.which, i)
			}
		}
		slices.Sort(m.which[from:]) // as the request has them: alternatives follow each other
		for _, i := range m.which[from:] {
			m.checks = append(m.checks, checks[i])
		}
		to := len(m.which)
		m.groups = append(m.groups, slotGroup{slot: j.slot, checks: m.checks[from:to:to], results: m.results[from:to:to]})
	}
	return m
}

// release gives the request back for reuse. It keeps nothing of the caller's.
func (m *multiSlot) release() {
	clear(m.groups)
	clear(m.checks)
	clear(m.jobs[:cap(m.jobs)])
	m.groups, m.checks, m.results, m.jobs, m.canDenyLen = m.groups[:0], m.checks[:0], m.results[:0], m.jobs[:0], 0
	m.lateEnds = 0
	multiSlots.Put(m)
}

// copyResults gives the caller its results, in its own order.
func (m *multiSlot) copyResults(results []store.Result) {
	for n, i := range m.which {
		results[i] = m.results[n]
	}
}

// plan puts the groups in order: those that can deny first, and of these the ones
// whose limits have the most keys. So every process comes to the same order.
func (m *multiSlot) plan(c *cardinalities) {
	for i := range m.groups {
		g := &m.groups[i]
		for k := range g.checks {
			if canDeny(&g.checks[k]) {
				g.canDeny = true
			}
			if id := g.checks[k].Rule.ID(); k == 0 || id < g.firstLimit {
				g.firstLimit = id
			}
		}
		if g.canDeny {
			m.canDenyLen++
			g.cardinality = c.observeGroup(g.checks)
		}
	}
	slices.SortStableFunc(m.groups, func(a, b slotGroup) int {
		switch {
		case a.canDeny != b.canDeny && a.canDeny:
			return -1
		case a.canDeny != b.canDeny:
			return 1
		}
		return cmp.Or(cmp.Compare(b.cardinality, a.cardinality), cmp.Compare(a.firstLimit, b.firstLimit))
	})
}

// observeGroup notes the keys of checks, and returns the cardinality of the key that
// most clients share. A key has the largest cardinality of its limits: one limit for
// each client says what the key is, while others may apply to few of the clients.
func (c *cardinalities) observeGroup(checks []store.Check) int64 {
	var few [8]int64
	known := few[:0]
	for i := range checks {
		known = append(known, c.observe(&checks[i]))
		for k := range i {
			if bytes.Equal(checks[k].Key, checks[i].Key) {
				known[k] = max(known[k], known[i])
				known[i] = known[k]
			}
		}
	}
	return slices.Min(known)
}

// stepFrom returns the end of the step that begins with group i. The steps are the
// first group alone, those between together, and the last one that can deny, with
// those that can't.
func (m *multiSlot) stepFrom(i int) int {
	last := m.canDenyLen - 1
	switch {
	case i >= last:
		return len(m.groups)
	case i == 0:
		return 1
	}
	return last
}

// isTentative reports whether the charge of group i may be given back: all but that
// of the last group that can deny.
func (m *multiSlot) isTentative(i int) bool {
	return m.canDenyLen > 0 && i != m.canDenyLen-1
}

// isLikelyDenied reports whether a group behind the first has recently denied. Then
// charging those before it would likely be for nothing.
func (m *multiSlot) isLikelyDenied(r *recentDenials) bool {
	for i := 1; i < m.canDenyLen; i++ {
		if r.anyOf(m.groups[i].checks) {
			return true
		}
	}
	return false
}

// isDenied reports whether a slot has denied the request.
func (m *multiSlot) isDenied() bool {
	return slices.ContainsFunc(m.groups, func(g slotGroup) bool { return g.state == slotDenied })
}

// isUnknown reports whether a slot has denied the request because it does not know an account.
func (m *multiSlot) isUnknown() bool {
	for i := range m.groups {
		g := &m.groups[i]
		for k := range g.checks {
			if g.state == slotDenied && g.checks[k].Cost > 0 && g.results[k].Unknown {
				return true
			}
		}
	}
	return false
}

// readAnswer reads the answer to the group's job.
func (g *slotGroup) readAnswer(j *job) error {
	before, accounts := g.results, []store.Account(nil)
	if g.state == slotDenied {
		g.results, accounts = make([]store.Result, len(before)), accountsOf(g.checks)
	}
	if err := j.readAnswer(g.checks, g.results); err != nil {
		return err
	}
	g.counted, g.decided = g.counted || j.Op == take, j.at
	if g.state == slotDenied {
		// The first denial stands, even if the slot would grant by now: the request is
		// denied because of it.
		if j.isDenied() {
			copy(before, g.results)
		} else {
			putBack(g.checks, accounts)
		}
		g.results = before
		return nil
	}
	switch {
	case j.Op != refund && j.isDenied():
		g.state, g.denial = slotDenied, j.denial
	case j.granted:
		if g.state = slotGranted; j.leavesHold {
			g.heldAt = j.at
		}
	default:
		g.state = slotAsked
	}
	return nil
}

// accountsOf returns what the accounts of checks hold.
func accountsOf(checks []store.Check) []store.Account {
	accounts := make([]store.Account, len(checks))
	for i := range checks {
		if a := checks[i].Account; a != nil {
			accounts[i] = *a
		}
	}
	return accounts
}

// putBack sets the accounts of checks to what they held before.
func putBack(checks []store.Check, accounts []store.Account) {
	for i := range checks {
		if a := checks[i].Account; a != nil {
			*a = accounts[i]
		}
	}
}
