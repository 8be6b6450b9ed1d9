package storetest

import (
	"math/big"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// askShare has the client of a check ask for its cost, and keeps that it did if it is to take. It returns nil for a check without
// a client.
func (m *model) askShare(c *core.Check, b *modelBucket, now int64, take bool) *modelShare {
	s := m.shareOf(c, now, c.Cost)
	if s == nil {
		return nil
	}
	t := now / modelTick(c.Rule)
	room := func(more int64) bool { return b.fits(t, c.Cost+more) }
	if s.fits = room(0); c.Cost == 0 || c.Cost > c.Rule.Burst {
		return s
	}
	s.ask(c.Cost, room)
	s.fits = s.standing != store.OverMaximum && room(s.reserves())
	s.look(c.Cost)
	if take {
		s.keep()
	}
	return s
}

func (s *modelShare) ask(cost int64, room func(more int64) bool) {
	n, d, whole := s.of, &s.division, s.whole()
	if d.enter(&s.client, s.round(), n.Weight, whole) {
		s.divided, s.asked = true, true
	}
	s.share = min(d.level*n.Weight, whole)
	s.drain(&s.client, s.share, n.Minimum, n.Maximum)
	has := s.has(&s.client, s.share)
	// Half of the reserve is used by those within their shares: all get no more than an equal share.
	if quarter := (s.rule.Whole - s.rule.Guaranteed) / 4; has && d.level > d.base(whole) && !room(s.rule.Guaranteed+quarter) {
		d.level, d.over, s.divided = d.base(whole), 0, true
		s.share = min(d.level*n.Weight, whole)
		has = s.has(&s.client, s.share)
	}
	if !has && d.want(&s.client, n.Weight) {
		s.divided, s.asked = true, true
	}
	s.ofUser = n.User == nil || s.askUser()
	switch left := s.share - s.client.debt - s.parts; {
	case n.Maximum > 0 && !within(s.client.most, cost, n.Maximum):
		s.standing = store.OverMaximum
	case within(s.client.least, cost, n.Minimum):
		s.standing = store.OfMinimum
	case has && s.ofUser:
		s.standing = store.WithinShare
	case has && left >= s.share/2: // half of the share is left to other users
		s.standing = store.UserOver
	default:
		s.standing = store.OverShare
	}
}

// askUser is ask for a user of the client, which divides the client's share: it reports whether the request fits its part.
func (s *modelShare) askUser() bool {
	d := &s.users
	if d.enter(&s.user, s.round(), 1, s.share) {
		s.using, s.usedOne = true, true
	}
	s.split = min(d.level, s.share)
	s.drain(&s.user, s.split, 0, 0)
	has := s.has(&s.user, s.split)
	if left := s.share - s.client.debt - s.parts; has && d.level > d.base(s.share) && left < s.share/4 {
		d.level, d.over, s.using = d.base(s.share), 0, true
		s.split = min(d.level, s.share)
		has = s.has(&s.user, s.split)
	}
	if !has && d.want(&s.user, 1) {
		s.using, s.usedOne = true, true
	}
	return has
}

// look notes what a result says of the share as it is before the request is charged.
func (s *modelShare) look(cost int64) {
	n, tick := s.of, modelShareTick(s.rule)
	left := s.share - s.client.debt
	if n.User != nil {
		left = min(left, s.split-s.user.debt)
	}
	if s.left = max(left, 0) / s.rule.Integers.Parts; s.standing == store.OverShare {
		s.left = 0
	}
	if s.standing == store.OfMinimum {
		unused := new(big.Rat).Sub(big.NewRat(n.Minimum, 1), s.usedOfMinimum())
		s.left = max(s.left, floorRat(unused))
	}
	switch s.standing {
	case store.OverShare:
		ticks := s.waits(&s.client, s.share)
		if n.User != nil {
			ticks = max(ticks, s.waits(&s.user, s.split))
		}
		s.until = modelTicks(ticks, tick)
	case store.OverMaximum:
		if cost <= n.Maximum {
			s.until = modelTicks(search(3*s.rule.Integers.Ticks, func(ticks int64) bool {
				used := new(big.Rat).Sub(s.client.most, s.perTicks(n.Maximum, ticks))
				return within(used, cost, n.Maximum)
			}), tick)
		}
	}
}

// modelTicks returns the time of ticks, up to 200 years.
func modelTicks(ticks int64, tick time.Duration) time.Duration {
	const longest = 2 * modelLongest * time.Microsecond
	if ticks > int64(longest/tick) {
		return longest
	}
	return time.Duration(ticks) * tick
}

func floorRat(r *big.Rat) int64 {
	return new(big.Int).Div(r.Num(), r.Denom()).Int64()
}

// usedOfMinimum returns what counts as used of the minimum when more of it is used: what is begun anew can seem to be over two
// ticks too early.
func (s *modelShare) usedOfMinimum() *big.Rat {
	if s.client.least.Sign() == 0 {
		return s.perTicks(s.of.Minimum, modelEarly)
	}
	return s.client.least
}

// pay charges what was granted.
func (s *modelShare) pay(cost int64) {
	if cost == 0 {
		return
	}
	n := s.of
	if n.Maximum > 0 {
		s.client.most, s.asked = plus(s.client.most, cost), true
	}
	switch s.standing {
	case store.OverShare:
		s.division.grant(s.parts)
		s.divided = true
		s.keep()
		return
	case store.OfMinimum:
		s.client.least = plus(s.usedOfMinimum(), cost)
	}
	s.charge(&s.client, s.share)
	s.asked = true
	switch {
	case n.User == nil:
	case s.standing == store.UserOver:
		s.users.grant(s.parts)
		s.using = true
	default:
		s.charge(&s.user, s.split)
		s.usedOne = true
	}
	s.keep()
}

// tell changes a result to what it says of a check with a share. b is the bucket after the call.
func (s *modelShare) tell(r *core.Result, b *modelBucket, cost int64, charged bool, key string) {
	parts := s.rule.Integers.Parts
	if s.standing == store.Undivided {
		s.tellShare(r)
		return
	}
	bound := s.share
	if s.of.User != nil && !s.ofUser {
		bound = s.split
	}
	r.Standing, r.Share = s.standing, bound/parts
	room, within := r.Remaining, int64(0)
	r.Allowed = charged || s.fits
	if r.Allowed {
		left := s.left
		if charged {
			left -= cost
		}
		within = min(left, room-s.reserves())
	}
	over := *s
	over.standing = store.OverShare
	r.Remaining = max(room-over.reserves(), within, 0)
	wait := func(units, more int64) (time.Duration, bool) {
		switch {
		case units+more > s.rule.Burst:
			return 0, false
		case b.over != nil:
			return b.answerForeign(s.now, cost, charged).Window, true
		}
		return b.waitFor(s.now, units+more, key, (*modelBucket).fits), true
	}
	if r.RetryAfter = 0; !r.Allowed {
		own, can := wait(cost, s.rule.Guaranteed)
		switch first, ever := wait(cost, s.reserves()); {
		case s.standing == store.OverMaximum && s.until > 0 && can:
			r.RetryAfter = max(s.until, own)
		case s.standing == store.OverMaximum:
		case s.standing == store.OverShare && s.until > 0 && can && (!ever || max(s.until, own) < first):
			r.RetryAfter = max(s.until, own)
		case ever:
			r.RetryAfter = first
		case s.standing == store.OverShare && s.until > 0 && can:
			r.RetryAfter = max(s.until, own)
		}
	}
	switch {
	case r.RetryAfter > 0:
		r.Window = r.RetryAfter
	case r.Remaining == 0:
		if r.Window, _ = wait(1, 0); b.over == nil {
			r.Window = b.waitFor(s.now, 1, key, (*modelBucket).fitsAtOnce)
		}
	default:
		r.Window = b.spread(r.Remaining)
	}
}

// tellShare sets what a result says after a call that asks for nothing.
func (s *modelShare) tellShare(r *core.Result) {
	if s != nil {
		r.Share = s.share / s.rule.Integers.Parts
	}
}

// find drains what is known of a client that was charged, and reports whether there is anything.
func (s *modelShare) find() bool {
	if s.division.gone == 0 || s.client.gone == 0 {
		return false
	}
	s.share = min(s.division.level*s.of.Weight, s.whole())
	s.drain(&s.client, s.share, s.of.Minimum, s.of.Maximum)
	if s.users.gone == 0 {
		s.user = modelPart{}.asOf(s.now, 0)
	}
	if s.split = min(s.users.level, s.share); s.user.gone != 0 {
		s.drain(&s.user, s.split, 0, 0)
	}
	return true
}

// chargeShare charges what is spent already, to those who are known.
func (m *model) chargeShare(c *core.Check, now int64) *modelShare {
	s := m.shareOf(c, now, c.Cost)
	if s == nil || !s.find() {
		return s
	}
	n := c.Share
	s.charge(&s.client, s.share)
	cost := min(c.Cost, store.AllParts)
	if least := minRat(plus(s.client.least, cost), big.NewRat(n.Minimum, 1)); least.Cmp(s.client.least) > 0 {
		s.client.least = least
	}
	if most := minRat(plus(s.client.most, min(cost, n.Maximum)), big.NewRat(2*n.Maximum, 1)); most.Cmp(s.client.most) > 0 {
		s.client.most = most
	}
	s.asked = true
	if s.user.gone != 0 && n.User != nil {
		s.charge(&s.user, s.split)
		s.usedOne = true
	}
	s.keep()
	return s
}

// refundShare gives back what was charged, but for what has drained since.
func (m *model) refundShare(c *core.Check, charged *core.Result, now int64) *modelShare {
	s := m.shareOf(c, now, c.Cost)
	if s == nil || !s.find() || charged.Standing == store.Undivided {
		return s
	}
	n, ticks := c.Share, s.rule.Integers.Ticks
	at := charged.At / modelShareTick(s.rule).Microseconds()
	since := max(s.tick-at, 0)
	back := func(p *modelPart, share int64) {
		if since < modelOwed*ticks {
			p.debt -= min(max(s.parts-s.drained(share, since), 0), p.debt)
		}
	}
	unused := func(used *big.Rat, perWindow int64) *big.Rat {
		given := new(big.Rat).Sub(big.NewRat(c.Cost, 1), s.perTicks(perWindow, min(since, ticks)))
		if given.Sign() < 0 {
			return used
		}
		if left := new(big.Rat).Sub(used, given); left.Sign() > 0 {
			return left
		}
		return new(big.Rat)
	}
	s.client.most, s.asked = unused(s.client.most, n.Maximum), true
	if charged.Standing == store.OverShare {
		if s.division.round == at/ticks {
			s.division.over -= min(s.parts, s.division.over)
			s.divided = true
		}
		s.keep()
		return s
	}
	if charged.Standing == store.OfMinimum {
		s.client.least = unused(s.client.least, n.Minimum)
	}
	back(&s.client, s.share)
	switch {
	case n.User == nil:
	case charged.Standing == store.UserOver:
		if s.users.gone != 0 && s.users.round == at/ticks {
			s.users.over -= min(s.parts, s.users.over)
			s.using = true
		}
	case s.user.gone != 0:
		back(&s.user, s.split)
		s.usedOne = true
	}
	s.keep()
	return s
}

// resetShare forgets a client, and its user.
func (m *model) resetShare(c *core.Check) {
	if s := m.shareOf(c, 0, 0); s != nil {
		delete(m.parts, s.names[1])
		if c.Share.User != nil {
			delete(m.parts, s.names[3])
		}
	}
}
