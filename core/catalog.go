package core

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/keyfuncs"
)

// A catalog is a limiter of any number of limits, of which each call says which to ask, for which
// keys and at which costs. It is for services that decide for others: see adapter.Catalog. Everything
// that a decision is and does comes with it: outages, observers, headers.

// How one limit of a catalog is asked; bits.
const (
	askAnyOf = 1 << iota // denies only if all that are asked so deny
	askSpent             // the units are spent: they are charged even if the limit has no room for them
)

// newCatalog returns a catalog. It takes the place of the one before, unless that is nil: that one
// still decides what has begun.
func newCatalog(config Config, before *Limiter) (*Limiter, error) {
	limits := make([]Limit, len(config.Limits))
	for i, limit := range config.Limits {
		guarding, err := limit.guarding()
		if err != nil {
			return nil, err
		}
		limits[i] = guarding
	}
	config.Limits, config.catalog = limits, true
	if before != nil && config.Store.Registry().Root() != before.shared.Registry {
		return nil, errors.New("weblimit: a catalog can't change its store")
	}
	l, err := build(config, before)
	if err != nil {
		return nil, err
	}
	if before == nil {
		err = l.declare()
	} else {
		var stores exchanges
		stores.add(before, l)
		err = stores.apply()
	}
	if err != nil {
		return nil, err
	}
	l.introduce(l)
	return l, nil
}

// asking is a call of some limits of a catalog.
type asking struct {
	ctx    context.Context
	most   time.Duration // how long the store may take, if less than the limiter's timeout; 0 for no bound
	apart  bool          // each check is charged by itself
	number int

	// ask writes key and cost of the i-th check, and its rule if that is not the limit's own. It
	// returns the limit's place in Config.Limits, and how it is asked.
	ask func(i int, check *Check) (place int, how uint8)
}

// decideSome decides some limits of a catalog together. A check whose cost is 0 is denied if nothing
// remains. If the call is denied, it charges nothing, but for units that are spent and for checks
// apart.
func (l *Limiter) decideSome(ctx context.Context, most time.Duration, apart bool, n int, ask func(int, *Check) (int, uint8), d *Decision) {
	d.limiter, d.binding = l, -1
	c := l.callSome(asking{ctx, most, apart, n, ask})
	defer c.release()
	l.decideNow(ctx, c, subject{ctx: ctx}, d)
	l.final(subject{ctx: ctx}, c, d)
}

func (l *Limiter) callSome(a asking) *call {
	c := calls.Get().(*call)
	c.some, c.apart, c.most = true, a.apart, a.most
	for i := range a.number {
		var check Check
		place, how := a.ask(i, &check)
		limit := &l.limits[place]
		if check.Rule == nil {
			check.Rule = &limit.rule
		}
		start := len(c.keys)
		c.keys = keyfuncs.AppendKey(c.keys, string(check.Key))
		c.add(limit, check.Rule, c.keys[start:len(c.keys):len(c.keys)], check.Cost)
		c.how = append(c.how, how)
	}
	return c
}

// take has a store decide the checks of a call.
func (c *call) take(ctx context.Context, from Store) error {
	if !c.some {
		return from.Take(ctx, c.checks, c.results)
	}
	return c.takeSome(ctx, from)
}

// takeSome is take for some limits of a catalog. A check that is charged by itself is in shadow mode
// for the store, which then charges it if it fits, whatever the others say.
func (c *call) takeSome(ctx context.Context, from Store) error {
	alternatives := 0
	for _, how := range c.how {
		if how&askAnyOf != 0 {
			alternatives++
		}
	}
	for i := range c.checks {
		c.checks[i].Shadow = c.limits[i].shadow || c.apart || alternatives > 1 && c.how[i]&askAnyOf != 0
	}
	err := from.Take(ctx, c.checks, c.results)
	fitting := false // one of the alternatives
	for i := range c.checks {
		check, r := &c.checks[i], &c.results[i]
		check.Shadow = c.limits[i].shadow
		if err == nil && check.Cost == 0 && r.Remaining == 0 {
			r.Allowed, r.RetryAfter = false, max(r.Window, time.Microsecond)
		}
		fitting = fitting || (r.Allowed || check.Shadow) && c.how[i]&askAnyOf != 0
	}
	if err != nil {
		return err
	}
	denied := false
	for i := range c.checks {
		check := &c.checks[i]
		check.Shadow = check.Shadow || fitting && c.how[i]&askAnyOf != 0 // judged, and not enforced
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
		spends := c.how[i]&askSpent != 0 && check.Cost > 0
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

// giveBackSome gives units back to some limits of a catalog, at most what is used. The results say
// what is left then.
func (l *Limiter) giveBackSome(ctx context.Context, most time.Duration, n int, ask func(int, *Check) (int, uint8)) ([]Result, error) {
	c := l.callSome(asking{ctx, most, true, n, ask})
	defer c.release()
	bounded := within(ctx, c.bound(l.timeout))
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
			l.settled(Settlement{Rule: check.Rule, Shadow: c.limits[i].shadow, Units: -check.Cost, Err: err, check: check})
		}
	}
	return slices.Clone(c.results), err
}

// bound returns how long a store may take.
func (c *call) bound(timeout time.Duration) time.Duration {
	if c.most > 0 {
		return min(timeout, c.most)
	}
	return timeout
}
