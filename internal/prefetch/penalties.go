package prefetch

// Requests that a limit with a penalty applies to. The store sees such a request as it is, and
// once, since it counts each denial. So a slice is taken by a call of its own, which counts none.
// Units that processes hold can have the store deny what would fit; such a denial must not count
// either, and the store knows of slices for that. When a key is blocked, its slices end.

import (
	"bytes"
	"context"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// leasePlanned takes the planned slices in the background.
func (p *Prefetcher) leasePlanned(checks []store.Check, plans []checkPlan) {
	for i := range plans {
		if plan := &plans[i]; plan.ahead > 0 {
			k, units, cost, epoch := plan.key, plan.ahead, checks[i].Cost, plan.epoch
			plan.ahead = 0
			p.clock.After(0, func() {
				p.lease(k, units, cost, epoch)
				k.planning.Store(false)
			})
		}
	}
}

// lease takes a slice for requests of a cost. The caller holds k.planning.
func (p *Prefetcher) lease(k *hotKey, units, cost int64, epoch uint32) {
	ctx, cancel := context.WithTimeout(context.Background(), p.patience)
	defer cancel()
	c, r := store.Check{Key: k.key, Rule: &k.rule, Cost: units}, store.Result{}
	sent := p.clock.Now()
	if p.source.Lease(ctx, &c, time.Duration(k.lifetime), &r) != nil {
		return // what was charged stays charged
	}
	if !r.Charged {
		k.noteRemaining(&r)
		if k.rule.Penalized() {
			p.hotKeys.remove(k) // so that a key with denials is not asked for each time
		}
		return
	}
	received := p.clock.Now()
	s := k.newSlice(units, &k.rule, &r, sent, received)
	p.begin(k, s, units, p.trim(k, s, cost, r.Remaining, received), epoch, received)
}

// End ends the slices of a key that was blocked, under all limits, and returns what is left. So does a
// slice that is on its way.
func (p *Prefetcher) End(key []byte) {
	p.endWhere(func(k *hotKey) bool { return bytes.Equal(k.key, key) })
}

// EndAll ends the slices of all keys under limits with penalties: any of them may be blocked. Those under
// other limits, which only an operator blocks, end with their age.
func (p *Prefetcher) EndAll() { p.endWhere(func(k *hotKey) bool { return k.rule.Penalized() }) }

func (p *Prefetcher) endWhere(ends func(*hotKey) bool) {
	for set := range p.hotKeys.ways {
		for way := range p.hotKeys.ways[set] {
			if k := p.hotKeys.ways[set][way].Load(); k != nil && ends(k) {
				p.end(k)
			}
		}
	}
}

// end ends the slices of a key, and returns what is left.
func (p *Prefetcher) end(k *hotKey) {
	p.hotKeys.remove(k)
	for _, at := range []*slice{k.older.Load(), k.newest.Load()} {
		if at != nil {
			at.stopTimer()
			p.expire(k, at)
		}
	}
}
