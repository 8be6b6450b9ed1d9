package quota

import (
	"context"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// unheard looks for accounts that the store has begun by itself, and of which the ledger has never heard: the
// process that charged them was gone before it wrote anything. The store has them of keys that had an
// account in the period before. With repair it writes them.
func (b *Book) unheard(ctx context.Context, repair bool, found func(Difference) error, sum *Reconciliation) error {
	now := time.Now().UnixMicro()
	if !b.rules.haveBegun(now) {
		return nil
	}
	var ended standing // the last that was read, if its period has ended and the next one's was not read
	var asked []account
	note := func(s *standing) {
		if ended.end > 0 && (s.limit != ended.limit || s.key != ended.key || s.start != ended.end) {
			asked = append(asked, ended.account)
		}
		if ended = (standing{}); s.end <= now {
			ended = *s
		}
	}
	var after account
	for more := true; more; {
		within, cancel := context.WithTimeout(ctx, b.config.Timeout)
		page, err := b.ledger.open(within, now-store.KeptAfter.Microseconds(), after, reconcileBatch)
		cancel()
		if err != nil {
			return err
		}
		for i := range page {
			note(&page[i])
		}
		if more = len(page) > 0; more {
			after = page[len(page)-1].account
		} else {
			note(&standing{})
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
func (b *Book) hear(ctx context.Context, ended []account, repair bool, found func(Difference) error, sum *Reconciliation) error {
	var next []account
	var checks []store.Check
	for i := range ended {
		a := ended[i]
		key, known := keyOf(a.key)
		k := b.rules.named(a.limit)
		if !known || k == nil {
			continue
		}
		rule := k.declared()
		a.start, a.end = a.end, rule.PeriodEnd(a.end)
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

func (b *Book) hearPart(ctx context.Context, next []account, checks []store.Check, repair bool, found func(Difference) error, sum *Reconciliation) error {
	views, err := b.peek(ctx, checks)
	if err != nil {
		return err
	}
	var positions []position
	var differences []Difference
	for i := range next {
		v := &views[i]
		if v.ends != next[i].end || v.Position <= store.FirstGeneration<<generationShift { // another period, unknown, or not charged yet
			continue
		}
		d := differenceOf(&standing{account: next[i]}, CauseNotFlushed, v)
		d.Repaired = repair
		positions, differences = append(positions, positionIn(b.rules.named(next[i].limit), next[i], v)), append(differences, d)
	}
	if repair && len(positions) > 0 {
		if err := b.ledger.flush(ctx, positions); err != nil {
			return err
		}
	}
	sum.Accounts += len(differences)
	return sum.tell(differences, found)
}
