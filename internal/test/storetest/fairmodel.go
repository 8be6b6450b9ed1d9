package storetest

import (
	"math/big"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// modelDivision is what is known of those who divide a limit, or the share of a client. Levels and what was granted are in
// parts: Integers.Parts are a unit.
type modelDivision struct {
	gone   int64 // when all this means nothing any more, in microseconds
	round  int64
	level  int64 // the share of a weight of one
	over   int64 // granted in the round over shares
	weight [2]int64
	hungry int64 // the weights of those who wanted more than their share in the round
	asked  int64 // how many asked in the round
}

// modelPart is what is known of one of them.
type modelPart struct {
	gone, at    int64 // at in ticks
	debt        int64
	large       bool     // the debt was more than the share of its time
	least, most *big.Rat // units used of the minimum and the maximum
	ticks       int64    // of the window under which these were counted: one of another length counts them otherwise
	round       int64
	hungry      bool
}

// The numbers that documents name.
const (
	modelSlack    = 256 // the level leaves a 256th
	modelOwed     = 64  // windows
	modelEarly    = 2   // ticks
	modelMostOver = 1 << 51
)

// modelShare is one check of a client that divides a limit.
type modelShare struct {
	m                              *model
	rule                           *core.Rule
	of                             *store.Share
	names                          [4]string // of the limit's division, the client, its users' division, the user
	now, tick                      int64
	division, users                modelDivision
	client, user                   modelPart
	divided, asked, using, usedOne bool // what has changed of them
	parts                          int64
	share, split                   int64
	standing                       store.Standing
	fits, ofUser                   bool          // the request; and into the part of its user
	left                           int64         // units of the share
	until                          time.Duration // until it has room, or 0 if it never has
}

// shareOf returns what is known of a check's client as of now, or nil for a check without.
func (m *model) shareOf(c *core.Check, now, cost int64) *modelShare {
	if c.Share == nil {
		return nil
	}
	limit := string(c.Key) + "|" + c.Rule.Name
	client, ticks := limit+"|"+string(c.Share.Key), c.Rule.Integers.Ticks
	s := &modelShare{
		m: m, rule: c.Rule, of: c.Share, now: now, tick: now / modelShareTick(c.Rule).Microseconds(),
		names: [4]string{limit, client, client + "|", client + "||" + string(c.Share.User)},
		parts: min(cost, 1<<12*c.Rule.Quota) * c.Rule.Integers.Parts,
	}
	s.division, s.client = m.divisions[s.names[0]].at(now), m.parts[s.names[1]].asOf(now, ticks)
	s.users, s.user = m.divisions[s.names[2]].at(now), m.parts[s.names[3]].asOf(now, ticks)
	return s
}

func (d modelDivision) at(now int64) modelDivision {
	if d.gone <= now {
		return modelDivision{}
	}
	return d
}

func (p modelPart) asOf(now, ticks int64) modelPart {
	if p.gone <= now {
		return modelPart{least: new(big.Rat), most: new(big.Rat)}
	}
	if p.ticks != ticks {
		other := big.NewRat(p.ticks, ticks)
		p.least, p.most, p.ticks = new(big.Rat).Mul(p.least, other), new(big.Rat).Mul(p.most, other), ticks
	}
	return p
}

// modelShareTick is the resolution in which debts of shares drain.
func modelShareTick(r *core.Rule) time.Duration { return r.Window / time.Duration(r.Integers.Ticks) }

func (s *modelShare) whole() int64 { return s.rule.Quota * s.rule.Integers.Parts }
func (s *modelShare) round() int64 { return s.tick / s.rule.Integers.Ticks }

// keep stores what has changed.
func (s *modelShare) keep() {
	window := s.rule.Window.Microseconds()
	gone := func(p *modelPart, share int64) int64 {
		windows := int64(2)
		for windows < modelOwed && windows*share < p.debt && (windows+1)*window <= modelLongest {
			windows++
		}
		return s.now + windows*window
	}
	if s.divided {
		s.division.gone = s.now + 2*window
		s.m.divisions[s.names[0]] = s.division
	}
	if s.asked {
		s.client.gone = gone(&s.client, max(s.share, 1))
		s.m.parts[s.names[1]] = s.client
	}
	if s.using {
		s.users.gone = s.now + 2*window
		s.m.divisions[s.names[2]] = s.users
	}
	if s.usedOne {
		s.user.gone = gone(&s.user, max(s.split, 1))
		s.m.parts[s.names[3]] = s.user
	}
}

const modelLongest = 100 * 365 * 24 * 3600 * 1_000_000

// base is the equal share of all who ask.
func (d *modelDivision) base(whole int64) int64 {
	return max((whole-whole/modelSlack)/max(d.weight[0], d.weight[1], 1), 1)
}

// enter begins a new round, and counts somebody who has not asked in it. It reports whether that is so.
func (d *modelDivision) enter(p *modelPart, round, weight, whole int64) (news bool) {
	if d.round != round {
		next := modelDivision{round: round, level: whole}
		if d.round == round-1 {
			next.weight[1], next.level = d.weight[0], d.level
			if d.hungry > 0 {
				step := new(big.Int).Div(big.NewInt(d.over-whole/modelSlack), big.NewInt(d.hungry)) // rounds down
				next.level += step.Int64()
			}
		}
		*d = next
	}
	if news = p.gone == 0 || p.round != round; news {
		d.weight[0] += weight
		d.asked++
		p.round, p.hungry = round, false
	}
	d.level = min(max(d.level, d.base(whole)), whole)
	return news
}

// want counts somebody who wants more than its share.
func (d *modelDivision) want(p *modelPart, weight int64) (news bool) {
	if p.hungry {
		return false
	}
	p.hungry = true
	d.hungry += weight
	return true
}

func (d *modelDivision) grant(parts int64) { d.over = min(d.over+parts, modelMostOver) }

// drained is what drains of a share in ticks.
func (s *modelShare) drained(share, ticks int64) int64 {
	parts := new(big.Int).Mul(big.NewInt(share), big.NewInt(ticks))
	return parts.Div(parts, big.NewInt(s.rule.Integers.Ticks)).Int64()
}

// drain has all debts of a part drain up to now.
func (s *modelShare) drain(p *modelPart, share, minimum, maximum int64) {
	ticks := s.tick - p.at
	p.at, p.ticks = s.tick, s.rule.Integers.Ticks
	if ticks > 0 {
		if ticks >= (modelOwed+1)*s.rule.Integers.Ticks {
			p.debt = 0
		} else {
			p.debt = max(p.debt-s.drained(share, ticks), 0)
		}
		p.least = s.less(p.least, minimum, ticks)
		p.most = s.less(p.most, maximum, ticks)
	}
	if p.debt <= share {
		p.large = false
	}
	if most := share; p.large {
		p.debt = min(p.debt, modelOwed*share)
	} else {
		p.debt = min(p.debt, most)
	}
	p.least = minRat(p.least, s.perTicks(minimum, s.rule.Integers.Ticks+modelEarly))
	p.most = minRat(p.most, big.NewRat(2*maximum, 1))
}

// perTicks returns the units of so many per window in ticks.
func (s *modelShare) perTicks(units, ticks int64) *big.Rat {
	all := new(big.Rat).SetInt(new(big.Int).Mul(big.NewInt(units), big.NewInt(ticks)))
	return all.Quo(all, new(big.Rat).SetInt64(s.rule.Integers.Ticks))
}

// less returns units less what drains of so many per window in ticks, and of no more than two windows.
func (s *modelShare) less(units *big.Rat, perWindow, ticks int64) *big.Rat {
	left := new(big.Rat).Sub(units, s.perTicks(perWindow, min(ticks, 2*s.rule.Integers.Ticks)))
	if left.Sign() < 0 {
		return new(big.Rat)
	}
	return left
}

func minRat(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

func plus(a *big.Rat, units int64) *big.Rat { return new(big.Rat).Add(a, big.NewRat(units, 1)) }

// within reports whether units fit beside those that are used.
func within(used *big.Rat, units, most int64) bool {
	return plus(used, units).Cmp(big.NewRat(most, 1)) <= 0
}

// has reports whether the request fits a share. One that is larger waits until nothing is owed, up to 64 windows.
func (s *modelShare) has(p *modelPart, share int64) bool {
	return p.debt <= share-s.parts || p.debt == 0 && s.parts <= modelOwed*share
}

// waits returns the ticks until the request fits a share.
func (s *modelShare) waits(p *modelPart, share int64) int64 {
	if s.parts > modelOwed*share {
		return 0
	}
	return search((modelOwed+1)*s.rule.Integers.Ticks, func(ticks int64) bool {
		return max(p.debt-s.drained(share, ticks), 0) <= max(share-s.parts, 0)
	})
}

// charge charges a share, up to 64 windows of it.
func (s *modelShare) charge(p *modelPart, share int64) {
	if after := min(p.debt+s.parts, modelOwed*share); after > p.debt {
		p.debt = after
	}
	p.large = p.debt > share
}

// reserves returns the units that a request must leave by its standing.
func (s *modelShare) reserves() int64 {
	g := s.rule.Guaranteed
	switch s.standing {
	case store.OfMinimum:
		return 0
	case store.OverShare:
		return g + (s.rule.Whole-g)/2
	}
	return g
}
