package quota

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/quota/internal/ledger"
)

// maxTwins bounds the rules whose twins are remembered. An application has a handful, and
// limiters make further ones for tenants with numbers of their own.
const maxTwins = 1 << 14

// rules are the limits that are kept, and the twins of their rules.
type rules struct {
	only   []string // names of the limits that are kept; empty for all
	levels []int

	made   atomic.Int64 // limits that limiters have registered, kept or not
	others sync.Map     // names of calendar limits that are not kept

	limits sync.Map // of kept by name
	twins  sync.Map // of *twin by *store.Rule, which is a pointer, so that a look-up allocates nothing
	count  atomic.Int64
}

// kept is a limit that is kept in the book.
type kept struct {
	name   string
	days   *store.Rule // whose periods are the days in the limit's time zone
	shards [shardCount]shard

	granted, denied atomic.Int64 // units of requests, for metrics

	mu        sync.Mutex
	rule      store.Rule // as it was declared. Guarded by mu.
	keys      string     // store.Declaration.Keys, or "". Guarded by mu.
	perTenant string     // kind of the tenants of PerTenant, or "". Guarded by mu.
	inUse     bool       // a limiter has registered it. Guarded by mu.
}

// twin is a rule that is kept, and what the book needs of it.
type twin struct {
	rule           *store.Rule // the twin
	kept           *kept
	hard, included int64
	levels         []int64 // units from which on each of Config.Levels is reached
}

func (r *rules) init(only []string, levels []int) { r.only, r.levels = only, levels }

// keeps reports whether a rule is kept.
func (r *rules) keeps(rule *store.Rule) bool {
	return rule.Algorithm == store.Calendar && (len(r.only) == 0 || slices.Contains(r.only, rule.Name))
}

// register learns of a limit, and refuses one that can't be kept.
func (r *rules) register(d store.Declaration) error {
	rule := d.Rule
	r.made.Add(1)
	if !r.keeps(&rule) {
		if rule.Algorithm == store.Calendar {
			r.others.Store(rule.Name, nil)
		}
		if slices.Contains(r.only, rule.Name) {
			return fmt.Errorf("weblimit: limit %q: Config.Limits of the book has it, which keeps calendar limits only: it is a %v", rule.Name, rule.Algorithm)
		}
		return nil
	}
	if d.On.Root() == d.On { // and not on that of a book: several can be over one store, as in tests of several processes
		return fmt.Errorf("weblimit: limit %q: its limiter is on the store under a book, where nothing is billed: give it book.Store(); if the book is not to keep this limit, name those that it keeps in quota.Config.Limits", rule.Name)
	}
	if _, err := rule.Ledger(); err != nil {
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

// expect learns of a limit whose tenants have numbers of their own, before a limiter has it.
func (r *rules) expect(rule *store.Rule, tenants string) error {
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

// attach learns of a limit that other processes have.
func (r *rules) attach(rule *store.Rule, keys string) error {
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
func (r *rules) kept(rule *store.Rule) (*kept, error) {
	if k, ok := r.limits.Load(rule.Name); ok {
		return k.(*kept), nil
	}
	days, err := store.NewRule(rule.Name, store.Numbers{
		Algorithm: store.Calendar, Quota: 1, Calendar: store.Period{Unit: store.CalendarDay, Location: rule.Calendar.Location},
	})
	if err != nil {
		return nil, err
	}
	k, _ := r.limits.LoadOrStore(rule.Name, &kept{name: rule.Name, days: &days, rule: *rule})
	return k.(*kept), nil
}

// named returns the limit of a name, or nil.
func (r *rules) named(name string) *kept {
	if k, ok := r.limits.Load(name); ok {
		return k.(*kept)
	}
	return nil
}

// names returns the names of all limits that are kept, in order.
func (r *rules) names() []string {
	names := []string{}
	r.limits.Range(func(name, _ any) bool {
		names = append(names, name.(string))
		return true
	})
	slices.Sort(names)
	return names
}

// declared returns the limit's rule.
func (k *kept) declared() store.Rule {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rule
}

// registered reports whether a limiter of this process has the limit.
func (k *kept) registered() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.inUse
}

// known returns what changes and statements need of the limit.
func (k *kept) known() *knownLimit {
	k.mu.Lock()
	defer k.mu.Unlock()
	return &knownLimit{name: k.name, rule: k.rule, keys: k.keys}
}

// declaration returns what the ledger keeps of the limit.
func (k *kept) declaration() ledger.Declaration {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := ledger.DeclarationOf(&k.rule)
	d.Keys, d.PerTenant = k.keys, k.perTenant != ""
	return d
}

// twin returns the twin of a rule, or nil if it is not kept.
func (r *rules) twin(rule *store.Rule) *twin {
	if rule == nil || rule.Algorithm != store.Calendar {
		return nil
	}
	if t, ok := r.twins.Load(rule); ok {
		return t.(*twin)
	}
	if !r.keeps(rule) {
		return nil
	}
	t := r.make(rule)
	if t == nil {
		return nil
	}
	if r.count.Load() >= maxTwins { // limiters make rules and drop them, such as those that are scaled
		r.twins.Clear()
		r.count.Store(0)
	}
	if known, loaded := r.twins.LoadOrStore(rule, t); loaded {
		return known.(*twin)
	}
	r.count.Add(1)
	return t
}

// make returns a new twin. It returns nil for a rule that can't be kept, which register has
// refused.
func (r *rules) make(rule *store.Rule) *twin {
	booked, err := rule.Ledger()
	if err != nil {
		return nil
	}
	k, err := r.kept(rule)
	if err != nil {
		return nil
	}
	t := &twin{rule: booked, kept: k, hard: rule.Quota, included: rule.Quota}
	if rule.Soft > 0 {
		t.included = rule.Soft
	}
	for _, percent := range r.levels {
		t.levels = append(t.levels, ledger.UnitsAt(t.included, percent))
	}
	return t
}
