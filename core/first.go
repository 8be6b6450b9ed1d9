package core

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weblimit/weblimit/core/store"
)

// First returns a choice of limits: the first of them that has room for a request is charged, and none of the others. It stands among
// other limits, which must have room as well:
//
//	plan := core.PerMonth(1_000_000, time.UTC).By(tenant).Named("plan")
//	credits := core.Per(50_000, 365*24*time.Hour).By(tenant).Named("credits").FixedWindow()
//	limits := []core.Limit{core.PerMinute(600).By(tenant), core.First(plan, credits)}
//
// A request is decided at once by all of it: it is granted if each limit has room, and one of each choice; then all of these are
// charged. Else nothing is. If none of a choice has room, the request is denied, and Retry-After is the shortest of their
// waits. [Decision.PaidBy] says who was charged.
//
// What is given back or settled later ([Limit.RefundOn], [Limit.Estimate]) is settled with the limit that was charged. A limit whose
// conditions or key are missing in a request is no alternative there. An estimate of 0 asks for one unit, or the first limit would be charged
// without room. A repeat of an operation ([Limit.OncePer]) stays with the limit that was charged for it. A client whose key is
// blocked by hand under one of the limits is denied, whatever the others have left. A batch ([Limiter.AllowAtMost]) is
// charged to one of them.
//
// Of the decorators, only [Limit.When], [Limit.Unless], [Limit.Hidden], [Limit.Shadow] and [Limit.OnOutage] apply to a choice, and the last two to
// nothing in it. The limits in it can't have a [Limit.Penalty], a queue ([Limit.Wait], [Limit.LeakyBucket]) or [Limit.SlowDown], and no choices.
// [New] reports what is wrong. In an outage the same choice is made by what stands in for the store.
//
// On a Redis Cluster, keys in several hash slots are asked in turn. So a request can be charged to the second although the
// first has got room since it was asked, a moment before.
func First(limits ...Limit) Limit {
	return Limit{name: defaultName, choice: append(make([]Limit, 0, len(limits)), limits...)}
}

var (
	errFewAlternatives = errors.New("First needs two limits or more")
	errNestedChoice    = errors.New("First within First: list all limits in one")
	errChoiceNumbers   = errors.New("First has no numbers: an algorithm belongs to the limits in it")
	errChoiceNamed     = errors.New("First has no name: name the limits in it")
	errShadowInChoice  = errors.New("Shadow belongs to the whole of First, not to a limit in it")
	errOutageInChoice  = errors.New("OnOutage belongs to the whole of First, not to a limit in it")
	errPenaltyInChoice = errors.New("a limit in First can't have a Penalty: another one may pay, and then nothing is denied")
	errSpillAlone      = errors.New("SpillOver is for a limit in First that has another one behind it")
	errSpillEstimate   = errors.New("SpillOver needs an Estimate: other costs are known before they are charged")
	errQueueInChoice   = errors.New("nobody waits for a limit in First, since another one may pay: it can't have Wait, LeakyBucket or SlowDown")
)

func hasChoice(limits []Limit) bool {
	return slices.ContainsFunc(limits, func(l Limit) bool { return l.choice != nil })
}

// flattenChoices puts the limits of choices in their places, each with the number of its choice.
func flattenChoices(limits []Limit) ([]Limit, error) {
	for i := range limits {
		if limits[i].choice == nil && limits[i].settings.has(setSpill) {
			return nil, store.AtLimit(limits[i].name, errSpillAlone)
		}
	}
	if !hasChoice(limits) {
		return limits, nil
	}
	var flat []Limit
	for n, l := range limits {
		if l.choice == nil {
			flat = append(flat, l)
			continue
		}
		if err := l.validateChoice(); err != nil {
			return nil, fmt.Errorf("weblimit: %w", err)
		}
		for i, a := range l.choice {
			if err := a.validateAlternative(i+1 == len(l.choice)); err != nil {
				return nil, store.AtLimit(a.name, err)
			}
			a.inChoice = n + 1
			a.when = append(slices.Clip(a.when), l.when...)
			a.shadow, a.hidden = l.shadow, a.hidden || l.hidden
			if l.settings.has(setOutage) {
				a = a.OnOutage(l.outage)
			}
			flat = append(flat, a)
		}
	}
	return flat, nil
}

// declareChoices tells the store which of the limits are alternatives.
func declareChoices(limits []limit, all []store.Declaration) {
	names := make(map[int][]string)
	for i := range limits {
		if n := limits[i].choice; n > 0 {
			names[n] = append(names[n], all[i].Rule.Name)
		}
	}
	for i := range limits {
		all[i].Choice = names[limits[i].choice]
	}
}

func (l *Limit) validateChoice() error {
	switch others := l.settings.made &^ setOutage; {
	case len(l.choice) < 2:
		return errFewAlternatives
	case l.named:
		return errChoiceNamed
	case l.numbers != numbers{}:
		return errChoiceNumbers
	case others != 0:
		return fmt.Errorf("%s belongs to the limits in First, not to the whole", others.names())
	}
	return l.settings.validate()
}

func (l *Limit) validateAlternative(last bool) error {
	switch {
	case l.choice != nil:
		return errNestedChoice
	case l.shadow:
		return errShadowInChoice
	case l.settings.has(setOutage):
		return errOutageInChoice
	case l.settings.has(setPenalty):
		return errPenaltyInChoice
	case l.settings.has(setWait | setLeaky | setSlow):
		return errQueueInChoice
	case l.settings.has(setSpill) && !l.estimate:
		return errSpillEstimate
	case l.settings.has(setSpill) && last:
		return errSpillAlone
	}
	return nil
}

// isFree reports whether an estimate says that a request costs nothing, although it has alternatives: then one unit is asked for.
func (l *limit) isFree(cost int64) bool { return l.choice > 0 && l.estimate && cost == 0 }

// Enforced reports whether the result has a part in the decision: the limit is neither in shadow mode, nor passed over in
// favor of another one of its choice; see [First].
func (r *LimitResult) Enforced() bool { return !r.Shadow && !r.PassedOver }

// PaidBy returns the names of the limits that were charged, in the order of Config.Limits. Of a choice (see [First]) it is the
// one that pays. Limits in shadow mode are left out.
func (d *Decision) PaidBy() []string {
	var names []string
	for i := range d.Results() {
		if r := &d.Results()[i]; r.Charged && !r.Shadow {
			names = append(names, r.Rule.Name)
		}
	}
	return names
}
