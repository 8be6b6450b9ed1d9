package core

import (
	"context"
	"slices"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/keyfuncs"
)

// A catalog is a limiter of any number of limits, of which each question says which to ask, for which
// keys and at which costs: see seam.Ask.Entries. It is for services that decide for others. Everything
// that a decision is and does comes with it: outages, observers, headers.

// askEntries asks limits of a catalog. A check whose cost is 0 is denied if nothing remains. If the
// question is denied, it charges nothing, but for units that are spent and for entries apart.
func (l *Limiter) askEntries(q *asked) *call {
	c := calls.Get().(*call)
	c.entries, c.apart = q.Entries, q.Apart
	for i := range q.Entries {
		e := &q.Entries[i]
		limit, rule := &l.limits[e.Limit], e.Rule
		if rule == nil {
			rule = &limit.rule
		}
		start := len(c.keys)
		c.keys = keyfuncs.AppendKey(c.keys, string(e.Key))
		c.add(limit, rule, c.keys[start:len(c.keys):len(c.keys)], e.Cost)
	}
	return c
}

// takeEntries is take for limits of a catalog. A check that is charged by itself is in shadow mode
// for the store, which then charges it if it fits, whatever the others say.
func (c *call) takeEntries(ctx context.Context, from Store) error {
	alternatives := 0
	for i := range c.entries {
		if c.entries[i].AnyOf {
			alternatives++
		}
	}
	for i := range c.checks {
		c.checks[i].Shadow = c.limits[i].shadow || c.apart || alternatives > 1 && c.entries[i].AnyOf
	}
	err := from.Take(ctx, c.checks, c.results)
	fitting := false // one of the alternatives
	for i := range c.checks {
		check, r := &c.checks[i], &c.results[i]
		check.Shadow = c.limits[i].shadow
		if err == nil && check.Cost == 0 && r.Remaining == 0 {
			r.Allowed, r.RetryAfter = false, max(r.Window, time.Microsecond)
		}
		fitting = fitting || (r.Allowed || check.Shadow) && c.entries[i].AnyOf
	}
	if err != nil {
		return err
	}
	denied := false
	for i := range c.checks {
		check := &c.checks[i]
		check.Shadow = check.Shadow || fitting && c.entries[i].AnyOf // judged, and not enforced
		denied = denied || !check.Shadow && !c.results[i].Allowed
	}
	c.correct(ctx, from, denied)
	return nil
}

// correct gives back what a call that is denied has charged, and charges what is spent anyway: also
// where nothing is denied, since the limit is in shadow mode or another of the alternatives has room.
// If the store fails here, the answer stands.
func (c *call) correct(ctx context.Context, from Store, denied bool) {
	var back, spent correction
	for i := range c.checks {
		check, r := &c.checks[i], &c.results[i]
		spends := c.entries[i].Spent && check.Cost > 0
		switch {
		case r.Charged && denied && !c.apart && !spends:
			back.add(c, i)
		case !r.Charged && spends && (check.Rule.Algorithm != store.FixedWindow || r.Remaining > 0): // else no more can be used up
			spent.add(c, i)
		}
	}
	back.apply(ctx, c, from.Refund, false)
	spent.apply(ctx, c, from.Charge, true)
}

// correction is a call of a store that changes what a call has charged.
type correction struct {
	at      []int
	checks  []Check
	results []Result
}

func (k *correction) add(c *call, i int) {
	k.at, k.checks, k.results = append(k.at, i), append(k.checks, c.checks[i]), append(k.results, c.results[i])
	k.checks[len(k.checks)-1].Shadow = false
}

func (k *correction) apply(ctx context.Context, c *call, how func(context.Context, []Check, []Result) error, charged bool) {
	if len(k.at) == 0 || how(ctx, k.checks, k.results) != nil {
		return
	}
	for j, i := range k.at {
		to, from := &c.results[i], &k.results[j]
		to.Charged, to.Remaining, to.Window, to.ResetAfter = charged, from.Remaining, from.Window, from.ResetAfter
	}
}

// giveBack gives the costs of entries back, at most what is used. The results say what is left then.
func (t *together) giveBack(ctx context.Context) error {
	l, c := t.now[0], t.joint
	bounded := within(ctx, t.timeout)
	defer bounded.release()
	err := l.store.Peek(bounded, c.checks, c.results) // for the time by the store's clock
	if err == nil {
		for i := range c.results {
			c.results[i].Charged = true
		}
		err = l.store.Refund(bounded, c.checks, c.results)
	}
	if err != nil {
		l.shared.Failed(err)
	} else {
		l.shared.Answered()
	}
	for i := range c.checks {
		if check := &c.checks[i]; check.Cost > 0 && l.observers != nil {
			own := kept(check)
			l.settled(Settlement{Rule: check.Rule, Shadow: c.limits[i].shadow, Units: -check.Cost, Err: err, check: &own})
		}
	}
	t.asks[0].Results = slices.Clone(c.results)
	return err
}
