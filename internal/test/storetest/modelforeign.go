package storetest

import (
	"math/big"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
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
		back -= max(now-c.Rule.ChargedAt(c.Cost, result), 0)
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
	*result = seen.answer(now, 0, false, string(c.Key))
	result.At = now
	return true
}
