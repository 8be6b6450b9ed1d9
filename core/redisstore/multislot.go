package redisstore

// Requests whose checks are in several hash slots.
//
// No slot knows what the others say. What one slot charges is given back if another
// one denies, and until that is known the charge is tentative: it takes units that
// others may need, and that may come back. So few charges are tentative, and those
// are marked:
//
//   - Slots are asked one after the other, and the one that most clients share last.
//     What that one charges is final, since all others have granted by then. The keys
//     of a single client come first, since these are what a client can exhaust at
//     will: a denial there charges nothing elsewhere. See multiSlot.plan.
//   - Where a slot has denied within the last second, all slots are asked before any
//     is charged. A denial that the denial cache knows is not asked for again. See
//     recentdenials.go.
//   - An account that its slot does not know denies the whole request, as it does in one
//     slot: what others have charged is given back. The slots that were not asked yet are
//     then peeked at, so that they count no denial.
//   - A tentative charge leaves a hold in the value, by the same call. The call that
//     gives the charge back removes the hold, or one that follows a granted request.
//     While there is a hold, the script flags denials of the key. Such denials are not
//     cached, count towards no block, and are asked for again, up to twice. If the
//     denial is left then, the client is told to wait for a moment only. See hold.go.
//
// If the process dies between the steps, or a node does not answer, what was charged
// stays, as for any check that was not answered, and holds expire. While a breaker is
// open for one of the nodes, nothing is charged elsewhere.

import (
	"context"
	"errors"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

const (
	// maxGivingBack bounds the requests whose charges are given back in the background.
	maxGivingBack = 64

	// minTimeToGiveBack is how much time must be left to give charges back while the
	// request waits. A node that does not answer can leave some microseconds.
	minTimeToGiveBack = 2 * time.Millisecond
)

// takeMultiSlot decides a request whose checks are in several slots. js are the
// request's jobs, which say what is in which slot and are never sent. It reports
// whether to ask again, because the denial is a tentative one.
func (s *Store) takeMultiSlot(ctx context.Context, l lookup, js []*job, checks []store.Check, results []store.Result) (again bool, err error) {
	if len(js) == 0 {
		return false, nil
	}
	m := newMultiSlot(js, checks)
	defer m.release()
	releaseAll(js)
	m.plan(&s.cardinalities)
	for i := range m.groups {
		g := &m.groups[i]
		if anyPenalized(g.checks) {
			continue
		}
		var known bool
		if g.lookup, known = s.denials.find(g.checks, g.results); known {
			g.state, g.final = slotDenied, true
			l = l.limitedBy(g.lookup)
		}
	}
	if m.isDenied() || m.isLikelyDenied(&s.recentDenials) {
		err = s.peekGroups(ctx, m, false)
	}
	if err == nil && !m.isDenied() {
		err = s.chargeGroups(ctx, m)
	}
	if err == nil && !m.isDenied() {
		s.removeHolds(m)
		m.copyResults(results)
		return false, nil
	}
	failed := s.giveBack(ctx, m)
	if err == nil {
		if err = failed; err == nil {
			err = s.peekGroups(ctx, m, true)
		}
	}
	m.copyResults(results)
	if err != nil {
		return false, err
	}
	counting.PassOver(checks, results) // a slot that has given back what it charged answered as if it was charged
	return s.noteDenials(m, l, checks, results), nil
}

// peekGroups asks the slots that have not answered yet, and charges nothing. Once it
// is known that the request is denied, it also asks slots that have not yet counted
// the denial towards their blocks.
func (s *Store) peekGroups(ctx context.Context, m *multiSlot, isDenied bool) error {
	unknown := m.isUnknown()
	if unknown {
		isDenied = false // the request is made again when the account is restored: no denial counts
	}
	for i := range m.groups {
		g := &m.groups[i]
		if g.state != slotUnasked && (g.counted || !isDenied || g.lookup.expires != 0) {
			continue
		}
		// A take that charges nothing counts denials towards blocks, and a peek does not.
		// But the denial of a shadow check does not end the request: it would be counted
		// again when the request is charged.
		judging := isDenied || !anyShadowPenalized(g.checks)
		if unknown {
			judging = !anyPenalized(g.checks)
		}
		if judging {
			g.job = s.groupJob(take, g)
			if g.job.Notice = s.noticeFor(g.lookup); g.job.judge() {
				g.job.seal(s.prefix)
				continue
			}
			g.job.release()
		}
		g.job = s.groupJob(peek, g)
		g.job.seal(s.prefix)
	}
	return s.runGroups(ctx, m)
}

// chargeGroups charges slot after slot, until one denies or fails.
func (s *Store) chargeGroups(ctx context.Context, m *multiSlot) error {
	if err := s.refuseIfOut(ctx, m); err != nil {
		return err
	}
	for i := range m.groups {
		m.groups[i].state = slotUnasked // whatever a peek has said
	}
	for from := 0; from < len(m.groups); {
		to := m.stepFrom(from)
		for i := from; i < to; i++ {
			g := &m.groups[i]
			g.job = s.groupJob(take, g)
			g.job.Notice = s.noticeFor(g.lookup)
			if m.isTentative(i) {
				g.job.hold(0)
			}
			g.job.seal(s.prefix)
		}
		if err := s.runGroups(ctx, m); err != nil || m.isDenied() {
			return err
		}
		from = to
	}
	return nil
}

// refuseIfOut fails if the breaker of one of the nodes is open, before anything is
// charged.
func (s *Store) refuseIfOut(ctx context.Context, m *multiSlot) error {
	for i := range m.groups {
		if s.openBreakers.Load() <= 0 {
			return nil
		}
		j := s.groupJob(peek, &m.groups[i]) // for its key
		j.seal(s.prefix)
		n, err := s.route.node(ctx, j)
		if err == nil && n.breaker.IsOpen() {
			err = n.refuse(j)
		}
		j.release()
		if err != nil {
			return err
		}
	}
	return nil
}

// runGroups runs the groups' jobs, reads the answers and releases the jobs.
func (s *Store) runGroups(ctx context.Context, m *multiSlot) error {
	m.jobs = m.jobs[:0]
	for i := range m.groups {
		if j := m.groups[i].job; j != nil {
			j.lateEnds = m.lateEnds
			m.jobs = append(m.jobs, j)
		}
	}
	err := s.run(ctx, m.jobs)
	for i := range m.groups {
		g := &m.groups[i]
		if j := g.job; j != nil {
			m.lateEnds = max(m.lateEnds, j.lateEnds)
			if !j.isAbandoned() && j.err == nil {
				if failed := g.readAnswer(j); failed != nil {
					err = errors.Join(err, failed)
				}
			}
			j.release()
			g.job = nil
		}
	}
	return err
}

// giveBack gives back what was charged, and removes the holds. If the deadline is
// over, or nearly, it does so in the background. Then the results still count as used
// what is on its way back.
func (s *Store) giveBack(ctx context.Context, m *multiSlot) error {
	inTime := ctx.Err() == nil && timeLeft(ctx) >= minTimeToGiveBack
	var refunds []*job
	for i := range m.groups {
		g := &m.groups[i]
		if g.state != slotGranted {
			continue
		}
		for k := range g.checks {
			if r := &g.results[k]; g.checks[k].Cost == 0 { // nothing to give back: what was answered stands
				r.Charged, r.Turn, r.At = false, 0, g.decided
			}
		}
		if g.job = s.groupJob(refund, g); g.heldAt != 0 {
			g.job.AddKeys(g.checks)
			g.job.hold(g.heldAt)
		}
		g.job.seal(s.prefix)
		refunds = append(refunds, g.job)
		if !inTime {
			g.job = nil // the goroutine's below
		}
		for k := range g.results {
			g.results[k].Charged = false
		}
	}
	switch {
	case len(refunds) == 0:
		return nil
	case inTime:
		return s.runGroups(ctx, m)
	}
	select {
	case s.givingBack <- struct{}{}:
	default:
		return nil // too many already: the charge stays
	}
	go func() {
		defer func() { <-s.givingBack }()
		s.runInBackground(refunds) // if it fails, the charge stays
	}()
	return nil
}

// removeHolds removes the holds of a granted request, in the background.
func (s *Store) removeHolds(m *multiSlot) {
	for i := range m.groups {
		if g := &m.groups[i]; g.heldAt != 0 {
			j := newJob(refund, g.slot)
			j.AddKeys(g.checks)
			j.hold(g.heldAt)
			j.seal(s.prefix)
			s.cleanup.add(s, j)
		}
	}
}

// noteDenials caches the denials of a request, and notes its keys for the next
// requests. It reports whether to ask again, because the denial is a tentative one.
func (s *Store) noteDenials(m *multiSlot, l lookup, checks []store.Check, results []store.Result) (again bool) {
	var all denial
	for i := range m.groups {
		g := &m.groups[i]
		if g.state != slotDenied {
			continue
		}
		s.recentDenials.note(g.checks, g.results)
		all.final, all.tentative = all.final || g.final, all.tentative || g.tentative
		if !g.tentative && g.lookup.expires == 0 { // else it is in the cache already
			s.keepDenial(g.lookup, g.checks, g.results, 0)
		}
	}
	if !all.tentative {
		s.keepDenial(l, checks, results, 0)
	}
	return worthAnotherAttempt(checks, all)
}

// worthAnotherAttempt reports whether to ask again for a denied request: part of the
// denial is tentative, and nothing counts twice. Where penalties apply, a final denial
// has counted towards a block, and must do so once.
func worthAnotherAttempt(checks []store.Check, d denial) bool {
	return d.tentative && (!d.final || !anyPenalized(checks))
}

// groupJob returns a job that asks for a group. It is to be sealed.
func (s *Store) groupJob(op operation, g *slotGroup) *job {
	var few [1]*job
	js := s.jobsWith(few[:0], op, g.slot, g.checks, g.results, chargedJustNow)
	if len(js) == 0 { // a refund of nothing that was charged
		return newJob(op, g.slot)
	}
	return js[0]
}

// anyPenalized reports whether a limit with a penalty applies to the checks.
func anyPenalized(checks []store.Check) bool {
	for i := range checks {
		if checks[i].Rule.Penalized() {
			return true
		}
	}
	return false
}

// anyShadowPenalized reports whether a penalty counts the denials of a shadow check.
func anyShadowPenalized(checks []store.Check) bool {
	for i := range checks {
		if checks[i].Shadow && checks[i].Rule.Penalized() {
			return true
		}
	}
	return false
}
