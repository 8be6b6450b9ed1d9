package usage

import (
	"context"
	"slices"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Config says what is told.
type Config struct {
	// Limiters are those whose limits are told, such as the ones in front of an API. At least one is required. Of limits
	// with one name, the one with the fewest units remaining is told.
	Limiters []*core.Limiter

	// Days returns the units that a tenant has used under a limit on each day, such as "2026-11-28", of the
	// period that a time is in: UsedByDay of a quota.Book. It is called for calendar limits by user, tenant or API key, whose
	// key is the tenant. A limit that it does not know has no days, and no error. Defaults to none.
	Days func(ctx context.Context, limit, tenant string, at time.Time) (map[string]int64, error)
}

// daysTimeout bounds what the days of one answer take.
const daysTimeout = time.Second

// Usage tells clients their limits. It is safe for concurrent use.
type Usage struct {
	limiters []*core.Limiter
	days     func(ctx context.Context, limit, tenant string, at time.Time) (map[string]int64, error)
}

// New returns what tells clients their limits, for Usage of an adapter. It panics if there is no limiter, or
// a nil one: call it at start-up.
func New(config Config) *Usage {
	if len(config.Limiters) == 0 || slices.Contains(config.Limiters, nil) {
		panic("weblimit: usage.New: Config.Limiters is empty, or has a nil one")
	}
	return &Usage{slices.Clone(config.Limiters), config.Days}
}

// Limiters returns the limiters whose limits are told.
func (u *Usage) Limiters() []*core.Limiter { return slices.Clone(u.limiters) }

// Report returns what a client is told by a request, for a page of one's own. denied is the decision if a limiter would
// refuse the request for its key alone; the report is empty then. The error is that of a store that did not answer.
func (u *Usage) Report(r keyfuncs.Request) (report Report, denied *core.Decision, err error) {
	report = Report{Limits: map[string]Limit{}, Unlimited: true}
	ctx, cancel := context.WithTimeout(r.Context(), daysTimeout)
	defer cancel()
	for _, limiter := range u.limiters {
		keys := map[int]string{}
		d, err := compose.PeekRequest(limiter, r, 1, func(result int, key []byte) { keys[result] = string(key) })
		switch {
		case err != nil:
			return Report{}, nil, err
		case d.Err != nil:
			return Report{}, nil, d.Err
		case d.Reason == core.ReasonMissingKey || d.Reason == core.ReasonAmbiguousKey:
			return Report{}, &d, nil
		case d.Reason != core.ReasonBypassed:
			report.Unlimited = false
		}
		for i, results := 0, d.Results(); i < len(results); i++ {
			result := &results[i]
			if result.Shadow || result.Hidden {
				continue
			}
			told := limitOf(result)
			if before, twice := report.Limits[result.Rule.Name]; twice && before.Remaining <= told.Remaining {
				continue
			}
			if tenant, has := keys[i]; has && told.Period != nil && u.days != nil {
				days, err := u.days(ctx, result.Rule.Name, tenant, told.Period.Start)
				report.Incomplete = report.Incomplete || err != nil
				told.byDay(result, days)
			}
			report.Limits[result.Rule.Name] = told
		}
	}
	return report, nil, nil
}
