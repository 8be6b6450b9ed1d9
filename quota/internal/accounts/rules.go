package accounts

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/quota/internal/ledger"
)

// maxTwins bounds the rules whose twins are remembered. An application has a handful, and
// limiters make further ones for tenants with numbers of their own.
const maxTwins = 1 << 14

// Rules are the limits that are kept, and the twins of their rules.
type Rules struct {
	only   []string // names of the limits that are kept; empty for all
	levels []int

	Made   atomic.Int64 // limits that limiters have registered, kept or not
	others sync.Map     // names of calendar limits that are not kept

	limits sync.Map // of kept by name
	twins  sync.Map // of *twin by *store.Rule, which is a pointer, so that a look-up allocates nothing
	count  atomic.Int64
}

// Kept is a limit that is kept in the book.
type Kept struct {
	Name   string
	days   *store.Rule // whose periods are the days in the limit's time zone
	shards [ShardCount]shard

	Granted, Denied atomic.Int64 // units of requests, for metrics

	mu        sync.Mutex
	rule      store.Rule // as it was declared. Guarded by mu.
	keys      string     // store.Declaration.Keys, or "". Guarded by mu.
	perTenant string     // kind of the tenants of PerTenant, or "". Guarded by mu.
	inUse     bool       // a limiter has registered it. Guarded by mu.
}

// Twin is a rule that is kept, and what the book needs of it.
type Twin struct {
	Rule           *store.Rule // the twin
	Kept           *Kept
	hard, included int64
	levels         []int64 // units from which on each of Config.Levels is reached
}

// Init sets up which limits are kept, and the levels of notices in percent.
func (r *Rules) Init(only []string, levels []int) { r.only, r.levels = only, levels }

// Keeps reports whether a rule is kept.
func (r *Rules) Keeps(rule *store.Rule) bool {
	return rule.Algorithm == store.Calendar && (len(r.only) == 0 || slices.Contains(r.only, rule.Name))
}

// Register learns of a limit, and refuses one that can't be kept.
func (r *Rules) Register(d store.Declaration) error {
	rule := d.Rule
	r.Made.Add(1)
	if !r.Keeps(&rule) {
		if rule.Algorithm == store.Calendar {
			r.others.Store(rule.Name, nil)
		}
		if slices.Contains(r.only, rule.Name) {
			return store.AtLimit(rule.Name, fmt.Errorf("Config.Limits of the book has it, which keeps calendar limits only: it is a %v", rule.Algorithm))
		}
		return nil
	}
	if d.On.Root() == d.On { // and not on that of a book: several can be over one store, as in tests of several processes
		return store.AtLimit(rule.Name, errors.New("its limiter is on the store under a book, where nothing is billed: give it book.Store(); if the book is not to keep this limit, name those that it keeps in quota.Config.Limits"))
	}
	if _, err := counting.LedgerOf(&rule); err != nil {
		return err
	}
	k, err := r.kept(&rule)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rule, k.keys, k.inUse = rule, d.Keys, true
	return nil
}

// Expect learns of a limit whose tenants have numbers of their own, before a limiter has it.
func (r *Rules) Expect(rule *store.Rule, tenants string) error {
	k, err := r.kept(rule)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.perTenant = tenants; k.keys == "" {
		k.keys = tenants
	}
	return nil
}

// Attach learns of a limit that other processes have.
func (r *Rules) Attach(rule *store.Rule, keys string) error {
	k, err := r.kept(rule)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys = keys
	return nil
}

// kept returns the limit of a rule.
func (r *Rules) kept(rule *store.Rule) (*Kept, error) {
	if k, ok := r.limits.Load(rule.Name); ok {
		return k.(*Kept), nil
	}
	days, err := store.NewRule(rule.Name, store.Numbers{
		Algorithm: store.Calendar, Quota: 1, Calendar: store.Period{Unit: store.CalendarDay, Location: rule.Calendar.Location},
	})
	if err != nil {
		return nil, err
	}
	k, _ := r.limits.LoadOrStore(rule.Name, &Kept{Name: rule.Name, days: &days, rule: *rule})
	return k.(*Kept), nil
}

// Named returns the limit of a name, or nil.
func (r *Rules) Named(name string) *Kept {
	if k, ok := r.limits.Load(name); ok {
		return k.(*Kept)
	}
	return nil
}

// Names returns the names of all limits that are kept, in order.
func (r *Rules) Names() []string {
	names := []string{}
	r.Each(func(k *Kept) { names = append(names, k.Name) })
	slices.Sort(names)
	return names
}

// Declared returns the limit's rule.
func (k *Kept) Declared() store.Rule {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rule
}

// Registered reports whether a limiter of this process has the limit.
func (k *Kept) Registered() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.inUse
}

// Known returns the limit's rule, and what its keys are made of.
func (k *Kept) Known() (rule store.Rule, keys string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rule, k.keys
}

// Declaration returns what the ledger keeps of the limit.
func (k *Kept) Declaration() ledger.Declaration {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := ledger.DeclarationOf(&k.rule)
	d.Keys, d.PerTenant = k.keys, k.perTenant != ""
	return d
}

// Twin returns the twin of a rule, or nil if it is not kept.
func (r *Rules) Twin(rule *store.Rule) *Twin {
	if rule == nil || rule.Algorithm != store.Calendar {
		return nil
	}
	if t, ok := r.twins.Load(rule); ok {
		return t.(*Twin)
	}
	if !r.Keeps(rule) {
		return nil
	}
	t := r.Make(rule)
	if t == nil {
		return nil
	}
	if r.count.Load() >= maxTwins { // limiters make rules and drop them, such as those that are scaled
		r.twins.Clear()
		r.count.Store(0)
	}
	if known, loaded := r.twins.LoadOrStore(rule, t); loaded {
		return known.(*Twin)
	}
	r.count.Add(1)
	return t
}

// Make returns a new twin. It returns nil for a rule that can't be kept, which register has
// refused.
func (r *Rules) Make(rule *store.Rule) *Twin {
	booked, err := counting.LedgerOf(rule)
	if err != nil {
		return nil
	}
	k, err := r.kept(rule)
	if err != nil {
		return nil
	}
	t := &Twin{Rule: booked, Kept: k, hard: rule.Quota, included: rule.Quota}
	if rule.Soft > 0 {
		t.included = rule.Soft
	}
	for _, percent := range r.levels {
		t.levels = append(t.levels, ledger.UnitsAt(t.included, percent))
	}
	return t
}

// HaveBegun reports whether a period of a limit has begun so short a time ago that the store can have begun its
// accounts by itself.
func (r *Rules) HaveBegun(now int64) (begun bool) {
	r.limits.Range(func(_, value any) bool {
		rule := value.(*Kept).Declared()
		start, _, _ := rule.Period(now)
		begun = now-start < counting.KeptAfter.Microseconds()
		return !begun
	})
	return begun
}

// LeftOut returns the names of calendar limits that limiters of this process have and the book does not keep, in order.
func (r *Rules) LeftOut() (names []string) {
	r.others.Range(func(name, _ any) bool {
		names = append(names, name.(string))
		return true
	})
	slices.Sort(names)
	return names
}

// Each calls f for each limit that is kept.
func (r *Rules) Each(f func(k *Kept)) {
	r.limits.Range(func(_, value any) bool {
		f(value.(*Kept))
		return true
	})
}
