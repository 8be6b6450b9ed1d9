package storetest

import (
	"math/big"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// refundForeign gives back what was charged under other numbers than those that the bucket has now. It
// returns false if the numbers are the same. A token bucket gets back what drains in the time that the
// charge would have taken to drain, in whole ticks, and no more than was charged; others get nothing.
func (m *model) refundForeign(c *core.Check, result *core.Result, now int64) bool {
	stored, ok := m.buckets[string(c.Key)+"|"+c.Rule.Name]
	if !ok || c.Rule.Algorithm == store.Ledger {
		return false
	}
	b := stored.at(now, string(c.Key))
	if !b.used || sameForm(&b.rule, c.Rule) || isLog(&b.rule) && isLog(c.Rule) {
		return false
	}
	if b.rule.Algorithm == store.TokenBucket && c.Rule.Algorithm == store.TokenBucket {
		charged := modelHolds(c.Rule, modelWhole(c.Rule))
		if cost := new(big.Rat).SetInt64(c.Cost); cost.Cmp(charged) < 0 {
			charged = cost
		}
		lasts := func(r *core.Rule, units *big.Rat) int64 { // microseconds, of whole ticks
			ticks := new(big.Rat).Quo(units, modelRate(r))
			return new(big.Int).Quo(ticks.Num(), ticks.Denom()).Int64() * modelTick(r)
		}
		whole := new(big.Rat).SetInt(new(big.Int).Quo(charged.Num(), charged.Denom()))
		back := min(lasts(c.Rule, charged), lasts(&b.rule, whole))
		back -= max(now-counting.ChargedAt(c.Rule, c.Cost, result), 0)
		if ticks := back / modelTick(&b.rule); back > 0 {
			b.debt.Sub(b.debt, new(big.Rat).Mul(modelRate(&b.rule), new(big.Rat).SetInt64(ticks)))
			if b.used = b.debt.Sign() > 0; !b.used {
				b.debt = new(big.Rat)
			}
		}
	}
	b.idle = true
	m.store(c, b)
	if mark := m.mark(c, now); mark.at == result.At && now < mark.until {
		delete(m.marks, markKey(c))
	}
	seen, _ := m.open(c.Rule, string(c.Key), now)
	if old := seen.over; old != nil { // the answer is that of the bucket as it would be if all else was forgotten
		seen.over = nil
		seen, _ = m.convert(seen, old.countable(old.levelAt(now/modelTick(&old.rule))), now)
	}
	*result = seen.answer(now, 0, false, string(c.Key))
	result.At = now
	return true
}

// exceeds reports whether what a bucket counts is more than a rule with other numbers holds, and does not
// count for longer than two windows of the rule.
func (b *modelBucket) exceeds(rule *core.Rule, level *big.Rat, now int64) bool {
	if b.rule.Algorithm == store.Ledger || rule.Algorithm == store.Ledger {
		return false
	}
	t, w := now/modelTick(rule), modelWindow(rule)
	latest := now + 2*rule.Window.Microseconds()
	switch rule.Algorithm {
	case store.TokenBucket:
		whole := new(big.Rat).Quo(modelHolds(rule, modelWhole(rule)), modelRate(rule))
		refill := new(big.Int).Quo(whole.Num(), whole.Denom()).Int64() + 1
		latest = now + (2*max(refill, w)+1+modelDebtTicks(rule))*modelTick(rule)
	case store.Calendar:
		_, end := modelPeriod(rule, t)
		_, latest = modelPeriod(rule, end)
	}
	return b.countsUntil(now) <= latest && level.Cmp(wholeUnits(rule, modelWhole(rule))) > 0
}

// wholeUnits returns how many whole units a rule holds, queue included.
func wholeUnits(rule *core.Rule, burst int64) *big.Rat {
	return inWholeUnits(modelHolds(rule, burst))
}

func inWholeUnits(units *big.Rat) *big.Rat {
	return new(big.Rat).SetInt(new(big.Int).Quo(units.Num(), units.Denom()))
}

// countsUntil returns when a bucket as of now counts nothing any more, if nobody charges it.
func (b *modelBucket) countsUntil(now int64) int64 {
	tick, w := modelTick(&b.rule), modelWindow(&b.rule)
	switch b.rule.Algorithm {
	case store.TokenBucket:
		return (now/tick + ceilRat(new(big.Rat).Quo(b.debt, modelRate(&b.rule))).Int64()) * tick
	case store.SlidingLog, store.Concurrency:
		return b.log[len(b.log)-1].at + w
	case store.Calendar:
		return b.end
	case store.SlidingWindow:
		if b.count[0] > 0 {
			w *= 2
		}
	}
	return (b.start + w) * tick
}

// adopt is for a charge: a bucket can come to owe more than a burst, so what is stored is converted if it counts no more.
func (m *model) adopt(b *modelBucket, now int64) *modelBucket {
	if b.over == nil {
		return b
	}
	rule, level := &b.rule, b.over.countable(b.over.levelAt(now/modelTick(&b.over.rule)))
	if level.Cmp(inWholeUnits(modelMost(rule))) > 0 {
		return b
	}
	b.over, b.used = nil, true
	if rule.Algorithm == store.TokenBucket {
		b.debt = roundedUp(rule, level)
	} else if units := ceilRat(level).Int64(); isLog(rule) {
		b.log = []modelLogEntry{{now, units}}
	} else {
		b.count[0] = units
	}
	return b
}

// answerForeign is answer for a bucket that stays, since it counts more than the rule holds. Nothing is left
// until it has drained, or counts nothing any more.
func (b *modelBucket) answerForeign(now, cost int64, charged bool) core.Result {
	rule, micros := &b.rule, func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	need := cost
	if cost == 0 || cost > rule.Burst {
		need = 1
	}
	wait := b.over.countsUntil(now) - now
	if from := &b.over.rule; from.Algorithm == store.TokenBucket {
		room := wholeUnits(rule, rule.Burst)
		room.Sub(room, new(big.Rat).SetInt64(need))
		drains := room.Sub(b.over.debt, room)
		wait = ceilRat(drains.Quo(drains, modelRate(from))).Int64() * modelTick(from)
	}
	r := core.Result{Allowed: charged || cost == 0, Charged: charged, ResetAfter: micros(wait), Window: micros(wait)}
	switch rule.Algorithm {
	case store.Concurrency:
		r.Window, r.ResetAfter = time.Second, min(r.ResetAfter, rule.Window)
	case store.SlidingWindow, store.TokenBucket:
		tick := modelTick(rule)
		wait = (wait + tick - 1) / tick * tick
		r.ResetAfter, r.Window = micros(wait), micros(wait)
		if rule.Algorithm == store.TokenBucket {
			r.ResetAfter += micros(tick)
		}
		if rule.Wait > 0 && charged {
			r.Turn = micros(wait)
		}
	}
	if !r.Allowed && cost <= rule.Burst {
		r.RetryAfter = r.Window
	}
	return r
}

// convert charges a fresh bucket with what was used under other numbers.
func (m *model) convert(fresh *modelBucket, level *big.Rat, now int64) (b *modelBucket, converted bool) {
	rule := &fresh.rule
	if limit := modelHolds(rule, modelWhole(rule)); level.Cmp(limit) > 0 {
		level = limit
	}
	if level.Sign() == 0 { // a known account that has used nothing
		return fresh, true
	}
	fresh.used = true
	if rule.Algorithm == store.TokenBucket {
		fresh.debt = roundedUp(rule, level)
		return fresh, true
	}
	units := ceilRat(level).Int64()
	if isLog(rule) {
		fresh.log = []modelLogEntry{{now, units}}
	} else {
		fresh.count[0] = units
	}
	return fresh, true
}

// roundedUp returns a token bucket's debt: it comes in parts of a unit that are whole in the bucket's scale.
func roundedUp(rule *core.Rule, level *big.Rat) *big.Rat {
	scale := new(big.Rat).SetInt64(rule.Integers.Unit)
	return new(big.Rat).Quo(new(big.Rat).SetInt(ceilRat(new(big.Rat).Mul(level, scale))), scale)
}
