package counting

import (
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/integer"
)

// Sharing is what a store keeps for a check with Share beside its bucket: see [State].
type Sharing struct {
	Division Division // of the check's key and rule
	Client   Part     // of Share.Key in it
	Users    Division // of the client; only with Share.User
	User     Part     // of Share.User in it

	// The records to be written back. They can be removed when they expire.
	DivisionChanged, ClientChanged, UsersChanged, UserChanged bool

	of           *store.Rule
	numbers      *store.Share
	now, tick    int64
	parts        int64 // of the cost
	share, split int64 // parts per window: of the client, and of its user
	standing     store.Standing
}

// mostQuotas is above what a burst can be, in quotas.
const mostQuotas = 2048

// begin prepares the records to be read at now.
func (h *Sharing) begin(c *store.Check, now, cost int64) {
	h.of, h.numbers, h.now = c.Rule, c.Share, now
	h.share, h.split, h.standing = 0, 0, store.Undivided
	h.parts = PartsOf(c.Rule, cost)
	h.tick = integer.InTicks(now, h.window()/h.perWindow())
	if h.Division.Expires <= now {
		h.Division = Division{}
	}
	if h.Client.Expires <= now {
		h.Client = Part{}
	}
	if h.Users.Expires <= now {
		h.Users = Division{}
	}
	if h.User.Expires <= now {
		h.User = Part{}
	}
}

func (h *Sharing) unchanged() {
	if h != nil {
		h.DivisionChanged, h.ClientChanged, h.UsersChanged, h.UserChanged = false, false, false, false
	}
}

func (h *Sharing) window() int64    { return h.of.Window.Microseconds() }
func (h *Sharing) perWindow() int64 { return h.of.Integers.Ticks }
func (h *Sharing) whole() int64     { return h.of.Quota * h.of.Integers.Parts }

// AlarmAt returns how many units there are in a bucket when requests within their shares have used half of the reserve.
func AlarmAt(r *store.Rule) (units int64) { return r.Guaranteed + (r.Whole-r.Guaranteed)/4 }

// PartsOf returns the parts of a cost: fewer if it can't be granted, or was under other numbers.
func PartsOf(r *store.Rule, cost int64) int64 {
	return min(cost, mostQuotas*r.Quota) * r.Integers.Parts
}

// PartsOwed returns the parts of a cost that is charged whether it fits or not: no more than can be owed.
func PartsOwed(r *store.Rule, cost int64) int64 { return min(cost, maxOwed*r.Quota) * r.Integers.Parts }

// KeptFrom returns how many units a request of a standing must leave in the bucket.
func KeptFrom(r *store.Rule, standing store.Standing) (units int64) {
	switch standing {
	case store.OfMinimum:
		return 0
	case store.OverShare:
		return r.Guaranteed + (r.Whole-r.Guaranteed)/2
	}
	return r.Guaranteed
}

// judge finds the standing of a request that asks for a cost, and notes that it has asked. fits reports whether the bucket
// holds the cost and so many units more.
func (h *Sharing) judge(cost int64, fits func(more int64) bool) {
	r, n := h.of, h.numbers
	round, whole := h.tick/h.perWindow(), h.whole()
	h.Division.roll(round, whole)
	met, news := h.Division.meet(&h.Client, n.Weight, maxClients)
	if news {
		h.DivisionChanged, h.ClientChanged = true, true
	}
	h.Division.bound(whole)
	h.share = 0
	if met {
		h.share = min(h.Division.Level*n.Weight, whole)
		h.Client.drain(n, h.share, h.tick, h.perWindow())
	}
	holds := met && h.Client.holds(h.share, h.parts)
	if holds && h.Division.Level > h.Division.base(whole) && !fits(AlarmAt(r)) {
		h.Division.fall(whole)
		h.DivisionChanged = true
		h.share = min(h.Division.Level*n.Weight, whole)
		holds = h.Client.holds(h.share, h.parts)
	}
	if met && !holds && h.Division.cap(&h.Client, n.Weight) {
		h.DivisionChanged, h.ClientChanged = true, true
	}
	userOver := met && n.User != nil && h.judgeUser(round)
	perWindow := h.perWindow()
	switch {
	case met && n.Maximum > 0 && (cost > n.Maximum || h.Client.Most+cost*perWindow > n.Maximum*perWindow):
		h.standing = store.OverMaximum
	case met && cost <= n.Minimum && h.Client.Least+cost*perWindow <= n.Minimum*perWindow:
		h.standing = store.OfMinimum
	case holds && !userOver:
		h.standing = store.WithinShare
	case holds && h.share-h.Client.Debt-h.parts >= h.share/2:
		h.standing = store.UserOver
	default:
		h.standing = store.OverShare
	}
}

// judgeUser is judge for a user of the client: it reports whether the user is over its equal part of the client's share.
func (h *Sharing) judgeUser(round int64) (over bool) {
	h.Users.roll(round, h.share)
	met, news := h.Users.meet(&h.User, 1, maxUsers)
	if news {
		h.UsersChanged, h.UserChanged = true, true
	}
	h.Users.bound(h.share)
	h.split = 0
	if !met {
		return true
	}
	h.split = min(h.Users.Level, h.share)
	h.User.drain(&store.Share{}, h.split, h.tick, h.perWindow())
	holds := h.User.holds(h.split, h.parts)
	if holds && h.Users.Level > h.Users.base(h.share) && h.share-h.Client.Debt-h.parts < h.share/4 {
		h.Users.fall(h.share)
		h.UsersChanged = true
		h.split = min(h.Users.Level, h.share)
		holds = h.User.holds(h.split, h.parts)
	}
	if !holds && h.Users.cap(&h.User, 1) {
		h.UsersChanged, h.UserChanged = true, true
	}
	return !holds
}

// commit charges what was judged.
func (h *Sharing) commit(cost int64) {
	n, met := h.numbers, h.share > 0
	if met && n.Maximum > 0 {
		h.Client.Most += cost * h.perWindow()
		h.ClientChanged = true
	}
	if h.standing == store.OverShare {
		h.Division.grant(h.parts)
		h.DivisionChanged = true
		return
	}
	if h.standing == store.OfMinimum {
		h.Client.chargeLeast(cost, n.Minimum, h.perWindow())
	}
	h.Client.charge(h.share, h.parts)
	h.ClientChanged = true
	switch {
	case n.User == nil || h.split == 0:
	case h.standing == store.UserOver:
		h.Users.grant(h.parts)
		h.UsersChanged = true
	default:
		h.User.charge(h.split, h.parts)
		h.UserChanged = true
	}
}

// chargeAnyway charges a cost that is spent already.
func (h *Sharing) chargeAnyway(cost int64) {
	n, perWindow := h.numbers, h.perWindow()
	if !h.find() {
		return
	}
	h.parts = PartsOwed(h.of, cost)
	h.Client.charge(h.share, h.parts)
	h.Client.Least = max(h.Client.Least, min(h.Client.Least+min(cost, n.Minimum)*perWindow, n.Minimum*perWindow))
	h.Client.Most = max(h.Client.Most, min(h.Client.Most+min(cost, n.Maximum)*perWindow, 2*n.Maximum*perWindow))
	h.ClientChanged = true
	if h.User.Expires != 0 {
		h.User.charge(h.split, h.parts)
		h.UserChanged = true
	}
}

// refund gives back a cost that was charged at a time, when the client had a standing.
func (h *Sharing) refund(cost, at int64, standing store.Standing) {
	n, perWindow := h.numbers, h.perWindow()
	if !h.find() || standing == store.Undivided {
		return
	}
	cost = min(cost, store.AllParts)
	charged := integer.InTicks(at, h.window()/perWindow)
	ticks := max(h.tick-charged, 0)
	since := min(ticks, perWindow)
	h.ClientChanged = true
	h.Client.Most -= min(max(cost*perWindow-n.Maximum*since, 0), h.Client.Most)
	if standing == store.OverShare {
		h.DivisionChanged = h.Division.takeBack(h.parts, charged/perWindow)
		return
	}
	if standing == store.OfMinimum {
		h.Client.Least -= min(max(cost*perWindow-n.Minimum*since, 0), h.Client.Least)
	}
	h.Client.refund(h.share, h.parts, ticks, perWindow)
	if standing == store.UserOver {
		h.UsersChanged = h.Users.Expires != 0 && h.Users.takeBack(h.parts, charged/perWindow)
	} else if h.User.Expires != 0 {
		h.User.refund(h.split, h.parts, ticks, perWindow)
		h.UserChanged = true
	}
}

// find drains what there is of the client and its user, and reports whether there is anything. Nobody asks.
func (h *Sharing) find() bool {
	if h.share, h.split = 0, 0; h.Division.Expires == 0 || h.Client.Expires == 0 {
		return false
	}
	h.share = min(h.Division.Level*h.numbers.Weight, h.whole())
	h.Client.drain(h.numbers, h.share, h.tick, h.perWindow())
	if h.Users.Expires == 0 {
		h.User = Part{}
	}
	if h.split = min(h.Users.Level, h.share); h.User.Expires != 0 {
		h.User.drain(&store.Share{}, h.split, h.tick, h.perWindow())
	}
	return true
}

// end sets when the records that have changed expire: two windows from now on, or later if something is owed.
func (h *Sharing) end() {
	expires := h.now + 2*h.window()
	if h.DivisionChanged {
		h.Division.Expires = expires
	}
	if h.ClientChanged {
		h.Client.expire(h.now, h.share, h.window())
	}
	if h.UsersChanged {
		h.Users.Expires = expires
	}
	if h.UserChanged {
		h.User.expire(h.now, h.split, h.window())
	}
}

// judgeShare denies the check if its client is over its share, and others may need what is left.
func (s *State) judgeShare(c *store.Check, now int64) {
	n := &s.reading.Numbers
	if n[sharePart], n[tellPart] = 0, 0; c.Share == nil || s.Sharing == nil {
		return
	}
	h, cost := s.Sharing, s.cost(c)
	h.begin(c, now, cost)
	if cost == 0 || cost > c.Rule.Burst {
		return
	}
	h.judge(cost, func(more int64) bool { return s.reading.fits(c.Rule, cost+more) })
	s.fits = h.standing != store.OverMaximum && s.reading.fits(c.Rule, cost+KeptFrom(c.Rule, h.standing))
	h.tell(cost, s.fits, n)
}

// commitShare charges the client's share, if the check was charged.
func (s *State) commitShare(c *store.Check) {
	h := s.Sharing
	if c.Share == nil || h == nil {
		return
	}
	if s.reading.Charged && c.Cost > 0 {
		h.commit(c.Cost)
	}
	h.end()
}

// nobodyAsked leaves out what was noted of clients that ask, for a call that changes nothing.
func nobodyAsked(states []State) {
	for i := range states {
		states[i].Sharing.unchanged()
	}
}
