package regionsim

import (
	"context"

	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/store"
)

// simple is a design that answers at once: a store per region, or one for all.
type simple struct {
	stores []*memstore.Store
	rule   *store.Rule
	meter  *meter
	counts *counts // nil if regions exchange none
}

// newSimple returns a design of a number of stores, each of which has a part of the limit.
func newSimple(c *Config, rule *store.Rule, stores, part int) (*simple, error) {
	d := &simple{rule: rule}
	for range stores {
		d.stores = append(d.stores, memstore.New())
	}
	if part > 1 {
		n := rule.Numbers
		n.Quota, n.Burst, n.Whole = n.Quota/int64(part), n.Burst/int64(part), n.Whole/int64(part)
		shared, err := store.NewRule(rule.Name, n)
		if err != nil {
			return nil, err
		}
		d.rule = &shared
	}
	var err error
	d.meter, err = newMeter(c, rule, 0)
	return d, err
}

// ask decides a request.
func (d *simple) ask(r *request) (granted bool, err error) {
	if d.counts != nil {
		if err := d.counts.exchange(d); err != nil {
			return false, err
		}
	}
	checks, results := [...]store.Check{{Key: r.name, Rule: d.rule, Cost: 1}}, [1]store.Result{}
	if err := d.stores[r.region%len(d.stores)].Take(context.Background(), checks[:], results[:]); err != nil {
		return false, err
	}
	granted = results[0].Charged
	if granted && d.counts != nil {
		d.counts.grant(d.meter, r, results[0].At)
	}
	return granted, nil
}
