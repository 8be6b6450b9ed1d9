package memstore

import (
	"bytes"
	"context"
	"hash/maphash"
	"math"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/testclock"
)

// Store is a [store.Store] that keeps its state in this process and loses it when the
// process ends. It counts exactly. Use it for a single instance, for tests, or where
// each instance may have its own quota.
//
// Config.MaxBuckets bounds its memory. When it is full, a new key evicts another:
//
//   - first, buckets that are full again, which hold nothing;
//   - then the buckets that have used the smallest part of their limit. The mark of an
//     operation that is charged once counts as half used;
//   - last, when all clients have nothing left, the bucket that is full again soonest.
//     That client starts with a fresh quota.
//
// Victims are chosen 128 at a time from one shard of some thousand buckets, so a bucket
// that has refilled since the last choice may outlive one that is still in use.
//
// The store keeps no keys but a 96-bit hash of each, whose seed is different in every
// store: nobody can construct two keys that collide.
//
// Its clock is the process's monotonic clock, set to the wall clock when the store is
// made. A step of the wall clock neither grants nor withholds units.
//
// A Store is safe for concurrent use. A call locks only the shards of its keys. The
// store runs no goroutine and has nothing to close.
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
	m.Registry().SetServer(store.Server{InProcess: true, Buckets: m.Len})
	counting.SetRestorer(m, m)
	for i := range m.shards {
		m.shards[i].limit = int32(min(c.MaxBuckets/shards, math.MaxInt32))
		m.shards[i].spare = int16(12 + i%3) // so that not all outgrow their tables at one number of keys
	}
	return m
}

// Len returns the number of buckets in the store, including those that have expired and
// are not yet removed. It locks each shard in turn, so it is safe for concurrent use.
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

// Take implements [store.Store]. Its only errors are those of [counting.ValidChecks] and [counting.ValidChoices].
func (m *Store) Take(_ context.Context, checks []store.Check, results []store.Result) error {
	return m.decide(checks, results, true)
}

// Peek implements [store.Store]. Its only errors are those of [counting.ValidChecks] and [counting.ValidChoices].
func (m *Store) Peek(_ context.Context, checks []store.Check, results []store.Result) error {
	return m.decide(checks, results, false)
}

func (m *Store) decide(checks []store.Check, results []store.Result, take bool) error {
	if err := counting.ValidChecks(checks, results); err != nil {
		return err
	}
	switch {
	case len(checks) == 0:
	case len(checks) == 1 && checks[0].Once == nil && !checks[0].Or && checks[0].Account == nil && checks[0].Share == nil && !checks[0].Rule.Penalized():
		m.decideOne(checks[0].Rule, checks[0].Key, checks[0].Cost, &results[0], take)
	default:
		if err := counting.ValidChoices(checks); err != nil {
			return err
		}
		m.decideAll(checks, results, take)
	}
	return nil
}

// TakeOne is Take for a single check without validation: the fast path of a limiter with
// one limit, which saves more than a tenth of its time. The rule must have neither Once nor a penalty,
// and cost must not be negative. It writes the answer to result, and is safe for
// concurrent use.
func (m *Store) TakeOne(rule *store.Rule, key []byte, cost int64, result *store.Result) {
	m.decideOne(rule, key, cost, result, true)
}

// decideOne decides a check that has one record, its bucket: on the stack, under one
// lock.
func (m *Store) decideOne(rule *store.Rule, key []byte, cost int64, result *store.Result, take bool) {
	var at location
	var s counting.State
	m.locate(&at, rule, key)
	offset, now := counting.Offset(rule, key), m.now()
	at.shard.mu.Lock()
	now = m.time(at.shard, now)
	if at.shard.manual && cost > 0 && at.isBlocked(now) {
		at.shard.mu.Unlock()
		*result = m.decideBlocked(rule, key, cost, take)
		return
	}
	at.index, at.found = at.shard.get(at.place, &s.Bucket)
	if fits := s.Judge(rule, cost, now, offset); take && s.Commit(rule, cost, now, fits) {
		at.put(&s.Bucket, rule, now)
	}
	at.shard.mu.Unlock()
	s.Answer(rule, cost, result)
}

// decideBlocked is decideOne of a key that is blocked by hand.
func (m *Store) decideBlocked(rule *store.Rule, key []byte, cost int64, take bool) store.Result {
	var results [1]store.Result
	m.decideAll([]store.Check{{Key: bytes.Clone(key), Rule: rule, Cost: cost}}, results[:], take) // a copy, so that key stays on the stack
	return results[0]
}

func (m *Store) decideAll(checks []store.Check, results []store.Result, take bool) {
	c := calls.Get().(*call)
	defer calls.Put(c)
	now := m.enter(c, checks)
	counting.Decide(now, checks, c.states, take)
	m.leave(c, checks, now)
	counting.Answer(checks, c.states, results)
}

// Charge implements [store.Store]. Its only errors are those of [counting.ValidChecks].
func (m *Store) Charge(_ context.Context, checks []store.Check, results []store.Result) error {
	return m.each(checks, results, counting.Charge)
}

// Refund implements [store.Store]. Its only errors are those of [counting.ValidChecks].
func (m *Store) Refund(_ context.Context, checks []store.Check, results []store.Result) error {
	return m.each(checks, results, counting.Refund)
}

// Renew implements [store.Store]. Its only errors are those of [counting.ValidChecks].
func (m *Store) Renew(_ context.Context, checks []store.Check, results []store.Result) error {
	return m.each(checks, results, counting.Renew)
}

// Reset implements [store.Store]. Its only errors are those of [counting.ValidKeys].
func (m *Store) Reset(_ context.Context, checks []store.Check) error {
	if err := counting.ValidKeys(checks); err != nil {
		return err
	}
	m.update(checks, func(_ int64, states []counting.State) { counting.Reset(checks, states) })
	return nil
}

// each has change update the states of checks and answer them.
func (m *Store) each(checks []store.Check, results []store.Result, change func(int64, []store.Check, []counting.State, []store.Result)) error {
	if err := counting.ValidChecks(checks, results); err != nil {
		return err
	}
	m.update(checks, func(now int64, states []counting.State) { change(now, checks, states, results) })
	return nil
}

// update reads the states of checks, calls change, and stores what has changed.
func (m *Store) update(checks []store.Check, change func(now int64, states []counting.State)) {
	if len(checks) == 0 {
		return
	}
	c := calls.Get().(*call)
	defer calls.Put(c)
	now := m.enter(c, checks)
	change(now, c.states)
	m.leave(c, checks, now)
}
