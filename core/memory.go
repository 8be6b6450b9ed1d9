package core

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"
)

// DefaultMaxBuckets is how many buckets a [Memory] holds unless told otherwise.
const DefaultMaxBuckets = 1 << 20

// minBuckets is the least that makes sense of evicting the least used.
const minBuckets = 64

// MemoryConfig sets up a [Memory]. Its zero value is ready to use.
type MemoryConfig struct {
	// MaxBuckets bounds the memory: one bucket, for one key under one limit,
	// takes 64 bytes in a table that is between 7/16 and 7/8 full. Four entries
	// of a sliding log count as one bucket; one log may exceed a bound that is
	// smaller than it. At least 64. Defaults to DefaultMaxBuckets.
	MaxBuckets int
}

// Memory is a [Store] in this process: exact, and gone with it. Use it for a
// single instance, for tests, or where each instance may have its own quota.
//
// Memory is bounded by MaxBuckets. When there is no room, buckets that are full
// again go first, for they hold nothing; then those that have used the least of
// their limit. A client that has nothing left keeps its bucket until there are
// only such clients; then the one that is nearest to being served again loses
// its bucket, and starts with a fresh one. Keys are known by a 96-bit hash that
// is seeded anew in each store, so nobody can construct two that collide.
//
// Time is the process's monotonic clock, begun at the wall clock when the store
// was made: a step of the wall clock neither grants nor withholds units.
//
// A Memory runs no goroutine and has nothing to close. It is safe for
// concurrent use; a call locks only the shards (up to 256) that its keys are in.
type Memory struct {
	Registry

	now    func() int64 // microseconds since the epoch
	seeds  [2]maphash.Seed
	shards []shard // a power of two of them
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
	for shards < 256 && config.MaxBuckets/(2*shards) >= minShardBuckets {
		shards *= 2
	}
	m := &Memory{
		now:    monotonicClock(),
		seeds:  [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		shards: make([]shard, shards),
	}
	for i := range m.shards {
		m.shards[i].limit = config.MaxBuckets / shards
	}
	return m, nil
}

// monotonicClock returns a clock in microseconds since the epoch that only ever goes forward.
func monotonicClock() func() int64 {
	start := time.Now()
	epoch := start.UnixMicro()
	return func() int64 { return epoch + int64(time.Since(start)/time.Microsecond) }
}

// Take implements [Store]. Its only errors are those of [ValidChecks].
func (m *Memory) Take(_ context.Context, checks []Check, results []Result) error {
	return m.decide(checks, results, true)
}

// Peek implements [Store]. Its only errors are those of [ValidChecks].
func (m *Memory) Peek(_ context.Context, checks []Check, results []Result) error {
	return m.decide(checks, results, false)
}

// visit is a check on its way through a call: where its bucket is and what it holds.
type visit struct {
	place
	number    int // of the shard
	shard     *shard
	bucket    bucket
	reading   Reading
	fits      bool
	converted bool
}

// save stores the bucket, or nothing if it is worth nothing.
func (v *visit) save(rule *Rule, now int64) {
	if v.bucket.unused() {
		v.shard.remove(&v.place)
		return
	}
	v.shard.put(&v.place, &v.bucket, rule.Burst, now)
}

// visits are reused, since a call has to look at all its buckets before it may
// change any of them.
var visits = sync.Pool{New: func() any { return new([]visit) }}

func (m *Memory) decide(checks []Check, results []Result, take bool) error {
	if err := ValidChecks(checks, results); err != nil {
		return err
	}
	if len(checks) == 0 {
		return nil
	}
	pooled := visits.Get().(*[]visit)
	defer visits.Put(pooled)
	// Read before the lock, so that others don't wait for it. Callers may then
	// come with times in another order than they enter: to a bucket that is a
	// clock that steps back, which it bears.
	now := m.now()
	v := m.enter(pooled, checks)
	visitAll(v, checks, now, take)
	leave(v)
	for i := range v {
		results[i] = checks[i].Rule.Result(checks[i].Cost, v[i].reading)
	}
	return nil
}

// visitAll decides the checks whose buckets v has, and charges them if take.
func visitAll(v []visit, checks []Check, now int64, take bool) {
	granted := take
	for i := range v {
		rule := checks[i].Rule
		v[i].converted = rule.open(&v[i].bucket, now, rule.Offset(checks[i].Key))
		v[i].reading = rule.read(&v[i].bucket, now, checks[i].Cost)
		v[i].fits = rule.fits(checks[i].Cost, &v[i].reading)
		granted = granted && (v[i].fits || checks[i].Shadow)
	}
	if !take {
		return
	}
	for i := range v {
		rule, cost := checks[i].Rule, checks[i].Cost
		charged := granted && v[i].fits
		if charged {
			rule.charge(&v[i].bucket, now, cost)
			v[i].reading = rule.read(&v[i].bucket, now, cost)
			v[i].reading.Charged = true
		}
		if v[i].converted || charged && cost > 0 {
			v[i].save(rule, now)
		}
	}
}

// Refund implements [Store]. Its only errors are those of [ValidChecks].
func (m *Memory) Refund(_ context.Context, checks []Check, results []Result) error {
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
		if !results[i].Charged {
			continue
		}
		rule, cost, b := checks[i].Rule, checks[i].Cost, &v[i].bucket
		rule.open(b, now, rule.Offset(checks[i].Key))
		rule.refund(b, now, cost, results[i].At)
		results[i] = rule.Result(0, rule.read(b, now, 0))
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
		p := m.place(&checks[i])
		s := &m.shards[m.number(&p)]
		s.mu.Lock()
		s.remove(&p)
		s.mu.Unlock()
	}
	return nil
}

func (m *Memory) place(c *Check) place {
	return place{
		hash:  maphash.Bytes(m.seeds[0], c.Key),
		check: uint32(maphash.Bytes(m.seeds[1], c.Key)),
		id:    c.Rule.id,
	}
}

// enter finds the checks' buckets and locks their shards, each once and in the
// order of their numbers, so that no two calls wait for each other. The limits
// of one key share a shard.
func (m *Memory) enter(pooled *[]visit, checks []Check) []visit {
	v := (*pooled)[:0]
	for i := range checks {
		p := m.place(&checks[i])
		number := m.number(&p)
		v = append(v, visit{place: p, number: number, shard: &m.shards[number]})
	}
	*pooled = v
	if len(v) == 1 {
		v[0].shard.mu.Lock()
	} else {
		m.lockAll(v)
	}
	for i := range v {
		v[i].shard.get(&v[i].place, &v[i].bucket)
	}
	return v
}

func (m *Memory) number(p *place) int { return int(p.hash>>32) & (len(m.shards) - 1) }

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
