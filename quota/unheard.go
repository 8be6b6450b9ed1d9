package quota

import (
	"context"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/quota/internal/ledger"
)

// unheard looks for accounts that the store has begun by itself, and of which the ledger has never heard: the
// process that charged them was gone before it wrote anything. The store has them of keys that had an
// account in the period before. With repair it writes them.
func (b *Book) unheard(ctx context.Context, repair bool, found func(Difference) error, sum *Reconciliation) error {
	now := time.Now().UnixMicro()
	if !b.rules.haveBegun(now) {
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
		within, cancel := context.WithTimeout(ctx, b.config.Timeout)
		page, err := b.ledger.Open(within, now-store.KeptAfter.Microseconds(), after, reconcileBatch)
		cancel()
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
		if err := b.hear(ctx, asked, repair, found, sum); err != nil {
			return err
		}
		asked = asked[:0]
	}
	return nil
}

// haveBegun reports whether a period of a limit has begun so short a time ago that the store can have begun its
// accounts by itself.
func (r *rules) haveBegun(now int64) (begun bool) {
	r.limits.Range(func(_, value any) bool {
		rule := value.(*kept).declared()
		start, _, _ := rule.Period(now)
		begun = now-start < store.KeptAfter.Microseconds()
		return !begun
	})
	return begun
}

// hear asks the store for the accounts that follow those that have ended.
func (b *Book) hear(ctx context.Context, ended []ledger.Account, repair bool, found func(Difference) error, sum *Reconciliation) error {
	var next []ledger.Account
	var checks []store.Check
	for i := range ended {
		a := ended[i]
		key, known := ledger.KeyOf(a.Key)
		k := b.rules.named(a.Limit)
		if !known || k == nil {
			continue
		}
		rule := k.declared()
		a.Start, a.End = a.End, rule.PeriodEnd(a.End)
		next, checks = append(next, a), append(checks, store.Check{Key: key, Rule: b.rules.make(&rule).rule})
	}
	for len(next) > 0 {
		n := min(len(next), store.MaxChecks/3)
		within, cancel := context.WithTimeout(ctx, b.config.Timeout)
		err := b.hearPart(within, next[:n], checks[:n], repair, found, sum)
		cancel()
		if err != nil {
			return err
		}
		next, checks = next[n:], checks[n:]
	}
	return nil
}

func (b *Book) hearPart(ctx context.Context, next []ledger.Account, checks []store.Check, repair bool, found func(Difference) error, sum *Reconciliation) error {
	views, err := b.peek(ctx, checks)
	if err != nil {
		return err
	}
	var positions []ledger.Position
	var differences []Difference
	for i := range next {
		v := &views[i]
		if v.ends != next[i].End || v.Position <= store.FirstGeneration<<ledger.GenerationShift { // another period, unknown, or not charged yet
			continue
		}
		d := differenceOf(&ledger.Standing{Account: next[i]}, CauseNotFlushed, v)
		d.Repaired = repair
		positions, differences = append(positions, positionIn(b.rules.named(next[i].Limit), next[i], v)), append(differences, d)
	}
	if repair && len(positions) > 0 {
		if err := b.ledger.Flush(ctx, positions); err != nil {
			return err
		}
	}
	sum.Accounts += len(differences)
	return sum.tell(differences, found)
}
