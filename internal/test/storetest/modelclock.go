package storetest

import (
	"math/big"
	"slices"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// bringBack has a bucket that lies further ahead than it can, because the clock was set back, count
// as if it was written now. It reports whether the bucket did.
func (b *modelBucket) bringBack(now int64) bool {
	tick, w := modelTick(&b.rule), modelWindow(&b.rule)
	t := now / tick
	switch b.rule.Algorithm {
	case store.TokenBucket:
		full := modelHolds(&b.rule, modelWhole(&b.rule))
		drain := func(debt *big.Rat) *big.Rat { return new(big.Rat).Quo(debt, modelRate(&b.rule)) }
		refill := new(big.Int).Quo(drain(full).Num(), drain(full).Denom()).Int64() + 1
		if ceilRat(drain(b.debt)).Int64() <= 2*max(refill, w)+1+modelDebtTicks(&b.rule) {
			return false
		}
		b.debt = full
	case store.FixedWindow, store.SlidingWindow:
		if b.start <= t {
			return false
		}
		b.start = t
	case store.Calendar, store.Ledger:
		start, end := modelPeriod(&b.rule, t)
		if _, next := modelPeriod(&b.rule, end); b.end <= next {
			return false
		}
		b.start, b.end = start, end
		if b.rule.Algorithm == store.Ledger {
			b.count, b.known, b.used = [2]int64{}, 0, false
		}
	case store.SlidingLog, store.Concurrency:
		near := slices.IndexFunc(b.log, func(e modelLogEntry) bool { return e.at > now+w })
		if near < 0 {
			return false
		}
		far := &modelBucket{log: b.log[near:]}
		b.log = slices.Clone(b.log[:near])
		b.charge(now, far.logged())
	}
	return true
}

// modelDebtTicks returns the whole ticks in which a debt that is chosen drains.
func modelDebtTicks(r *core.Rule) int64 {
	if !r.HasDebt {
		return 0
	}
	ticks := new(big.Rat).Quo(new(big.Rat).SetInt64(r.Debt), modelRate(r))
	return new(big.Int).Quo(ticks.Num(), ticks.Denom()).Int64()
}

// countable cuts what a token bucket holds down to what stores can count, if the clock was set back so
// far that the debt looks larger: to whole ticks, below 2^51 parts of a unit.
func (b *modelBucket) countable(level *big.Rat) *big.Rat {
	if b.rule.Algorithm != store.TokenBucket {
		return level
	}
	const most = 1 << 51
	ints := b.rule.Integers
	parts := new(big.Int).Quo(new(big.Int).Mul(level.Num(), big.NewInt(ints.Unit)), level.Denom())
	ticks, part := new(big.Int).QuoRem(parts, big.NewInt(ints.Rate), new(big.Int))
	if ticks.Cmp(big.NewInt(most/ints.Rate)) <= 0 {
		return level
	}
	return big.NewRat(most/ints.Rate*ints.Rate+part.Int64(), ints.Unit)
}

// chargedAt returns the time that a result has: for slots, that of their entry.
func (b *modelBucket) chargedAt(now int64, charged bool) int64 {
	if charged && b.rule.Algorithm == store.Concurrency && len(b.log) > 0 {
		return max(now, b.log[len(b.log)-1].at)
	}
	return now
}

// mark returns the mark of a check's operation as of now, zero if there is none.
func (m *model) mark(c *core.Check, now int64) modelMark {
	if c.Once == nil {
		return modelMark{}
	}
	mark := m.marks[markKey(c)]
	if mark.at > now {
		mark.until = min(mark.until, now+c.Rule.Once.Microseconds())
	}
	return mark
}

// isStale reports whether something that is stored for a limit of a key is over, in whole or in part. A
// store may have dropped it or not, so that nobody can say what counts after the clock was set back.
func (m *model) isStale(limit, key string, now int64) bool {
	name := key + "|" + limit
	if b, set := m.manuals[name]; set && b.until <= now {
		return true
	}
	if b := m.buckets[name]; b != nil {
		later := b.at(now, key)
		if b.idle || !later.used || later.start != b.start || later.end != b.end || len(later.log) != len(b.log) {
			return true
		}
	}
	p, stored := m.penalties[name]
	return stored && (p.gone <= now || len(p.strikes) > 0 && p.window <= now || p.until > 0 && p.until <= now)
}
