package quota

import (
	"github.com/weblimit/weblimit/quota/internal/terms"
)

// Allowance is what a tenant may use under a limit in one period.
type Allowance struct {
	// Plan is the name of the tenant's plan. It is empty without one: then the numbers are
	// those of an override, or of the limit itself.
	Plan string

	// Override says that the numbers are the tenant's own instead of its plan's.
	Override bool

	Included int64 // units of the plan or override
	Adjusted int64 // the sum of the period's adjustments, which can be negative
	Credits  int64 // units of credits that earlier periods have left
	Hard     int64 // units at which requests are denied: the plan's hard limit, Adjusted and Credits

	CreditsUsed int64 // of Credits, how many were used in this period
	Overage     int64 // units used beyond Included, Adjusted and Credits
}

// Units returns the units that are not overage.
func (a *Allowance) Units() int64 { return (*terms.Allowance)(a).Units() }
