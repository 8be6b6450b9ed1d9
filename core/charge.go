package core

import "context"

// Charge implements [Store]. Its only errors are those of [ValidChecks].
func (m *Memory) Charge(_ context.Context, checks []Check, results []Result) error {
	if err := ValidChecks(checks, results); err != nil {
		return err
	}
	if len(checks) == 0 {
		return nil
	}
	pooled := visits.Get().(*[]visit)
	defer visits.Put(pooled)
	v := m.enter(pooled, checks)
	defer leave(v)
	now := m.now()
	for i := range v {
		rule, b := checks[i].Rule, &v[i].bucket
		rule.open(b, now, rule.Offset(checks[i].Key))
		rule.chargeAnyway(b, now, checks[i].Cost)
		reading := rule.read(b, now, 0)
		reading.Charged = true
		results[i] = rule.Result(0, reading)
		v[i].save(rule, now)
	}
	return nil
}

// chargeAnyway adds cost to an opened bucket, which may come to owe another burst.
func (r *Rule) chargeAnyway(b *bucket, now, cost int64) {
	if r.Algorithm != TokenBucket {
		if cost = min(cost, 2*r.Burst-b.x); cost > 0 {
			r.charge(b, now, cost)
		}
		return
	}
	most := 2 * r.scale.Capacity
	whole, fraction := b.form.debt(b, now)
	if whole > most/r.scale.Rate {
		return // of a clock that was set back
	}
	debt := whole*r.scale.Rate + fraction
	r.setDebt(b, now, max(debt, min(debt+min(cost, 2*r.Burst)*r.scale.Unit, most)))
}
