// Package terms computes what a tenant may use. It asks nobody: of the changes that were made, in their order, and of
// what was used, the same always follows.
package terms

import (
	"errors"
	"fmt"

	"github.com/weblimit/weblimit/quota/internal/micros"
)

// Kind is what a change does.
type Kind string

// The kinds of changes.
const (
	ChangePlan     Kind = "plan"       // what a plan includes, and its hard limit
	ChangeAssign   Kind = "assignment" // which plan a tenant has
	ChangeOverride Kind = "override"   // numbers of a tenant's own, instead of its plan's; 0 for the plan's again
	ChangeCredit   Kind = "credit"     // units that carry over until they expire
	ChangeAdjust   Kind = "adjustment" // units more, or fewer, in one period
)

// Change is one change to what tenants may use. Changes are never altered nor removed: what a
// tenant may use is computed of all of them.
type Change struct {
	Operation      string
	Kind           Kind
	Limit          string
	Tenant         string // as text; empty for plans
	Plan           string
	Included, Hard int64 // units of plans and overrides
	Units          int64 // of credits and adjustments
	Expires        int64 // of credits, in microseconds since the epoch; 0 for never
	Start          int64 // of the period of adjustments
	Reason         string

	At      int64 // when it was made, by the ledger's clock
	Present bool  // start is that of the present period, or of the first if the operation is repeated
}

// ErrReused says that an operation id was used before, for another change.
var ErrReused = errors.New("weblimit: quota: this operation id was used before, for another change")

// RepeatedBy returns nil if other is this change again.
func (c *Change) RepeatedBy(other *Change) error {
	again := *other
	again.At, again.Present = c.At, c.Present
	if other.Present {
		again.Start = c.Start
	}
	if *c == again {
		return nil
	}
	return fmt.Errorf("%w: %q was %s, and now is %s", ErrReused, c.Operation, c.InWords(), other.InWords())
}

// InWords describes the change for errors.
func (c *Change) InWords() string {
	switch c.Kind {
	case ChangePlan:
		return fmt.Sprintf("plan %q of limit %q with %d units, at most %d", c.Plan, c.Limit, c.Included, c.Hard)
	case ChangeAssign:
		return fmt.Sprintf("plan %q for %q under limit %q", c.Plan, c.Tenant, c.Limit)
	case ChangeOverride:
		return fmt.Sprintf("%d units, at most %d, for %q under limit %q", c.Included, c.Hard, c.Tenant, c.Limit)
	case ChangeAdjust:
		return fmt.Sprintf("an adjustment of %+d for %q under limit %q in the period from %s, for %q", c.Units, c.Tenant, c.Limit, micros.Time(c.Start), c.Reason)
	}
	until := "without expiry"
	if c.Expires != 0 {
		until = "until " + micros.Time(c.Expires).String()
	}
	return fmt.Sprintf("a credit of %d for %q under limit %q %s, for %q", c.Units, c.Tenant, c.Limit, until, c.Reason)
}
