package storetest

import (
	"slices"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// free removes units from the log that were charged at one time.
func (b *modelBucket) free(at, units int64) {
	for j := range b.log {
		if b.log[j].at == at {
			b.log[j].units -= min(b.log[j].units, units)
		}
	}
	b.log = slices.DeleteFunc(b.log, func(e modelLogEntry) bool { return e.units == 0 })
}

// renew frees slots and takes them again, up to two limits.
func (m *model) renew(checks []core.Check, results []core.Result, now int64) []core.Result {
	results = append([]core.Result(nil), results...)
	for i, c := range checks {
		if !results[i].Charged || c.Rule.Algorithm != store.Concurrency {
			continue
		}
		b, _ := m.open(c.Rule, string(c.Key), now)
		if b.over != nil {
			results[i] = b.answer(now, 0, true, string(c.Key))
			results[i].At = b.chargedAt(now, true)
			continue
		}
		b.free(results[i].At, c.Cost)
		b.charge(now, max(min(c.Cost, 2*modelWhole(c.Rule)-b.logged()), 0))
		m.store(&c, b)
		b.tell(&c)
		results[i] = b.answer(now, 0, true, string(c.Key))
		results[i].At = b.chargedAt(now, true)
	}
	return results
}
