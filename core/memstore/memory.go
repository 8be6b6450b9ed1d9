package memstore

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/testclock"
)

// DefaultMaxBuckets is how many buckets a [Store] holds unless told otherwise.
const DefaultMaxBuckets = 1 << 20

// minBuckets is the least that makes sense of evicting the least used.
const minBuckets = 64

// Store is a [store.Store] in this process: exact, and gone with it. Use it for a
// single instance, for tests, or where each instance may have its own quota.
//
// A Store is bounded by [MaxBuckets]. When there is no room, buckets that are full
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

// Option changes how a [Store] is set up.
type Option func(*config)

type config struct{ maxBuckets int }

// MaxBuckets bounds the memory: one bucket, for one key under one limit, takes 48
// bytes in a table that is between 7/10 and 7/8 full, so 55 bytes when there are n
// and at most 69 before. A sliding log, or the slots of a key, count for the memory that
// they take, which is room for up to twice as many entries as there are: four as one
// bucket, and three for the log itself. The mark of an operation that is charged once
// counts as a bucket; one log may exceed a bound that is smaller than it. A key that
// exceeds a limit with a penalty takes another bucket there. It panics if n is below 64. Defaults to
// DefaultMaxBuckets.
func MaxBuckets(n int) Option {
	if n < minBuckets {
		panic(fmt.Sprintf("weblimit: memstore.MaxBuckets: there must be room for %d, got %d", minBuckets, n))
	}
	return func(c *config) { c.maxBuckets = n }
}

// New returns an empty store.
func New(options ...Option) *Store {
	c := config{maxBuckets: DefaultMaxBuckets}
	for _, option := range options {
		option(&c)
	}
	shards := 1
	for shards < maxShards && c.maxBuckets/(2*shards) >= minShardBuckets {
		shards *= 2
	}
	m := &Store{
		now:    monotonicClock(),
		seeds:  [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		shards: make([]shard, shards),
	}
	m.Registry().SetInProcess()
	for i := range m.shards {
		m.shards[i].limit = int32(min(c.maxBuckets/shards, math.MaxInt32))
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
