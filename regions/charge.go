package regions

import (
	"context"
	"errors"
	"slices"

	"github.com/weblimit/weblimit/core/store"
)

// Charge implements [store.Store]. Units of a leased limit are charged to what the region has left of its floor and share, and
// what these do not hold at home, which takes a round trip to there: limiters charge in the background. If they were all charged
// at home, requests whose cost is estimated too low would get the whole floor of each region at that price.
func (s *Store) Charge(ctx context.Context, checks []store.Check, results []store.Result) error {
	if len(checks) != len(results) {
		return s.local.Charge(ctx, checks, results) // which refuses it
	}
	rest, here := slices.Clone(checks), make([][]charged, len(checks))
	var undone []int
	var failed error
	for i := range rest {
		c := &rest[i]
		if c.Rule == nil || s.plan(c.Rule).mode.Mode != store.RegionsLeased {
			continue
		}
		var err error
		if here[i], err = s.chargeHere(ctx, s.plan(c.Rule), c); err != nil {
			failed = errors.Join(failed, err)
			c.Cost = 0
		}
	}
	err := s.each(rest, results, func(to store.Store, checks []store.Check, results []store.Result) error {
		return to.Charge(ctx, checks, results)
	}, func(p *plan, c *store.Check, _ *store.Result) (atHome bool, rule *store.Rule) {
		if c.Cost == 0 {
			return false, nil
		}
		return true, p.pool
	})
	var u *store.Undone
	if errors.As(err, &u) {
		for _, i := range u.Checks {
			if s.takeBack(ctx, &checks[i], here[i]) {
				undone = append(undone, i)
			}
		}
	}
	if err = errors.Join(failed, err); err != nil {
		if len(undone) > 0 {
			return &store.Undone{Checks: undone, Err: err}
		}
		return err
	}
	s.answerCharges(ctx, checks, rest, results)
	return nil
}

// charged is what was charged to one record of the region.
type charged struct {
	rule   *store.Rule
	units  int64
	result store.Result
}

// chargeHere charges the cost of a check to what is left of the floor and of the share, and lowers it by that.
func (s *Store) chargeHere(ctx context.Context, p *plan, c *store.Check) (all []charged, err error) {
	k := s.keys.find(p.id, c.Key)
	for _, rule := range []*store.Rule{p.floor, k.spending(s.now())} {
		if rule == nil || c.Cost == 0 {
			continue
		}
		one, answer := []store.Check{{Key: c.Key, Rule: rule}}, make([]store.Result, 1)
		if err := s.local.Peek(ctx, one, answer); err != nil {
			return all, err
		}
		if one[0].Cost = min(c.Cost, answer[0].Remaining); one[0].Cost == 0 {
			continue
		}
		if err := s.local.Take(ctx, one, answer); err != nil {
			return all, err
		}
		if answer[0].Charged {
			c.Cost -= one[0].Cost
			all = append(all, charged{rule, one[0].Cost, answer[0]})
		}
	}
	return all, nil
}

// spending returns the rule of the record of leased units that are spent at a time on the process's clock, or nil if there are
// none to spend.
func (k *key) spending(now int64) *store.Rule {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if now >= k.until {
		return nil
	}
	return k.spend
}

// takeBack gives back what was charged in the region, because home was not charged with the rest. It reports whether nothing is
// charged any more.
func (s *Store) takeBack(ctx context.Context, c *store.Check, here []charged) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.HomeTimeout)
	defer cancel()
	for _, of := range here {
		one := []store.Check{{Key: c.Key, Rule: of.rule, Cost: of.units}}
		if s.local.Refund(ctx, one, []store.Result{of.result}) != nil {
			return false
		}
	}
	return true
}

// answerCharges sets the results of leased limits: what is left is what Peek says. rest has the costs that were charged at home,
// whose results say what home has left.
func (s *Store) answerCharges(ctx context.Context, checks, rest []store.Check, results []store.Result) {
	for i := range checks {
		c := checks[i]
		if c.Rule == nil || s.plan(c.Rule).mode.Mode != store.RegionsLeased {
			continue
		}
		if k := s.keys.find(s.plan(c.Rule).id, c.Key); k != nil {
			k.mu.Lock()
			if k.knowsOf && rest[i].Cost > 0 {
				k.pool = min(k.pool, results[i].Remaining)
			}
			k.mu.Unlock()
		}
		c.Cost = 0
		forgiven := results[i].Forgiven // by home
		if answer := results[i : i+1]; s.Peek(ctx, []store.Check{c}, answer) == nil {
			answer[0].Charged, answer[0].Forgiven = true, forgiven
		}
	}
}
