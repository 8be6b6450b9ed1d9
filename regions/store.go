package regions

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/books"
	"github.com/weblimit/weblimit/core/store/regional"
)

// Store is the store of one region: limits on it hold over all regions. It is safe for concurrent use. While it has units of
// a period that has not ended, a timer looks at home every second; Close ends that.
type Store struct {
	local, home store.Store
	config      Config
	registry    *store.Registry // a view of the local store's
	plans       plans
	keys        keys
	usual       store.Regions // of limits that say nothing. Does not change.
	leasing     chan struct{}
	trip        atomic.Int64 // how long a question to home took lately, in nanoseconds
	away        atomic.Int64 // since when home has not answered, on the process's clock; 0 while it does
	start       time.Time    // the process's clock counts from here
	limits      limits
	memory      memory
	contact     contact
	booked      bool // a book keeps limits of one of the stores. Does not change.
}

var _ store.Store = (*Store)(nil)

// mostLeases is how many questions to home may be under way. While all places are taken, regions grant what they have.
const mostLeases = 4096

// New returns the store of a region. local is the region's own store, and home the one that all regions share; in the
// home region both can be the same. Both remain the caller's, and New changes nothing in them.
//
// It fails if the configuration makes no sense, and if limits are declared on local already.
func New(local, home store.Store, config Config) (*Store, error) {
	if err := validStores(local, home); err != nil {
		return nil, err
	}
	if err := config.complete(); err != nil {
		return nil, err
	}
	s := &Store{
		local: local, home: home, config: config, registry: local.Registry().RegionsView(),
		booked:  len(books.All(local.Registry()))+len(books.All(home.Registry())) > 0,
		leasing: make(chan struct{}, mostLeases), start: time.Now(),
	}
	s.keys.init(config.MaxKeys)
	if err := s.memory.init(); err != nil {
		return nil, err
	}
	if err := local.Registry().OnRegister(s.register); err != nil {
		return nil, err
	}
	regional.Add(local.Registry(), s.Stats)
	return s, nil
}

// register refuses limits that can't be decided over regions, and notes how the others are.
func (s *Store) register(d store.Declaration) error {
	if !d.On.InRegions() {
		return nil // it is declared on the local store, and counts there alone
	}
	mode := d.Regions
	if mode == (store.Regions{}) {
		mode = s.usual
	}
	if mode.Mode != store.RegionsLeased && mode.Overdraft > 0 {
		return store.AtLimit(d.Rule.Name, errors.New("an overdraft belongs to a leased limit"))
	}
	if d.Rule.Algorithm == store.Calendar && mode.Mode != store.RegionsEach && (s.booked || d.On != s.registry) {
		return store.AtLimit(d.Rule.Name, errors.New("a book keeps the calendar limits of its store, and what regions lease it would bill twice or not at all: choose by Regions that each region has the whole limit"))
	}
	if _, err := newPlan(&d.Rule, mode, &s.config); err != nil {
		return store.AtLimit(d.Rule.Name, err)
	}
	if mode.Mode == store.RegionsLeased {
		s.limits.counts(d.Rule.Name) // so that metrics begin at 0
		s.memory.begin(func() { time.AfterFunc(0, s.lookOnce) })
	}
	return nil
}

// Close ends what the store does in the background, but for questions that are under way. The two stores remain open, and
// what is asked of the store is still decided. It returns nil, and may be called more than once.
func (s *Store) Close() error {
	s.memory.closed.Store(true)
	return nil
}

// Registry implements [store.Store]. It is that of the local store.
func (s *Store) Registry() *store.Registry { return s.registry }

// now returns nanoseconds on the process's clock.
func (s *Store) now() int64 { return int64(time.Since(s.start)) + 1 }

// plan returns the plan of a rule. Limiters derive rules while they serve, for tiers and the like: if one of a leased
// limit can't be leased, home decides it.
func (s *Store) plan(r *store.Rule) *plan {
	return s.plans.get(r, func() *plan {
		mode := s.usual
		if d, ok := s.registry.Declared(r.Name); ok && d.Regions != (store.Regions{}) {
			mode = d.Regions
		}
		p, err := newPlan(r, mode, &s.config)
		if err != nil {
			return &plan{rule: r, id: r.ID(), mode: store.Regions{Mode: store.RegionsHome}}
		}
		if mode.Mode == store.RegionsLeased {
			p.counts = s.limits.counts(r.Name)
		}
		return p
	})
}

// Peek implements [store.Store]. Of a leased limit it says what the region knows: what home has left is asked for only
// when units are leased.
func (s *Store) Peek(ctx context.Context, checks []store.Check, results []store.Result) error {
	c := s.prepare(checks, results)
	if c == nil {
		return s.local.Peek(ctx, checks, results)
	}
	defer c.release()
	if len(c.checks) > 0 {
		c.fill()
		if err := s.local.Peek(ctx, c.checks, c.results); err != nil {
			return err
		}
	}
	if len(c.atHome) > 0 {
		if err := s.home.Peek(ctx, c.homeChecks, c.homeResults); err != nil {
			return err
		}
	}
	s.lookAt(c)
	s.answer(c, checks, results, true)
	return nil
}

// Refund implements [store.Store]. Units of a leased limit come back to the region that charged them.
func (s *Store) Refund(ctx context.Context, checks []store.Check, results []store.Result) error {
	return s.each(checks, results, func(to store.Store, checks []store.Check, results []store.Result) error {
		return to.Refund(ctx, checks, results)
	}, s.refundTo)
}

// refundTo returns the record to which units come back: that of leased units, if the region spends such, or the floor.
// Either is the region's, so it does not matter which of them was charged, as long as that much was.
func (s *Store) refundTo(p *plan, c *store.Check, r *store.Result) (atHome bool, rule *store.Rule) {
	if k := s.keys.find(p.id, c.Key); k != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		spent := int64(0)
		if k.spend != nil {
			spent = k.spend.Burst - k.left
		}
		if k.spend != nil && r.At < k.ends && r.At >= k.ends-p.length(k.ends)/int64(time.Microsecond) && (spent >= c.Cost || p.floor == nil) {
			k.left += min(c.Cost, spent)
			return false, k.spend
		}
	}
	return false, p.floor
}

// Renew implements [store.Store].
func (s *Store) Renew(ctx context.Context, checks []store.Check, results []store.Result) error {
	return s.each(checks, results, func(to store.Store, checks []store.Check, results []store.Result) error {
		return to.Renew(ctx, checks, results)
	}, func(p *plan, _ *store.Check, _ *store.Result) (bool, *store.Rule) { return false, p.floor })
}

// Reset implements [store.Store]. The region forgets what it has used, and home what it has leased to this region. What
// other regions have leased they can still spend, and tell home of it when they lease more. Other processes of the region
// see the reset within a second.
func (s *Store) Reset(ctx context.Context, checks []store.Check) error {
	local, home, err := s.recordsOf(ctx, checks)
	return errors.Join(err, s.local.Reset(ctx, local), s.home.Reset(ctx, home))
}

// recordsOf returns all records of the checks' keys, in the region and at home. Those of a period it can name if the region's
// store says when the period ends.
func (s *Store) recordsOf(ctx context.Context, checks []store.Check) (local, home []store.Check, err error) {
	for i := range checks {
		c := checks[i]
		if c.Rule == nil {
			return checks, checks, nil // which refuse it
		}
		p := s.plan(c.Rule)
		switch p.mode.Mode {
		case store.RegionsEach:
			local = append(local, c)
		case store.RegionsHome:
			home = append(home, c)
		default:
			local = append(local, c) // the floor has the limit's own name
			if c.Rule = p.period; p.floor == nil {
				local = append(local, c) // for a block
			}
			c.Cost = 0
			answer := make([]store.Result, 1)
			if failed := s.local.Peek(ctx, []store.Check{c}, answer); failed != nil {
				err = errors.Join(err, failed)
			}
			ends := answer[0].At + answer[0].ResetAfter.Microseconds()
			for _, of := range p.classes() {
				local = append(local, s.periodRecords(of, c, ends)...)
			}
			c.Rule = p.pool
			home = append(home, c)
		}
	}
	return local, home, err
}

// classes returns the plans of both classes of requests that a limit can have.
func (p *plan) classes() []*plan {
	upper, lower := *p, *p
	upper.class, upper.id = "", p.rule.ID()
	if lower.ofLowerClass() != nil {
		return []*plan{&upper}
	}
	return []*plan{&upper, &lower}
}

// periodRecords returns the records of a period that ends at a time, and of the one that the process knows of if that is
// another, and forgets what it knows.
func (s *Store) periodRecords(p *plan, c store.Check, ends int64) (all []store.Check) {
	periods := []int64{ends}
	if k := s.keys.find(p.id, c.Key); k != nil {
		k.mu.Lock()
		if k.ends != 0 && k.ends != ends {
			periods = append(periods, k.ends)
		}
		k.mu.Unlock()
	}
	s.keys.forget(p.id, c.Key)
	for _, ends := range periods {
		share, err := p.share(ends)
		spend, failed := p.spend(ends, 1)
		if err != nil || failed != nil {
			continue // there is no such record
		}
		for _, c.Rule = range []*store.Rule{share, spend} {
			all = append(all, c)
		}
	}
	return all
}

// Blocks implements [store.Store]. It yields the blocks of the region, and those at home of limits that are decided there.
func (s *Store) Blocks(ctx context.Context, rules []*store.Rule) iter.Seq2[store.Blocked, error] {
	var local, home []*store.Rule
	for _, r := range rules {
		if p := s.plan(r); p.mode.Mode == store.RegionsHome {
			home = append(home, r)
		} else {
			local = append(local, p.blockRule())
		}
	}
	return func(yield func(store.Blocked, error) bool) {
		for of, rules := range map[store.Store][]*store.Rule{s.local: local, s.home: home} {
			if len(rules) == 0 {
				continue
			}
			for b, err := range of.Blocks(ctx, rules) {
				b.Limit = strings.TrimSuffix(b.Limit, periodSuffix)
				if !yield(b, err) {
					return
				}
			}
		}
	}
}

// blockRule returns the rule under which the region keeps blocks: that of a record which every request reads.
func (p *plan) blockRule() *store.Rule {
	if p.mode.Mode == store.RegionsLeased && p.floor == nil {
		return p.period
	}
	return p.rule
}

// Block implements [store.Store]. A block of a leased limit holds in this region, and keeps the key from leasing in all.
func (s *Store) Block(ctx context.Context, checks []store.Check, d time.Duration) error {
	local, home := s.blocked(checks)
	return errors.Join(s.local.Block(ctx, local, d), s.home.Block(ctx, home, d))
}

// Unblock implements [store.Store].
func (s *Store) Unblock(ctx context.Context, checks []store.Check) error {
	local, home := s.blocked(checks)
	return errors.Join(s.local.Unblock(ctx, local), s.home.Unblock(ctx, home))
}

// blocked returns where blocks of the checks' keys are kept.
func (s *Store) blocked(checks []store.Check) (local, home []store.Check) {
	for i := range checks {
		c := checks[i]
		if c.Rule == nil {
			return checks, checks
		}
		p := s.plan(c.Rule)
		switch p.mode.Mode {
		case store.RegionsEach:
			local = append(local, c)
		case store.RegionsHome:
			home = append(home, c)
		default:
			c.Rule = p.blockRule()
			local = append(local, c)
			c.Rule = p.pool
			home = append(home, c)
			for _, of := range p.classes() {
				s.keys.forget(of.id, c.Key)
			}
		}
	}
	return local, home
}

// each has a function change the records of checks where they are: in the region, at home, or, for a leased limit,
// where leased says. It skips leased limits without such a record.
func (s *Store) each(checks []store.Check, results []store.Result,
	change func(store.Store, []store.Check, []store.Result) error,
	leased func(*plan, *store.Check, *store.Result) (atHome bool, rule *store.Rule),
) error {
	if len(checks) != len(results) {
		return change(s.local, checks, results) // which refuses it
	}
	var to [2]batch
	to[0].of, to[1].of = s.local, s.home
	for i := range checks {
		c, atHome, rule := checks[i], false, checks[i].Rule
		if rule != nil {
			p := s.plan(rule)
			switch p.mode.Mode {
			case store.RegionsHome:
				atHome = true
			case store.RegionsLeased:
				atHome, rule = leased(p, &c, &results[i])
			}
			if rule == nil {
				continue
			}
		}
		c.Rule = rule
		n := 0
		if atHome {
			n = 1
		}
		to[n].add(i, c, results[i])
	}
	var undone []int
	var errs []error
	for i := range to {
		if len(to[i].checks) == 0 {
			continue
		}
		err := change(to[i].of, to[i].checks, to[i].results)
		undone = append(undone, to[i].undone(err)...)
		errs = append(errs, err)
		if err == nil {
			to[i].spread(results)
		}
	}
	err := errors.Join(errs...)
	if err != nil && len(undone) > 0 {
		return &store.Undone{Checks: undone, Err: err}
	}
	return err
}

// batch is the part of a call that one store answers.
type batch struct {
	of      store.Store
	checks  []store.Check
	results []store.Result
	at      []int // which of the caller's checks these are
}

func (b *batch) add(i int, c store.Check, r store.Result) {
	b.checks, b.results, b.at = append(b.checks, c), append(b.results, r), append(b.at, i)
}

func (b *batch) spread(results []store.Result) {
	for n, i := range b.at {
		results[i] = b.results[n]
	}
}

// undone returns which of the caller's checks have certainly not changed anything.
func (b *batch) undone(err error) (checks []int) {
	var u *store.Undone
	if errors.As(err, &u) {
		for _, n := range u.Checks {
			checks = append(checks, b.at[n])
		}
	}
	return checks
}
