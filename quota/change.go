package quota

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// changeKind is what a change does.
type changeKind string

const (
	changePlan     changeKind = "plan"       // what a plan includes, and its hard limit
	changeAssign   changeKind = "assignment" // which plan a tenant has
	changeOverride changeKind = "override"   // numbers of a tenant's own, instead of its plan's; 0 for the plan's again
	changeCredit   changeKind = "credit"     // units that carry over until they expire
	changeAdjust   changeKind = "adjustment" // units more, or fewer, in one period
)

// change is one change to what tenants may use. Changes are never altered nor removed: what a
// tenant may use is computed of all of them.
type change struct {
	operation      string
	kind           changeKind
	limit          string
	tenant         string // as text; empty for plans
	plan           string
	included, hard int64 // units of plans and overrides
	units          int64 // of credits and adjustments
	expires        int64 // of credits, in microseconds since the epoch; 0 for never
	start          int64 // of the period of adjustments
	reason         string

	at      int64 // when it was made, by the ledger's clock
	present bool  // start is that of the present period, or of the first if the operation is repeated
}

// reused says that an operation id was used before, for another change.
var reused = errors.New("weblimit: quota: this operation id was used before, for another change")

// repeatedBy returns nil if other is this change again.
func (c *change) repeatedBy(other *change) error {
	again := *other
	again.at, again.present = c.at, c.present
	if other.present {
		again.start = c.start
	}
	if *c == again {
		return nil
	}
	return fmt.Errorf("%w: %q was %s, and now is %s", reused, c.operation, c.inWords(), other.inWords())
}

// inWords describes the change for errors.
func (c *change) inWords() string {
	switch c.kind {
	case changePlan:
		return fmt.Sprintf("plan %q of limit %q with %d units, at most %d", c.plan, c.limit, c.included, c.hard)
	case changeAssign:
		return fmt.Sprintf("plan %q for %q under limit %q", c.plan, c.tenant, c.limit)
	case changeOverride:
		return fmt.Sprintf("%d units, at most %d, for %q under limit %q", c.included, c.hard, c.tenant, c.limit)
	case changeAdjust:
		return fmt.Sprintf("an adjustment of %+d for %q under limit %q in the period from %s, for %q", c.units, c.tenant, c.limit, timeOf(c.start), c.reason)
	}
	until := "without expiry"
	if c.expires != 0 {
		until = "until " + timeOf(c.expires).String()
	}
	return fmt.Sprintf("a credit of %d for %q under limit %q %s, for %q", c.units, c.tenant, c.limit, until, c.reason)
}

// facts are what one tenant's allowances are computed of.
type facts struct {
	now     int64       // by the ledger's clock
	changes []change    // of the tenant and of its limit's plans, in the order they were made
	periods []periodUse // with what the tenant has used in them, the earliest first
}

// periodUse is the use of one account.
type periodUse struct{ start, end, used int64 }

func (f *facts) sort() {
	slices.SortFunc(f.periods, func(a, b periodUse) int { return cmp.Compare(a.start, b.start) })
}

// terms are the units of a plan or an override.
type terms struct {
	plan           string // empty for the limit's own numbers, and for an override
	override       bool
	included, hard int64
}

// termsAt returns the terms in force just before a time, which are own if there are none.
func (f *facts) termsAt(at int64, own terms) terms {
	plan, override := "", terms{}
	for i := range f.changes {
		c := &f.changes[i]
		switch {
		case c.at >= at:
		case c.kind == changeAssign:
			plan = c.plan
		case c.kind == changeOverride:
			override = terms{override: true, included: c.included, hard: c.hard}
		}
	}
	if override.hard > 0 {
		return override
	}
	if c := f.plan(plan, at); c != nil {
		return terms{plan: plan, included: c.included, hard: c.hard}
	}
	return own
}

// plan returns the last definition of a plan before a time, or nil.
func (f *facts) plan(name string, at int64) *change {
	for i := len(f.changes) - 1; i >= 0; i-- {
		if c := &f.changes[i]; c.kind == changePlan && c.plan == name && c.at < at {
			return c
		}
	}
	return nil
}

// last returns the last change of a kind, or nil.
func (f *facts) last(kind changeKind) *change {
	for i := len(f.changes) - 1; i >= 0; i-- {
		if f.changes[i].kind == kind {
			return &f.changes[i]
		}
	}
	return nil
}

// made reports whether an operation was made before.
func (f *facts) made(operation string) bool {
	return slices.ContainsFunc(f.changes, func(c change) bool { return c.operation == operation })
}

// adjustment returns the sum of the adjustments of a period.
func (f *facts) adjustment(start int64) (n int64) {
	for i := range f.changes {
		if c := &f.changes[i]; c.kind == changeAdjust && c.start == start {
			n += c.units
		}
	}
	return n
}

// units returns what a period has before credits are used: what its terms include, adjusted, but never less than
// nothing. An adjustment by more than that takes no credits.
func (f *facts) units(t *terms, start int64) int64 {
	return max(sum(t.included, f.adjustment(start)), 0)
}

// allowance computes what the tenant may use in the period from start until end, of which it
// has used some units.
//
// In each period the plan's own units are used first, then credits, the first to expire
// first. A credit counts in every period that ends after it was made and begins before it
// expires. Whatever goes beyond is overage.
//
// The hard limit is at least 1: a limit can't hold less.
func (f *facts) allowance(start, end, used int64, own terms) allowance {
	a := f.unbounded(start, end, used, own)
	a.Hard = max(a.Hard, 1)
	return a
}

// unbounded returns the allowance with a hard limit that can be 0 or less.
func (f *facts) unbounded(start, end, used int64, own terms) allowance {
	var credits []change
	for i := range f.changes {
		if f.changes[i].kind == changeCredit {
			credits = append(credits, f.changes[i])
		}
	}
	slices.SortStableFunc(credits, func(a, b change) int { return cmp.Compare(a.expiry(), b.expiry()) })
	for _, p := range f.periods {
		if p.start < start {
			t := f.termsAt(p.end, own)
			draw(credits, p.start, p.end, p.used-f.units(&t, p.start))
		}
	}
	t := f.termsAt(end, own)
	a := allowance{Plan: t.plan, Override: t.override, Included: t.included, Adjusted: f.adjustment(start)}
	for i := range credits {
		if credits[i].counts(start, end) {
			a.Credits = sum(a.Credits, credits[i].units)
		}
	}
	units := f.units(&t, start)
	a.Hard = sum(sum(t.hard, a.Adjusted), a.Credits)
	a.CreditsUsed = min(max(used-units, 0), a.Credits)
	a.Overage = max(used-sum(units, a.Credits), 0)
	return a
}

// wantHard returns an error if a change would leave a tenant a hard limit below 1 in the period from
// start until end. The tenant would have 1 unit, which nobody has asked for.
func (f *facts) wantHard(c *change, start, end int64, own terms) error {
	if f.made(c.operation) {
		return nil // a repeat
	}
	before := f.unbounded(start, end, 0, own).Hard
	made := *c
	made.at = min(f.now, end-1)
	after := facts{now: f.now, periods: f.periods, changes: append(slices.Clone(f.changes), made)}
	hard := after.unbounded(start, end, 0, own).Hard
	if hard >= 1 {
		return nil
	}
	mend := "to deny all requests, block the tenant: see core.Limiter.Block"
	if c.kind == changeAdjust && before > 1 {
		mend = fmt.Sprintf("%d units fewer are possible; %s", before-1, mend)
	}
	return fmt.Errorf("weblimit: quota: %s would make the hard limit %d in the period from %s, and the least is 1: %s",
		c.inWords(), hard, timeOf(start).Format(time.RFC3339), mend)
}

// draw takes units from credits that count in a period, in order.
func draw(credits []change, start, end, units int64) {
	for i := range credits {
		if units > 0 && credits[i].counts(start, end) {
			n := min(units, credits[i].units)
			credits[i].units -= n
			units -= n
		}
	}
}

// counts reports whether a credit can be used in a period.
func (c *change) counts(start, end int64) bool { return c.at < end && c.expiry() > start }

// expiry returns when a credit expires: never is later than everything.
func (c *change) expiry() int64 {
	if c.expires == 0 {
		return 1<<63 - 1
	}
	return c.expires
}

// maxUnits bounds the units of a plan, a credit and an allowance: stores count exactly up to
// it.
const maxUnits = 1 << 50

// sum adds two numbers of units, and stays within maxUnits.
func sum(a, b int64) int64 { return max(min(a+b, maxUnits), -maxUnits) }

// hasTenant reports whether there are changes of the tenant, and not only of plans.
func (f *facts) hasTenant() bool {
	return slices.ContainsFunc(f.changes, func(c change) bool { return c.kind != changePlan })
}

// allowance is what quota.Allowance says.
type allowance struct {
	Plan     string
	Override bool

	Included, Adjusted, Credits, Hard int64

	CreditsUsed, Overage int64
}

// units returns the units that are not overage.
func (a *allowance) units() int64 { return sum(max(sum(a.Included, a.Adjusted), 0), a.Credits) }
