//go:build moving

package memstore

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"time"
)

// DefaultMaxBuckets is how many buckets a [Memory] holds unless told otherwise.
const DefaultMaxBuckets = 1 << 20

// minBuckets is the least that makes sense of evicting the least used.
const minBuckets = 64

// MemoryConfig sets up a [Memory]. Its zero value is ready to use.
type MemoryConfig struct {
	// MaxBuckets bounds the memory: one bucket, for one key under one limit,
	// takes 48 bytes in a table that is between 7/10 and 7/8 full, so 55 bytes
	// when there are MaxBuckets and at most 69 before. A sliding log, or the slots of a
	// key, count for the memory that they take, which is room for up to twice as many
	// entries as there are: four as one bucket, and three for the log itself. The mark
	// of an operation that is charged once counts as a bucket; one log may exceed a
	// bound that is smaller than it.
	// A key that exceeds a limit with a [Limit.Penalty] takes another bucket there.
	// At least 64. Defaults to DefaultMaxBuckets.
	MaxBuckets int
}

// Memory is a [Store] in this process: exact, and gone with it. Use it for a
// single instance, for tests, or where each instance may have its own quota.
//
// Memory is bounded by MaxBuckets. When there is no room, buckets that are full
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
// A Memory runs no goroutine and has nothing to close. It is safe for
// concurrent use; a call locks only the shards that its keys are in.
type Memory struct {
	Registry

	now     func() int64 // microseconds since the epoch
	seeds   [2]maphash.Seed
	shards  []shard // a power of two of them
	blocked blockedKeys
}

// NewMemory returns an empty store with the default configuration.
func NewMemory() *Memory {
	m, err := NewMemoryWith(MemoryConfig{})
	if err != nil {
		panic(err)
	}
	return m
}

// NewMemoryWith returns an empty store, or an error if MaxBuckets is set below 64.
func NewMemoryWith(config MemoryConfig) (*Memory, error) {
	if config.MaxBuckets == 0 {
		config.MaxBuckets = DefaultMaxBuckets
	}
	if config.MaxBuckets < minBuckets {
		return nil, fmt.Errorf("weblimit: memory store: MaxBuckets must be at least %d, got %d", minBuckets, config.MaxBuckets)
	}
	shards := 1
	for shards < maxShards && config.MaxBuckets/(2*shards) >= minShardBuckets {
		shards *= 2
	}
	m := &Memory{
		now:    monotonicClock(),
		seeds:  [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		shards: make([]shard, shards),
	}
	for i := range m.shards {
		m.shards[i].limit = int32(min(config.MaxBuckets/shards, math.MaxInt32))
		m.shards[i].spare = int32(12 + i%3) // so that not all outgrow their tables at one number of keys
	}
	return m, nil
}

// monotonicClock returns a clock in microseconds since the epoch that only ever goes forward.
func monotonicClock() func() int64 {
	start := time.Now()
	epoch := start.UnixMicro()
	return func() int64 { return epoch + int64(time.Since(start)/time.Microsecond) }
}

// InProcess reports that other processes do not see what is counted here; see
// [Limiter.InProcess].
func (m *Memory) InProcess() bool { return true }

// Take implements [Store]. Its only errors are those of [ValidChecks].
func (m *Memory) Take(_ context.Context, checks []Check, results []Result) error {
	return m.decide(checks, results, true)
}

// Peek implements [Store]. Its only errors are those of [ValidChecks].
func (m *Memory) Peek(_ context.Context, checks []Check, results []Result) error {
	return m.decide(checks, results, false)
}

func (m *Memory) decide(checks []Check, results []Result, take bool) error {
	if err := ValidChecks(checks, results); err != nil {
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

// decideOne is decideAll for a single check, which needs nobody else's answer
// and no more than one lock.
func (m *Memory) decideOne(rule *Rule, key []byte, cost int64, result *Result, take bool) {
	v := visit{alone: true}
	m.locate(&v, rule, key)
	now := m.now()
	v.shard.mu.Lock()
	v.open()
	v.judge(rule, cost, now)
	if take {
		v.settle(rule, cost, now, v.fits)
	}
	v.shard.mu.Unlock()
	rule.answer(cost, &v.reading, result)
}

func (m *Memory) decideAll(checks []Check, results []Result, take bool) {
	pooled := visits.Get().(*[]visit)
	defer visits.Put(pooled)
	// Read before the lock, so that others don't wait for it. Callers may then
	// come with times in another order than they enter: to a bucket that is a
	// clock that steps back, which it bears.
	now := m.now()
	v := m.enter(pooled, checks)
	granted := true
	for i := range v {
		if checks[i].Once != nil {
			v[i].recall(checks[i].Rule, now)
		}
		v[i].judge(checks[i].Rule, v[i].cost(&checks[i]), now)
		if checks[i].Rule.Penalized() {
			v[i].judgePenalty(&checks[i], now)
		}
		granted = granted && (v[i].fits || checks[i].Shadow)
	}
	for i := range v {
		if take {
			v[i].settle(checks[i].Rule, checks[i].Cost, now, granted && v[i].fits)
			if !v[i].fits && checks[i].Rule.Penalized() {
				m.strike(&v[i], &checks[i], now)
			}
		}
		if checks[i].Once == nil || checks[i].Cost == 0 {
			continue
		}
		switch {
		case v[i].reading.Charged:
			v[i].remember(checks[i].Rule, now)
		case take && granted && v[i].fits && v[i].repeated:
			v[i].repeat()
		}
	}
	leave(v)
	for i := range v {
		checks[i].Rule.answer(v[i].cost(&checks[i]), &v[i].reading, &results[i])
		results[i].Repeated = v[i].repeated && results[i].Allowed // or a block holds
	}
}

// Refund implements [Store]. Its only errors are those of [ValidChecks].
func (m *Memory) Refund(_ context.Context, checks []Check, results []Result) error {
	return m.each(checks, results, false, func(i int, v *visit, now int64) bool {
		if results[i].Charged {
			at := checks[i].Rule.ChargedAt(checks[i].Cost, &results[i])
			checks[i].Rule.refund(&v.bucket, now, checks[i].Cost, at)
			if checks[i].Once != nil {
				v.unmark(results[i].At)
			}
		}
		return results[i].Charged
	})
}

// Renew implements [Store]. Its only errors are those of [ValidChecks].
func (m *Memory) Renew(_ context.Context, checks []Check, results []Result) error {
	return m.each(checks, results, true, func(i int, v *visit, now int64) bool {
		rule := checks[i].Rule
		if !results[i].Charged || rule.Algorithm != Concurrency {
			return false
		}
		rule.renewSlots(&v.bucket, now, checks[i].Cost, results[i].At)
		return true
	})
}

// Charge implements [Store]. Its only errors are those of [ValidChecks].
func (m *Memory) Charge(_ context.Context, checks []Check, results []Result) error {
	return m.each(checks, results, true, func(i int, v *visit, now int64) bool {
		checks[i].Rule.chargeAnyway(&v.bucket, now, checks[i].Cost)
		return true
	})
}

// each opens the buckets of checks of which none depends on another, has them
// changed, and stores and answers those for which change reports true: that they
// are charged, or not.
func (m *Memory) each(checks []Check, results []Result, charged bool, change func(i int, v *visit, now int64) bool) error {
	if err := ValidChecks(checks, results); err != nil {
		return err
	}
	if len(checks) == 0 {
		return nil
	}
	pooled := visits.Get().(*[]visit)
	defer visits.Put(pooled)
	v := m.enter(pooled, checks)
	defer leave(v)
	now := m.now()
	for i := range v {
		rule, b := checks[i].Rule, &v[i].bucket
		rule.open(b, now, v[i].offset)
		if !change(i, &v[i], now) {
			continue
		}
		reading := rule.read(b, now, 0)
		reading.Charged = charged
		rule.answer(0, &reading, &results[i])
		v[i].save(rule, now)
	}
	return nil
}

// Reset implements [Store]. It fails only on a check without a rule.
func (m *Memory) Reset(_ context.Context, checks []Check) error {
	for i := range checks {
		if checks[i].Rule == nil {
			return errors.New("weblimit: check without a rule")
		}
		var v visit
		m.locateWithMark(&v, &checks[i])
		v.shard.mu.Lock()
		if at, found := v.shard.find(v.place); found {
			v.shard.remove(at)
		}
		m.forgive(&v, checks[i].Rule)
		if checks[i].Once != nil {
			if at, found := v.shard.find(v.markPlace()); found {
				v.shard.remove(at)
			}
		}
		v.shard.mu.Unlock()
	}
	return nil
}

// enter finds the checks' buckets and locks their shards, each once and in the
// order of their numbers, so that no two calls wait for each other. The limits
// of one key share a shard.
func (m *Memory) enter(pooled *[]visit, checks []Check) []visit {
	v := slices.Grow((*pooled)[:0], len(checks))[:len(checks)]
	*pooled = v
	for i := range v {
		v[i] = visit{}
		m.locateWithMark(&v[i], &checks[i])
	}
	if len(v) == 1 {
		v[0].shard.mu.Lock()
	} else {
		m.lockAll(v)
	}
	for i := range v {
		v[i].open()
	}
	return v
}

func (m *Memory) lockAll(v []visit) {
	for last := -1; ; {
		next := len(m.shards)
		for i := range v {
			if n := v[i].number; n > last && n < next {
				next = n
			}
		}
		if next == len(m.shards) {
			return
		}
		m.shards[next].mu.Lock()
		last = next
	}
}

// leave unlocks what enter locked, and lets go of the logs.
func leave(v []visit) {
	for i := range v {
		seen := false
		for j := range v[:i] {
			seen = seen || v[j].number == v[i].number
		}
		if !seen {
			v[i].shard.mu.Unlock()
		}
		v[i].bucket.log = nil
	}
}
