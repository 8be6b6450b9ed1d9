package quota

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/quota/internal/delivery"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/terms"
)

const (
	// tenantShards is the number of parts of a limit's cached allowances, each with a lock of its
	// own.
	tenantShards = 32

	// maxTenants bounds the cached allowances of a shard.
	maxTenants = 8192

	// loadBatch bounds the tenants that the ledger is asked for at a time, and maxLoading those
	// that wait.
	loadBatch  = 500
	maxLoading = 20_000

	// deafFor is how old an allowance may be while changes are not heard of.
	deafFor = time.Second

	// listenAgain is how long to wait before listening again, more or less a half, and twice as long after each
	// failure, up to listenAtLast: a fleet that lost its connections together does not come back together.
	listenAgain  = 500 * time.Millisecond
	listenAtLast = 15 * time.Second
)

// PerTenant returns a limit of which each tenant has its own numbers: those of its plan or
// override, and its credits and adjustments. A tenant without a plan has those of limit: its soft
// limit as the units that are included, and its quota as the hard limit.
//
// The limit must be a calendar limit, one of Config.Limits if those are set, and its limiter must be
// on [Book.Store]: [core.New] fails otherwise. Its key becomes tenant, which is what
// the other methods of the book mean by a tenant. PerTenant takes the place of [core.Limit.By] and
// [core.Limit.Tiers]; limits asked by [core.Limiter.AllowKey] have no request and so limit's own numbers.
//
// The numbers are cached in the process, with those of the next period. Changes by any process are in force within a second.
// The first request of a tenant waits for the ledger, for 100 ms at most; one at the beginning of a period does
// not. If the ledger does not answer, the last numbers that are known apply, and without any those of limit.
// A tenant with credits begins a period with those that were left when this process has asked last, in the
// hour before at the latest, until the ledger answers.
func (b *Book) PerTenant(limit core.Limit, tenant keyfuncs.Func) core.Limit {
	limit = limit.By(tenant)
	rule, err := limit.Rule()
	if err != nil || tenant.Err() != nil {
		return limit // core.New says what is wrong with it
	}
	limit = compose.ForStore(limit, func(s core.Store) error { return b.counts(&rule, s) })
	if !b.rules.Keeps(&rule) || b.attached != nil {
		return limit
	}
	if err := b.rules.Expect(&rule, tenant.Kind()); err != nil {
		return compose.ForStore(limit, func(core.Store) error { return err })
	}
	p := &perTenant{book: b, rule: rule, seed: maphash.MakeSeed()}
	b.tenants.register(p)
	return limit.Tiers(func(r keyfuncs.Request) core.Limit {
		buf := buffers.Get().(*[]byte)
		defer buffers.Put(buf)
		key, presence := tenant.Append((*buf)[:0], r)
		*buf = key[:0]
		if presence != keyfuncs.Present {
			return core.Limit{}
		}
		return p.limit(r.Context(), key)
	})
}

// counts returns an error for a limit of PerTenant whose use would not be in the book.
func (b *Book) counts(rule *store.Rule, s core.Store) error {
	switch {
	case b.attached != nil:
		return errAttached
	case rule.Algorithm != store.Calendar:
		return fmt.Errorf("PerTenant needs a limit with periods that can be billed, such as PerMonth, PerBillingMonth or PerCalendarDay: this is a %v", rule.Algorithm)
	case !b.rules.Keeps(rule):
		return fmt.Errorf("Config.Limits of its book leaves it out, so nothing of it is billed: add %q there", rule.Name)
	case s == nil || s.Registry() != b.store.registry:
		return errors.New("it is a book's, by PerTenant, and its limiter is on another store, where nothing is billed: give it book.Store()")
	}
	return nil
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 256); return &b }}

// perTenant caches the allowances of tenants under one limit.
type perTenant struct {
	book   *Book
	rule   store.Rule
	seed   maphash.Seed
	shards [tenantShards]tenantShard
}

type tenantShard struct {
	mu      sync.RWMutex
	entries map[string]*tenantEntry // by key. Guarded by mu.
}

// limit returns the limit of a tenant with its own numbers.
func (p *perTenant) limit(ctx context.Context, key []byte) core.Limit {
	s := &p.shards[maphash.Bytes(p.seed, key)%tenantShards]
	s.mu.RLock()
	e := s.entries[string(key)]
	s.mu.RUnlock()
	now := time.Now()
	if e != nil && p.book.tenants.isFresh(e, now) {
		if e.isDue(now) {
			p.book.tenants.enqueue(loadID{p, string(key)}) // nobody waits for it
		}
		return e.at(now)
	}
	if loaded := p.book.tenants.load(ctx, p, key); loaded != nil {
		return loaded.at(now)
	}
	if e != nil {
		return e.at(now)
	}
	return core.Limit{} // the limit's own numbers
}

// put caches an allowance.
func (p *perTenant) put(key string, e *tenantEntry) {
	s := &p.shards[maphash.String(p.seed, key)%tenantShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries == nil {
		s.entries = make(map[string]*tenantEntry)
	}
	if _, known := s.entries[key]; !known && len(s.entries) >= maxTenants {
		for other := range s.entries { // any
			delete(s.entries, other)
			break
		}
	}
	s.entries[key] = e
}

// expire has a tenant's allowance loaded again.
func (p *perTenant) expire(key string) {
	s := &p.shards[maphash.String(p.seed, key)%tenantShards]
	s.mu.RLock()
	defer s.mu.RUnlock()
	if e := s.entries[key]; e != nil {
		e.stale.Store(true)
	}
}

// own are the numbers of tenants without a plan.
func ownTerms(r *store.Rule) terms.Terms {
	t := terms.Terms{Included: r.Quota, Hard: r.Quota}
	if r.Soft > 0 {
		t.Included = r.Soft
	}
	return t
}

// limitOf returns the numbers of an allowance.
func limitOf(a *terms.Allowance, period store.Period) core.Limit {
	l := core.PerBillingMonth(a.Hard, period.Day, period.Location)
	if period.Unit == store.CalendarDay {
		l = core.PerCalendarDay(a.Hard, period.Location)
	}
	if units := a.Units(); units > 0 && units < a.Hard {
		l = l.Soft(units)
	}
	return l
}

// tenants loads the allowances of all limits, and hears of changes.
type tenants struct {
	book  *Book
	epoch atomic.Int64 // allowances of earlier ones are loaded again
	deaf  atomic.Bool  // changes by other processes are not heard of

	line[loadID, *loading]
	limits map[string][]*perTenant // by name. Guarded by mu.
	retry  time.Time               // when the ledger may be asked again after an error. Guarded by mu.
}

// loadID names an allowance.
type loadID struct {
	limit *perTenant
	key   string
}

// loading is an allowance on its way. entry is set before done is closed, or nil after an error.
type loading struct {
	id    loadID
	done  chan struct{}
	entry *tenantEntry
}

func (l *loading) about() loadID { return l.id }
func (l *loading) end()          { close(l.done) }

func (t *tenants) init(b *Book) {
	t.book = b
	t.limits = make(map[string][]*perTenant)
	t.deaf.Store(true)
}

func (t *tenants) register(p *perTenant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limits[p.rule.Name] = append(t.limits[p.rule.Name], p)
}

// isFresh reports whether an allowance is what the ledger says.
func (t *tenants) isFresh(e *tenantEntry, now time.Time) bool {
	return !e.stale.Load() && e.epoch == t.epoch.Load() && now.Before(e.until) && (!t.deaf.Load() || now.Sub(e.loaded) < deafFor)
}

// changed notes that the allowance of a tenant has changed, or of all.
func (t *tenants) changed(limit, tenant string) {
	key, known := ledger.KeyOf(tenant)
	if tenant == "" || !known {
		t.epoch.Add(1)
		return
	}
	t.mu.Lock()
	limits := t.limits[limit]
	t.epochOf(limit, string(key))
	t.mu.Unlock()
	for _, p := range limits {
		p.expire(string(key))
	}
}

// epochOf has an allowance that is on its way loaded again: it may be the one before the change.
// t.mu is held.
func (t *tenants) epochOf(limit, key string) {
	for _, p := range t.limits[limit] {
		if t.pending[loadID{p, key}] != nil {
			t.epoch.Add(1)
			return
		}
	}
}

// listen hears of changes until ctx is done.
func (t *tenants) listen(ctx context.Context) {
	for pause := listenAgain; ctx.Err() == nil; pause = min(2*pause, listenAtLast) {
		_ = t.book.ledger.Listen(ctx, func() {
			pause = listenAgain
			t.epoch.Add(1) // what has changed meanwhile was not heard of
			t.deaf.Store(false)
		}, t.changed)
		t.deaf.Store(true)
		select {
		case <-ctx.Done():
		case <-time.After(delivery.Around(pause)):
		}
	}
}

// load loads an allowance, together with those that others wait for. It returns nil if the
// ledger does not answer in time.
func (t *tenants) load(ctx context.Context, p *perTenant, key []byte) *tenantEntry {
	l := t.enqueue(loadID{p, string(key)})
	if l == nil {
		return nil
	}
	timer := time.NewTimer(t.book.patience.load)
	defer timer.Stop()
	select {
	case <-l.done:
		return l.entry
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

func (t *tenants) enqueue(id loadID) *loading {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isSlow(t.book.patience.load) || time.Now().Before(t.retry) || len(t.queue) >= maxLoading {
		return nil // the ledger is away
	}
	if l := t.pending[id]; l != nil {
		return l
	}
	l := &loading{id: id, done: make(chan struct{})}
	t.add(l)
	t.start(1, t.next, t.ask)
	return l
}

// next takes a batch of one limit from the queue. t.mu is held.
func (t *tenants) next() (batch []*loading) {
	var rest []*loading
	for _, l := range t.queue {
		if len(batch) < loadBatch && (len(batch) == 0 || l.id.limit == batch[0].id.limit) {
			batch = append(batch, l)
		} else {
			rest = append(rest, l)
		}
	}
	t.queue = rest
	return batch
}

// ask asks the ledger, and caches the answers.
func (t *tenants) ask(batch []*loading) {
	epoch := t.epoch.Load() // before the ledger is asked
	ctx, cancel := context.WithTimeout(context.Background(), t.book.config.Timeout)
	defer cancel()
	p := batch[0].id.limit
	names := make([]string, len(batch))
	for i, l := range batch {
		names[i] = ledger.TextOf([]byte(l.id.key))
	}
	asked := time.Now()
	all, err := t.book.ledger.Facts(ctx, p.rule.Name, names)
	if err != nil {
		t.book.health.failed(asked, err)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.retry = time.Now().Add(probeEvery)
		return
	}
	t.book.health.worked()
	for i, l := range batch {
		l.entry = p.entry(all[names[i]], epoch)
		p.put(l.id.key, l.entry)
	}
}
