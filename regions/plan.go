package regions

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// plan is how a region counts the requests under one rule of a limit: the rules that are derived from it. A plan does
// not change.
type plan struct {
	rule   *store.Rule
	id     uint64 // of what the process knows of keys: see keyID
	class  string // in the names of records of a period, so that the lower class spends nothing of the upper one's
	mode   store.Regions
	counts *counts // of the limit; nil if it is not leased

	// For leased limits. The floors of all regions and the pool are together the limit.
	floor  *store.Rule // in the region: what it grants without asking; nil if that is less than one unit
	pool   *store.Rule // at home: what no region has as its floor
	period *store.Rule // in the region: tells when the present period ends; it counts nothing
}

// The suffixes of the names under which the units of a leased limit are counted. A limit's own name can't contain a
// slash. Records of a period have its end in their name, so that what a frozen server or process writes too late is
// in a record that nobody reads any more.
const (
	poolSuffix   = "/pool"
	periodSuffix = "/period"
	shareSuffix  = "/share/"
	spendSuffix  = "/spend/"
	turnSuffix   = "/turn/"
	lowerClass   = "lower/" // after one of the last three
)

// The lengths of the periods of a token bucket: half of the time in which it fills, within these bounds. A unit
// that was leased can be spent until its period is over, so a period is by how much a region can be late.
const (
	shortestPeriod = 100 * time.Millisecond
	longestPeriod  = 30 * time.Second
)

// leaseMemory is how long home remembers a lease, so that a lease whose answer was lost can be asked for again.
const leaseMemory = time.Minute

// mostRepeats is how often such a lease can be asked for: more often than there is time for.
const mostRepeats = 1000

// unlimited is the quota of a record that only counts.
const unlimited = 1 << 50

// newPlan returns the plan for a rule.
func newPlan(r *store.Rule, mode store.Regions, c *Config) (*plan, error) {
	p := &plan{rule: r, mode: mode, id: r.ID()}
	if mode.Mode != store.RegionsLeased {
		return p, nil
	}
	if err := leasable(r); err != nil {
		return nil, err
	}
	floorOf := func(units int64) int64 { return units * c.Floor / (100 * int64(c.Regions)) }
	quota, burst, whole := floorOf(r.Quota), floorOf(r.Burst), floorOf(r.Whole)
	pool := r.Numbers
	if quota > 0 && burst > 0 {
		floor, err := derive(r, r.Name, func(n *store.Numbers) { n.Quota, n.Burst, n.Whole, n.Soft = quota, burst, whole, 0 })
		if err == nil {
			p.floor = floor
			n := int64(c.Regions)
			pool.Quota, pool.Burst, pool.Whole = r.Quota-n*quota, r.Burst-n*burst, r.Whole-n*whole
			pool.Burst = min(pool.Burst, pool.Whole) // floors are rounded
		}
	}
	var err error
	p.pool, err = derive(r, r.Name+poolSuffix, func(n *store.Numbers) {
		n.Quota, n.Burst, n.Whole, n.Soft, n.Once, n.Repeats = pool.Quota, pool.Burst, pool.Whole, 0, leaseMemory, mostRepeats
	})
	if err != nil {
		return nil, err
	}
	if p.period, err = p.counter(periodSuffix, 0); err == nil && r.Burst < r.Whole {
		err = p.ofLowerClass()
	}
	return p, err
}

// ofLowerClass has the plan be that of the lower class of a limit that keeps a part free. Both classes charge the same floor
// and pool, and each leases for itself. The overdraft is one for both, and so the upper class's.
func (p *plan) ofLowerClass() error {
	lower, err := p.counter(shareSuffix+lowerClass, 0)
	if err == nil {
		p.class, p.id, p.mode.Overdraft = lowerClass, lower.ID(), 0
	}
	return err
}

// leasable returns why a limit can't be leased, or nil.
func leasable(r *store.Rule) error {
	because := func(what string) error {
		return fmt.Errorf("%s can't be leased to regions: choose by Regions whether each region has the whole limit or home decides", what)
	}
	switch {
	case r.Algorithm == store.SlidingLog, r.Algorithm == store.Concurrency:
		return because("a " + r.Algorithm.String())
	case r.Algorithm == store.Ledger: // register has refused it
		return errors.New("the units of a book can't be leased to regions")
	case r.FromUse: // a region that has leased nothing does not know when the window ends
		return because("a window that begins with first use")
	case r.Block != store.Block{}:
		return because("a limit with a penalty")
	case r.Once != 0:
		return because("a limit with OncePer")
	case r.Wait != 0:
		return because("a limit in which requests wait")
	case r.Divided: // no region knows what clients ask for in the others
		return because("a limit that clients divide")
	}
	return nil
}

// derive returns a rule with other numbers.
func derive(r *store.Rule, name string, change func(*store.Numbers)) (*store.Rule, error) {
	n := r.Numbers
	change(&n)
	derived, err := store.NewRule(name, n)
	return &derived, err
}

// counter returns the rule of a record that lasts for a period and holds units, or any number of them if units is 0.
func (p *plan) counter(name string, units int64) (*store.Rule, error) {
	return derive(p.rule, p.rule.Name+name, func(n *store.Numbers) {
		n.Quota, n.Burst, n.Whole, n.Soft, n.Debt, n.HasDebt = unlimited, unlimited, unlimited, 0, 0, false
		if units > 0 {
			n.Burst = units
		}
		switch n.Algorithm {
		case store.SlidingWindow:
			n.Algorithm = store.FixedWindow
		case store.TokenBucket:
			n.Algorithm, n.Window, n.Jitter = store.FixedWindow, periodOf(p.rule), true // so that not all periods begin together
		}
	})
}

// periodOf returns how long the periods of a token bucket are.
func periodOf(r *store.Rule) time.Duration {
	n := &r.Integers
	fills := time.Duration(n.Capacity/n.Rate*n.Tick) * time.Microsecond
	return min(max(fills/2, shortestPeriod), longestPeriod).Truncate(time.Microsecond)
}

// share returns the rule of the record that says how many units the region has leased for the period that ends at a
// time.
func (p *plan) share(ends int64) (*store.Rule, error) {
	return p.counter(shareSuffix+p.class+strconv.FormatInt(ends, 36), 0)
}

// spend returns the rule of the record of units that were spent of those.
func (p *plan) spend(ends, units int64) (*store.Rule, error) {
	return p.counter(spendSuffix+p.class+strconv.FormatInt(ends, 36), units)
}

// endOfPool returns when the window in which home has charged a lease ends, or 0 for a token bucket.
func (p *plan) endOfPool(r *store.Result) int64 {
	end := r.At + r.ResetAfter.Microseconds()
	switch p.rule.Algorithm {
	case store.TokenBucket:
		return 0
	case store.SlidingWindow: // it ends one window before nothing of it counts any more
		return end - p.rule.Window.Microseconds()
	}
	return end
}

// plans caches the plan of each rule: those of limits, and those that limiters derive for tiers and the like.
type plans struct {
	of    sync.Map // of *store.Rule to *plan
	count atomic.Int64
}

// maxPlans bounds the cache: a Tiers function may make up new numbers for each request. Beyond it, plans are made anew
// for each request.
const maxPlans = 1 << 14

// get returns the plan of a rule, making it first if needed. Concurrent callers get the same one.
func (p *plans) get(r *store.Rule, newPlan func() *plan) *plan {
	if known, ok := p.of.Load(r); ok {
		return known.(*plan)
	}
	made := newPlan()
	if p.count.Load() >= maxPlans {
		return made
	}
	known, before := p.of.LoadOrStore(r, made)
	if !before {
		p.count.Add(1)
	}
	return known.(*plan)
}
