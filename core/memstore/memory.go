package memstore

import (
	"context"
	"errors"
	"hash/maphash"
	"math"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/testclock"
)

// Store is a [store.Store] in this process: exact, and gone with it. Use it for a
// single instance, for tests, or where each instance may have its own quota.
//
// A Store is bounded by Config.MaxBuckets. When there is no room, buckets that are full
// again go first, for they hold nothing; then those that have used the least of
// their limit, where the mark of an operation counts as half used. A client that
// has nothing left keeps its bucket until there are only such clients; then the one
// that is nearest to being full again loses its bucket, and starts with a fresh
// one. Who goes is sought among some thousand buckets, for 128 new keys at a time:
// a bucket that time alone has refilled since then is not yet known for it. Keys
// are known by a 96-bit hash that is seeded anew in each store, so nobody can
// construct two that collide.
//
// Time is the process's monotonic clock, begun at the wall clock when the store
// was made: a step of the wall clock neither grants nor withholds units.
//
// A Store runs no goroutine and has nothing to close. It is safe for
// concurrent use; a call locks only the shards that its keys are in.
type Store struct {
	store.Base

	now     func() int64 // microseconds since the epoch
	seeds   [2]maphash.Seed
	shards  []shard // a power of two of them
	blocked blockedKeys
}

var _ store.Store = (*Store)(nil)

// New returns an empty store. It panics if there is more than one Config, or if the
// Config holds a value that makes no sense; its fields say which.
func New(config ...Config) *Store {
	if len(config) > 1 {
		panic("weblimit: memstore.New: more than one Config")
	}
	var c Config
	if len(config) == 1 {
		c = config[0]
	}
	c = c.validate()
	shards := 1
	for shards < maxShards && c.MaxBuckets/(2*shards) >= minShardBuckets {
		shards *= 2
	}
	m := &Store{
		now:    monotonicClock(),
		seeds:  [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		shards: make([]shard, shards),
	}
	m.Registry().SetInProcess()
	for i := range m.shards {
		m.shards[i].limit = int32(min(c.MaxBuckets/shards, math.MaxInt32))
		m.shards[i].spare = int32(12 + i%3) // so that not all outgrow their tables at one number of keys
	}
	return m
}

// Len returns how many buckets the store holds, those among them that have expired
// and were not dropped yet.
func (m *Store) Len() int {
	n := 0
	for i := range m.shards {
		m.shards[i].mu.Lock()
		n += int(m.shards[i].count)
		m.shards[i].mu.Unlock()
	}
	return n
}

func init() {
	testclock.Set = func(store any, now func() int64) { store.(*Store).now = now }
}

// monotonicClock returns a clock in microseconds since the epoch that only ever goes forward.
func monotonicClock() func() int64 {
	start := time.Now()
	epoch := start.UnixMicro()
	return func() int64 { return epoch + int64(time.Since(start)/time.Microsecond) }
}

// time returns the time at which a call decides in a shard that it has locked. now is
// what it read of the clock before: under the lock, reading would take 10 % of a
// decision, and longer where others wait. So calls may enter in another order than they
// read the clock, and one that comes later with an earlier time would be denied what has
// drained in between. It reads the clock again.
func (m *Store) time(s *shard, now int64) int64 {
	if now < s.latest {
		now = m.now()
	}
	s.latest = now
	return now
}

// Take implements [store.Store]. Its only errors are those of [store.ValidChecks].
func (m *Store) Take(_ context.Context, checks []store.Check, results []store.Result) error {
	return m.decide(checks, results, true)
}

// Peek implements [store.Store]. Its only errors are those of [store.ValidChecks].
func (m *Store) Peek(_ context.Context, checks []store.Check, results []store.Result) error {
	return m.decide(checks, results, false)
}

func (m *Store) decide(checks []store.Check, results []store.Result, take bool) error {
	if err := store.ValidChecks(checks, results); err != nil {
		return err
	}
	switch {
	case len(checks) == 0:
	case len(checks) == 1 && checks[0].Once == nil && !checks[0].Rule.Penalized(): // or there is a second bucket
		m.decideOne(checks[0].Rule, checks[0].Key, checks[0].Cost, &results[0], take)
	default:
		m.decideAll(checks, results, take)
	}
	return nil
}

// TakeOne is Take for a single check that has neither an operation's key nor a
// penalty, and whose cost is not negative: the fast path of a limiter that has but
// one limit. It needs nobody else's answer, and no more than one lock.
func (m *Store) TakeOne(rule *store.Rule, key []byte, cost int64, result *store.Result) {
	m.decideOne(rule, key, cost, result, true)
}

// decideOne is decideAll for such a check.
func (m *Store) decideOne(rule *store.Rule, key []byte, cost int64, result *store.Result, take bool) {
	var at location
	var s store.State
	m.locate(&at, rule, key)
	offset, now := rule.Offset(key), m.now()
	at.shard.mu.Lock()
	now = m.time(at.shard, now)
	at.index, at.found = at.shard.get(at.place, &s.Bucket)
	if fits := s.Judge(rule, cost, now, offset); take && s.Settle(rule, cost, now, fits) {
		at.put(&s.Bucket, rule, now)
	}
	at.shard.mu.Unlock()
	s.Answer(rule, cost, result)
}

func (m *Store) decideAll(checks []store.Check, results []store.Result, take bool) {
	c := calls.Get().(*call)
	defer calls.Put(c)
	now := m.enter(c, checks)
	store.Decide(now, checks, c.states, take)
	m.leave(c, checks, now)
	store.Answer(checks, c.states, results)
}

// Charge implements [store.Store]. Its only errors are those of [store.ValidChecks].
func (m *Store) Charge(_ context.Context, checks []store.Check, results []store.Result) error {
	return m.each(checks, results, store.Charge)
}

// Refund implements [store.Store]. Its only errors are those of [store.ValidChecks].
func (m *Store) Refund(_ context.Context, checks []store.Check, results []store.Result) error {
	return m.each(checks, results, store.Refund)
}

// Renew implements [store.Store]. Its only errors are those of [store.ValidChecks].
func (m *Store) Renew(_ context.Context, checks []store.Check, results []store.Result) error {
	return m.each(checks, results, store.Renew)
}

// each changes the states of checks of which none depends on another.
func (m *Store) each(checks []store.Check, results []store.Result, change func(int64, []store.Check, []store.State, []store.Result)) error {
	if err := store.ValidChecks(checks, results); err != nil {
		return err
	}
	if len(checks) == 0 {
		return nil
	}
	c := calls.Get().(*call)
	defer calls.Put(c)
	now := m.enter(c, checks)
	change(now, checks, c.states, results)
	m.leave(c, checks, now)
	return nil
}

// Reset implements [store.Store]. It fails only on a check without a rule.
func (m *Store) Reset(_ context.Context, checks []store.Check) error {
	for i := range checks {
		if checks[i].Rule == nil {
			return errors.New("weblimit: check without a rule")
		}
		var at location
		m.locateWithMark(&at, &checks[i])
		at.shard.mu.Lock()
		at.shard.forget(at.place)
		m.forgive(&at, checks[i].Rule)
		if checks[i].Once != nil {
			at.shard.forget(at.markPlace())
		}
		at.shard.mu.Unlock()
	}
	return nil
}
