package terms

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weblimit/weblimit/quota/internal/micros"
)

// Facts are what one tenant's allowances are computed of.
type Facts struct {
	Now     int64       // by the ledger's clock
	Changes []Change    // of the tenant and of its limit's plans, in the order they were made
	Periods []PeriodUse // with what the tenant has used in them, the earliest first
}

// PeriodUse is the use of one account.
type PeriodUse struct{ Start, End, Used int64 }

// Sort puts the periods in order.
func (f *Facts) Sort() {
	slices.SortFunc(f.Periods, func(a, b PeriodUse) int { return cmp.Compare(a.Start, b.Start) })
}

// Terms are the units of a plan or an override.
type Terms struct {
	plan           string // empty for the limit's own numbers, and for an override
	override       bool
	Included, Hard int64
}

// termsAt returns the terms in force just before a time, which are own if there are none.
func (f *Facts) termsAt(at int64, own Terms) Terms {
	plan, override := "", Terms{}
	for i := range f.Changes {
		c := &f.Changes[i]
		switch {
		case c.At >= at:
		case c.Kind == ChangeAssign:
			plan = c.Plan
		case c.Kind == ChangeOverride:
			override = Terms{override: true, Included: c.Included, Hard: c.Hard}
		}
	}
	if override.Hard > 0 {
		return override
	}
	if c := f.Plan(plan, at); c != nil {
		return Terms{plan: plan, Included: c.Included, Hard: c.Hard}
	}
	return own
}

// Plan returns the last definition of a plan before a time, or nil.
func (f *Facts) Plan(name string, at int64) *Change {
	for i := len(f.Changes) - 1; i >= 0; i-- {
		if c := &f.Changes[i]; c.Kind == ChangePlan && c.Plan == name && c.At < at {
			return c
		}
	}
	return nil
}

// Last returns the last change of a kind, or nil.
func (f *Facts) Last(kind Kind) *Change {
	for i := len(f.Changes) - 1; i >= 0; i-- {
		if f.Changes[i].Kind == kind {
			return &f.Changes[i]
		}
	}
	return nil
}

// Made reports whether an operation was made before.
func (f *Facts) Made(operation string) bool {
	return slices.ContainsFunc(f.Changes, func(c Change) bool { return c.Operation == operation })
}

// adjustment returns the sum of the adjustments of a period.
func (f *Facts) adjustment(start int64) (n int64) {
	for i := range f.Changes {
		if c := &f.Changes[i]; c.Kind == ChangeAdjust && c.Start == start {
			n += c.Units
		}
	}
	return n
}

// units returns what a period has before credits are used: what its terms include, adjusted, but never less than
// nothing. An adjustment by more than that takes no credits.
func (f *Facts) units(t *Terms, start int64) int64 {
	return max(sum(t.Included, f.adjustment(start)), 0)
}

// Allowance computes what the tenant may use in the period from start until end, of which it
// has used some units.
//
// In each period the plan's own units are used first, then credits, the first to expire
// first. A credit counts in every period that ends after it was made and begins before it
// expires. Whatever goes beyond is overage.
//
// The hard limit is at least 1: a limit can't hold less.
func (f *Facts) Allowance(start, end, used int64, own Terms) Allowance {
	a := f.unbounded(start, end, used, own)
	a.Hard = max(a.Hard, 1)
	return a
}

// unbounded returns the allowance with a hard limit that can be 0 or less.
func (f *Facts) unbounded(start, end, used int64, own Terms) Allowance {
	var credits []Change
	for i := range f.Changes {
		if f.Changes[i].Kind == ChangeCredit {
			credits = append(credits, f.Changes[i])
		}
	}
	slices.SortStableFunc(credits, func(a, b Change) int { return cmp.Compare(a.expiry(), b.expiry()) })
	for _, p := range f.Periods {
		if p.Start < start {
			t := f.termsAt(p.End, own)
			draw(credits, p.Start, p.End, p.Used-f.units(&t, p.Start))
		}
	}
	t := f.termsAt(end, own)
	a := Allowance{Plan: t.plan, Override: t.override, Included: t.Included, Adjusted: f.adjustment(start)}
	for i := range credits {
		if credits[i].counts(start, end) {
			a.Credits = sum(a.Credits, credits[i].Units)
		}
	}
	units := f.units(&t, start)
	a.Hard = sum(sum(t.Hard, a.Adjusted), a.Credits)
	a.CreditsUsed = min(max(used-units, 0), a.Credits)
	a.Overage = max(used-sum(units, a.Credits), 0)
	return a
}

// WantHard returns an error if a change would leave a tenant a hard limit below 1 in the period from
// start until end. The tenant would have 1 unit, which nobody has asked for.
func (f *Facts) WantHard(c *Change, start, end int64, own Terms) error {
	if f.Made(c.Operation) {
		return nil // a repeat
	}
	before := f.unbounded(start, end, 0, own).Hard
	made := *c
	made.At = min(f.Now, end-1)
	after := Facts{Now: f.Now, Periods: f.Periods, Changes: append(slices.Clone(f.Changes), made)}
	hard := after.unbounded(start, end, 0, own).Hard
	if hard >= 1 {
		return nil
	}
	mend := "to deny all requests, block the tenant: see core.Limiter.Block"
	if c.Kind == ChangeAdjust && before > 1 {
		mend = fmt.Sprintf("%d units fewer are possible; %s", before-1, mend)
	}
	return fmt.Errorf("weblimit: quota: %s would make the hard limit %d in the period from %s, and the least is 1: %s",
		c.InWords(), hard, micros.Time(start).Format(time.RFC3339), mend)
}

// draw takes units from credits that count in a period, in order.
func draw(credits []Change, start, end, units int64) {
	for i := range credits {
		if units > 0 && credits[i].counts(start, end) {
			n := min(units, credits[i].Units)
			credits[i].Units -= n
			units -= n
		}
	}
}

// counts reports whether a credit can be used in a period.
func (c *Change) counts(start, end int64) bool { return c.At < end && c.expiry() > start }

// expiry returns when a credit expires: never is later than everything.
func (c *Change) expiry() int64 {
	if c.Expires == 0 {
		return 1<<63 - 1
	}
	return c.Expires
}

// MaxUnits bounds the units of a plan, a credit and an allowance: stores count exactly up to
// it.
const MaxUnits = 1 << 50

// sum adds two numbers of units, and stays within MaxUnits.
func sum(a, b int64) int64 { return max(min(a+b, MaxUnits), -MaxUnits) }

// HasTenant reports whether there are changes of the tenant, and not only of plans.
func (f *Facts) HasTenant() bool {
	return slices.ContainsFunc(f.Changes, func(c Change) bool { return c.Kind != ChangePlan })
}

// Allowance is what quota.Allowance says.
type Allowance struct {
	Plan     string
	Override bool

	Included, Adjusted, Credits, Hard int64

	CreditsUsed, Overage int64
}

// Units returns the units that are not overage.
func (a *Allowance) Units() int64 { return sum(max(sum(a.Included, a.Adjusted), 0), a.Credits) }
