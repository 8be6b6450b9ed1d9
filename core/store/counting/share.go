package counting

import (
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/integer"
)

// A limit that clients divide keeps two kinds of records beside its bucket: a [Division] for all of them, and a [Part] for
// each. The bucket alone decides how many units there are, so it is as exact as that of other limits. What is here
// only denies those who are over their share while units are scarce.
//
// Units are counted in parts: store.AllParts of them are the quota of a window, whatever that is. So a quota that
// changes, as a scaled one does, changes no record.
//
//   - A client's share is the level times its weight. It has a bucket of one window's share, which
//     drains as time goes on. A request that fits it is within the share.
//   - A request within the share can use all that the limit holds, but for what is kept for minima. Another one must leave
//     the reserve: half of that. So whoever is over its share gets what others leave, all the rate if they leave it, and
//     never what they may need in the next moment.
//   - The level is looked for in rounds of one window. It rises by what was granted over shares, divided among those who wanted
//     more than theirs: Newton's step to the level of max-min fairness. That does not overshoot, since nobody
//     can take more than it is given. It aims at all but a 256th within shares.
//   - It falls at once when requests within their shares have used half of the reserve: to the base, the equal share of all
//     who asked in this round or the last one. That is never too high.
//
// Users who divide the part of their client do so in the same way, with the client's bucket in place of the limit's.

const (
	// slack is the part of the whole that the level leaves to those over their shares, 1/slack. Without it nobody
	// would know whether the level can rise.
	slack = 256

	// How many clients of a limit, and users of a client, have a record at most that ask in one round.
	maxClients = 100_000
	maxUsers   = 10_000

	// maxOwed is how many windows a part's debt can last, however much is charged for work that is done.
	maxOwed = 64

	// early is how many ticks come on top of what is used of a minimum: see Part.chargeLeast.
	early = 2

	// mostOver bounds Division.Over, so that sums of it and parts are exact.
	mostOver = integer.Max
)

// Division is what a store keeps of a whole that clients of a limit, or users of a client, divide. The zero Division is that of
// one of which nobody has asked. It can be dropped when it has expired. A Division is not safe for concurrent use.
type Division struct {
	Expires int64 // microseconds since the epoch
	Round   int64 // the last one in which somebody asked: windows since the epoch
	Level   int64 // parts per window and weight
	Active  int64 // the weights of those who asked in the round
	Before  int64 // of those who asked in the round before
	Capped  int64 // the weights of those in Active who wanted more than their share
	Over    int64 // parts granted in the round to requests that were over their share
	Clients int64 // how many asked in the round, up to maxClients or maxUsers
}

// Part is what a store keeps of a client, or user, that divides a whole. The zero Part is that of one that has not asked. It can
// be dropped when it has expired. A Part is not safe for concurrent use.
type Part struct {
	Expires int64 // microseconds since the epoch
	At      int64 // tick since the epoch up to which the debts have drained
	Debt    int64 // parts used of the share that have not drained
	Least   int64 // units used of the minimum that have not drained, times Integers.Ticks
	Most    int64 // of the maximum, alike
	Round   int64 // the last one in which it asked
	Capped  bool  // in that round it wanted more than its share
	Large   bool  // the debt was more than one window's share when it was charged
}

// roll moves on to the round of a tick.
func (d *Division) roll(round, whole int64) {
	switch {
	case d.Round == round:
		return
	case d.Round+1 == round:
		if d.Before = d.Active; d.Capped > 0 {
			d.Level += integer.FloorDiv(d.Over-whole/slack, d.Capped)
		}
	default: // nobody asked for a whole round, or the clock was set back
		d.Before, d.Level = 0, whole
	}
	d.Round, d.Active, d.Capped, d.Over, d.Clients = round, 0, 0, 0, 0
}

// base returns the equal share of all who are active.
func (d *Division) base(whole int64) int64 {
	return max((whole-whole/slack)/max(d.Active, d.Before, 1), 1)
}

// bound keeps the level between the base and the whole.
func (d *Division) bound(whole int64) { d.Level = max(min(max(d.Level, d.base(whole)), whole), 1) }

// fall lowers the level to the base.
func (d *Division) fall(whole int64) { d.Level, d.Over = d.base(whole), 0 }

// meet notes that a client of a weight asks, unless it is new and as many have asked as can have a record. It reports
// whether the client has one, and whether this is the first time in the round.
func (d *Division) meet(p *Part, weight, most int64) (met, news bool) {
	if p.Expires != 0 && p.Round == d.Round {
		return true, false
	}
	if p.Expires == 0 && d.Clients >= most {
		return false, false
	}
	p.Round, p.Capped = d.Round, false
	d.Active += weight
	d.Clients = min(d.Clients+1, most) // it is above if many have a record from the round before
	return true, true
}

// cap notes that a client asks for more than its share, and reports whether this is the first time in the round.
func (d *Division) cap(p *Part, weight int64) (news bool) {
	if p.Capped {
		return false
	}
	p.Capped = true
	d.Capped += weight
	return true
}

// grant notes parts that were granted over a share.
func (d *Division) grant(parts int64) { d.Over = min(d.Over+parts, mostOver) }

// takeBack takes back what was granted over a share in a round, unless it is over.
func (d *Division) takeBack(parts, round int64) (changed bool) {
	if d.Round != round {
		return false
	}
	d.Over -= min(parts, d.Over)
	return true
}

// drain has the debts drain up to a tick. A debt that fitted the share of its time lasts for one window at most, even if the
// share is smaller by now: so nobody who has used what was idle is denied for long after others have come.
func (p *Part) drain(n *store.Share, share, tick, perWindow int64) {
	p.drainSince(n, share, tick, perWindow)
	if p.Debt <= share {
		p.Large = false
	}
	if p.Large {
		p.Debt = min(p.Debt, maxOwed*share)
	} else {
		p.Debt = min(p.Debt, share)
	}
	p.Least = min(p.Least, n.Minimum*(perWindow+early)) // it may have been larger
	p.Most = min(p.Most, 2*n.Maximum*perWindow)
}

func (p *Part) drainSince(n *store.Share, share, tick, perWindow int64) {
	ticks := tick - p.At
	if p.At = tick; ticks <= 0 { // or the clock was set back
		return
	}
	if p.Debt > 0 {
		if windows := ticks / perWindow; windows > maxOwed {
			p.Debt = 0
		} else {
			p.Debt = max(p.Debt-windows*share-ticks%perWindow*share/perWindow, 0)
		}
	}
	ticks = min(ticks, 2*perWindow) // a bucket of them holds one window, and can owe another one
	p.Least = max(p.Least-n.Minimum*ticks, 0)
	p.Most = max(p.Most-n.Maximum*ticks, 0)
}

// holds reports whether parts fit a share. What is larger than the share fits if nothing is owed: it is waited off, unless that
// takes too long.
func (p *Part) holds(share, parts int64) bool {
	return p.Debt+parts <= share || p.Debt == 0 && parts <= maxOwed*share
}

// until returns the ticks until parts fit a share, or 0 if they never do.
func (p *Part) until(share, parts, perWindow int64) int64 {
	more := p.Debt - max(share-parts, 0)
	if more <= 0 || parts > maxOwed*share {
		return 0
	}
	ticks := more/share*perWindow + integer.CeilDiv(more%share*perWindow, share)
	return min(ticks, (maxOwed+1)*perWindow) // the share may have fallen since it was charged
}

// charge adds what was used, up to what can be owed.
func (p *Part) charge(share, parts int64) {
	p.Debt = max(p.Debt, min(p.Debt+parts, maxOwed*share))
	p.Large = p.Debt > share
}

// chargeLeast adds units that were used of a minimum. What drains in whole ticks, and is looked at in the limit's own ones, can
// be gone up to two ticks too early. Then it would be denied, so those come on top when the first of it is used.
func (p *Part) chargeLeast(units, minimum, perWindow int64) {
	p.Least = p.beforeLeast(minimum) + units*perWindow
}

// beforeLeast returns what counts as used of a minimum before more of it is used.
func (p *Part) beforeLeast(minimum int64) int64 {
	if p.Least == 0 {
		return early * minimum
	}
	return p.Least
}

// refund takes back what was charged some ticks ago, less what has drained since.
func (p *Part) refund(share, parts, ticks, perWindow int64) {
	if ticks < maxOwed*perWindow {
		back := parts - ticks/perWindow*share - ticks%perWindow*share/perWindow
		p.Debt -= min(max(back, 0), p.Debt)
	}
}

// expire sets when a part means nothing any more: two windows after it asked, or when it owes nothing, by its share
// of now, but within 100 years if those are longer than two windows.
func (p *Part) expire(now, share, window int64) {
	owed := min(integer.CeilDiv(p.Debt, max(share, 1)), maxOwed, integer.Longest.Microseconds()/window)
	p.Expires = now + max(owed, 2)*window
}
