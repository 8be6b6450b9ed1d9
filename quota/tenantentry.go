package quota

import (
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/quota/internal/micros"
	"github.com/weblimit/weblimit/quota/internal/terms"
)

const (
	// askBefore and askAfter are how long before a period begins, and after that, the numbers of tenants
	// with credits are asked for again: what is left of credits depends on all that was used before, of
	// which the last is written some time after the period has ended.
	askBefore = time.Hour
	askAfter  = 2 * time.Minute
)

// tenantEntry is the cached allowance of a tenant in two periods, so that nobody waits for the ledger at the
// moment in which a period begins for all. It does not change, but for stale.
type tenantEntry struct {
	limit, next core.Limit // in the period until ends, and in the one after it

	// credited says that the numbers depend on what was used before. Those of next are then those of
	// the moment at which they were loaded.
	credited bool

	loaded             time.Time
	began, ends, until time.Time // the first period, and the end of the second
	epoch              int64     // see tenants
	stale              atomic.Bool
}

// entry computes a tenant's allowance of facts.
func (p *perTenant) entry(f *terms.Facts, epoch int64) *tenantEntry {
	now := time.Now()
	start, end, next := p.rule.Period(now.UnixMicro())
	own := ownTerms(&p.rule)
	present, later := f.Allowance(start, end, 0, own), f.Allowance(end, next, 0, own)
	return &tenantEntry{
		limit: limitOf(&present, p.rule.Calendar), next: limitOf(&later, p.rule.Calendar), credited: f.Last(terms.ChangeCredit) != nil,
		loaded: now, began: micros.Time(start), ends: micros.Time(end), until: micros.Time(next), epoch: epoch,
	}
}

// at returns the numbers at a time that the entry knows of, or the last that it does.
func (e *tenantEntry) at(now time.Time) core.Limit {
	if now.Before(e.ends) {
		return e.limit
	}
	return e.next
}

// isDue reports whether the numbers, which apply, are to be asked for again, because more is known of what was
// used before.
func (e *tenantEntry) isDue(now time.Time) bool {
	if !e.credited {
		return false
	}
	for _, begins := range [...]time.Time{e.began, e.ends} {
		for _, at := range [...]time.Time{begins.Add(-askBefore), begins, begins.Add(askAfter)} {
			if e.loaded.Before(at) && !now.Before(at) {
				return true
			}
		}
	}
	return false
}
