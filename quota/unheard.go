package quota

import (
	"context"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/quota/internal/accounts"
	"github.com/weblimit/weblimit/quota/internal/ledger"
)

// unheard looks for accounts that the store has begun by itself, and of which the ledger has never heard: the
// process that charged them was gone before it wrote anything. The store has them of keys that had an
// account in the period before. With repair it writes them.
func (r *reconciler) unheard(ctx context.Context) error {
	now := time.Now().UnixMicro()
	if !r.rules.HaveBegun(now) {
		return nil
	}
	var ended ledger.Standing // the last that was read, if its period has ended and the next one's was not read
	var asked []ledger.Account
	note := func(s *ledger.Standing) {
		if ended.End > 0 && (s.Limit != ended.Limit || s.Key != ended.Key || s.Start != ended.End) {
			asked = append(asked, ended.Account)
		}
		if ended = (ledger.Standing{}); s.End <= now {
			ended = *s
		}
	}
	var after ledger.Account
	for more := true; more; {
		page, err := r.page(ctx, now-counting.KeptAfter.Microseconds(), after)
		if err != nil {
			return err
		}
		for i := range page {
			note(&page[i])
		}
		if more = len(page) > 0; more {
			after = page[len(page)-1].Account
		} else {
			note(&ledger.Standing{})
		}
		if err := r.hear(ctx, asked); err != nil {
			return err
		}
		asked = asked[:0]
	}
	return nil
}

// hear asks the store for the accounts that follow those that have ended.
func (r *reconciler) hear(ctx context.Context, ended []ledger.Account) error {
	var next []ledger.Account
	var checks []store.Check
	for _, a := range ended {
		key, known := ledger.KeyOf(a.Key)
		k := r.rules.Named(a.Limit)
		if !known || k == nil {
			continue
		}
		rule := k.Declared()
		a.Start, a.End = a.End, rule.PeriodEnd(a.End)
		next, checks = append(next, a), append(checks, store.Check{Key: key, Rule: r.rules.Make(&rule).Rule})
	}
	views, err := r.views(ctx, checks)
	if err != nil {
		return err
	}
	var c comparison
	for i := range next {
		v := &views[i]
		if v.Ends != next[i].End || v.Position <= counting.FirstGeneration<<ledger.GenerationShift { // another period, unknown, or not charged yet
			continue
		}
		d := differenceOf(&ledger.Standing{Account: next[i]}, CauseNotFlushed, v)
		d.Repaired = r.repair
		c.differences = append(c.differences, d)
		if r.repair {
			c.positions = append(c.positions, accounts.PositionIn(r.rules.Named(next[i].Limit), next[i], v))
		}
	}
	if err := r.write(ctx, c.positions); err != nil {
		return err
	}
	r.sum.Accounts += len(c.differences)
	return r.tell(c.differences)
}
