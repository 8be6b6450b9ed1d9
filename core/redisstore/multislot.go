package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// takeSeveral decides a request whose checks are in several slots, none of which
// knows what the others say. What one charges is given back if another denies, and
// as long as that is open the charge is tentative: it takes units that others may
// need, and that may come back. So few charges are tentative, and those are known:
//
//   - Slots are asked one after the other, the one that most clients share last.
//     What that one charges is final: all others have granted by then. The keys of
//     one client come first, since these are what a client can exhaust at will: a
//     denial there charges nothing elsewhere. See plan.
//   - Where a slot has denied a moment ago, all are asked before, without a charge.
//     A denial that this process knows already is not asked for again. See suspects.
//   - A tentative charge leaves a hold in the value, by the same call. The call that
//     gives it back clears the hold, or one that follows a granted request. While
//     there is a hold, the script flags denials of the key: these are not kept, count
//     towards no block, and are asked for again, up to twice; then the client is told
//     to wait for a moment only. See hold.
//
// If the process dies between the steps, or a node does not answer, what was
// charged stays, as for any check that was not answered, and holds end by
// themselves. While a node is known to be out, nothing is charged elsewhere.
//
// ps are the request's parts, which need not be sealed. It reports whether to ask
// again for what tentative charges have denied.
func (s *Store) takeSeveral(ctx context.Context, a asking, ps []*part, checks []store.Check, results []store.Result) (again bool, err error) {
	if len(ps) == 0 {
		return false, nil
	}
	r := newSeveral(ps, checks)
	defer r.release()
	release(ps)
	r.plan(&s.spreads)
	for i := range r.groups {
		g := &r.groups[i]
		var known bool
		if g.asking, known = s.denials.find(g.checks, g.results); known {
			g.state, g.settled = denied, true
			a = a.within(g.asking)
		}
	}
	if r.isDenied() || r.isSuspect(&s.suspects) {
		err = s.lookAt(ctx, r, false)
	}
	if err == nil && !r.isDenied() {
		err = s.chargeAll(ctx, r)
	}
	if err == nil && !r.isDenied() {
		s.confirm(r)
		r.tell(results)
		return false, nil
	}
	back := s.withdraw(ctx, r)
	if err == nil {
		if err = back; err == nil {
			err = s.lookAt(ctx, r, true)
		}
	}
	r.tell(results)
	if err != nil {
		return false, err
	}
	return s.learn(r, a, checks, results), nil
}

// lookAt asks the slots that have said nothing yet, and charges nothing. Once it is
// known that the request is denied, those are asked as well that have not counted it
// towards the blocks that they may begin.
func (s *Store) lookAt(ctx context.Context, r *several, isDenied bool) error {
	for i := range r.groups {
		g := &r.groups[i]
		if g.state != unasked && (g.counted || !isDenied || g.asking.ends != 0) {
			continue
		}
		if isDenied || !shadowPenalized(g.checks) { // whose denials don't end a request
			if g.part = s.groupPart(take, g); g.part.judge() {
				g.part.seal(s.prefix)
				continue
			}
			g.part.release()
		}
		g.part = s.groupPart(peek, g)
		g.part.seal(s.prefix)
	}
	return s.askGroups(ctx, r)
}

// chargeAll charges slot after slot, and ends with one that denies or fails.
func (s *Store) chargeAll(ctx context.Context, r *several) error {
	if err := s.reach(ctx, r); err != nil {
		return err
	}
	for i := range r.groups {
		r.groups[i].state = unasked // whatever was looked at
	}
	for from := 0; from < len(r.groups); {
		to := r.stepFrom(from)
		for i := from; i < to; i++ {
			g := &r.groups[i]
			g.part = s.groupPart(take, g)
			if r.isTentative(i) {
				g.part.hold(0)
			}
			g.part.seal(s.prefix)
		}
		if err := s.askGroups(ctx, r); err != nil || r.isDenied() {
			return err
		}
		from = to
	}
	return nil
}

// reach reports a node that is known to be out, before anything is charged.
func (s *Store) reach(ctx context.Context, r *several) error {
	for i := range r.groups {
		if s.out.Load() <= 0 {
			return nil
		}
		p := s.groupPart(peek, &r.groups[i])
		p.seal(s.prefix)
		n, err := s.route.node(ctx, p)
		if err == nil && n.breaker.isOpen() {
			err = n.refuse(p)
		}
		p.release()
		if err != nil {
			return err
		}
	}
	return nil
}

// askGroups has the groups' parts decided, reads the answers and drops the parts.
func (s *Store) askGroups(ctx context.Context, r *several) error {
	r.ps = r.ps[:0]
	for i := range r.groups {
		if p := r.groups[i].part; p != nil {
			r.ps = append(r.ps, p)
		}
	}
	err := s.run(ctx, r.ps)
	for i := range r.groups {
		g := &r.groups[i]
		if p := g.part; p != nil {
			if p.state.Load() != abandoned && p.err == nil {
				if failed := g.hear(p); failed != nil {
					err = errors.Join(err, failed)
				}
			}
			p.release()
			g.part = nil
		}
	}
	return err
}

// withdraw gives back what was charged, with its holds. When the deadline is over,
// or nearly, it does so in the background: then the results still count what is on
// its way back.
func (s *Store) withdraw(ctx context.Context, r *several) error {
	inTime := ctx.Err() == nil && timeLeft(ctx) >= minReturn
	var back []*part
	for i := range r.groups {
		g := &r.groups[i]
		if g.state != granted {
			continue
		}
		if g.part = s.groupPart(refund, g); g.held != 0 {
			g.part.AddKeys(g.checks)
			g.part.hold(g.held)
		}
		g.part.seal(s.prefix)
		back = append(back, g.part)
		if !inTime {
			g.part = nil
		}
		for j := range g.results {
			g.results[j].Charged = false
		}
	}
	switch {
	case len(back) == 0:
		return nil
	case inTime:
		return s.askGroups(ctx, r)
	}
	select {
	case s.returning <- struct{}{}:
	default:
		return nil // too many already: the charge stays
	}
	go func() {
		defer func() { <-s.returning }()
		ctx, cancel := context.WithTimeout(context.Background(), returnTimeout) // the caller's is not ours any more
		defer cancel()
		_ = s.run(ctx, back) // or the charge stays
		release(back)
	}()
	return nil
}

// confirm clears the holds of a granted request, in the background.
func (s *Store) confirm(r *several) {
	for i := range r.groups {
		if g := &r.groups[i]; g.held != 0 {
			p := newPart(refund, g.slot)
			p.AddKeys(g.checks)
			p.hold(g.held)
			p.seal(s.prefix)
			s.clearing.add(s, p)
		}
	}
}

// learn keeps the denials of a request. It reports whether to ask again for what
// tentative charges have denied.
func (s *Store) learn(r *several, a asking, checks []store.Check, results []store.Result) (again bool) {
	settled, unsettled := false, false
	for i := range r.groups {
		g := &r.groups[i]
		if g.state != denied {
			continue
		}
		s.suspects.note(g.checks, g.results)
		settled, unsettled = settled || g.settled, unsettled || g.unsettled
		if !g.unsettled && g.asking.ends == 0 { // else it is kept already
			s.denials.keep(g.asking, g.checks, g.results)
		}
	}
	if !unsettled {
		s.denials.keep(a, checks, results)
	}
	return worthAgain(checks, settled, unsettled)
}

// worthAgain reports whether to ask again for checks that were denied, if some of
// that may be over in a moment, and some not. What is not counts towards blocks, once.
func worthAgain(checks []store.Check, settled, unsettled bool) bool {
	return unsettled && (!settled || !penalized(checks))
}

// groupPart returns the part of a group for an operation, not sealed yet.
func (s *Store) groupPart(op operation, g *slotGroup) *part {
	var few [1]*part
	ps := s.split(few[:0], op, g.slot, g.checks, g.results)
	if len(ps) == 0 { // nothing was charged that could be given back
		return newPart(op, g.slot)
	}
	return ps[0]
}

// penalized reports whether a limit with a penalty applies to the checks.
func penalized(checks []store.Check) bool {
	for i := range checks {
		if checks[i].Rule.Penalized() {
			return true
		}
	}
	return false
}

// shadowPenalized reports whether a penalty counts what a shadow check denies.
func shadowPenalized(checks []store.Check) bool {
	for i := range checks {
		if checks[i].Shadow && checks[i].Rule.Penalized() {
			return true
		}
	}
	return false
}

const (
	// maxReturning bounds the requests that are given back in the background.
	maxReturning = 64

	// returnTimeout is how long that may take.
	returnTimeout = time.Second

	// minReturn is how much time must be left to do so while the request waits.
	// A node that does not answer leaves some microseconds at times.
	minReturn = 2 * time.Millisecond
)
