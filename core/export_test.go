package core

import "unsafe"

// ResetAdvice makes the process forget which advice was logged. Tests that call
// it are not parallel: those that are wait until they are done.
func ResetAdvice() { given.Clear() }

// MaxWarned bounds what a limiter remembers of warnings.
const MaxWarned = maxWarned

// Warned returns of how many events the limiter remembers that they were sent.
func (l *Limiter) Warned() int {
	if l.warned == nil {
		return 0
	}
	return l.warned.Len()
}

// KnownTiers returns how many tiers' rules the limiter's first limit has kept.
func (l *Limiter) KnownTiers() int {
	known := l.limits[0].tiers.known.Load()
	if known == nil {
		return 0
	}
	return len(*known)
}

// AdviceLooks is how many requests of a limiter are looked at.
const AdviceLooks = adviceLooks

// NewMemoryAt returns a memory store that decides at the times of a test's clock.
func NewMemoryAt(config MemoryConfig, clock func() int64) *Memory {
	m, err := NewMemoryWith(config)
	if err != nil {
		panic(err)
	}
	m.now = clock
	return m
}

// Len returns how many buckets the store holds.
func (m *Memory) Len() int {
	n := 0
	for i := range m.shards {
		m.shards[i].mu.Lock()
		n += m.shards[i].count
		m.shards[i].mu.Unlock()
	}
	return n
}

// Weight returns how much of MaxBuckets is taken, logs included.
func (m *Memory) Weight() int {
	n := 0
	for i := range m.shards {
		m.shards[i].mu.Lock()
		n += m.shards[i].count + m.shards[i].logs.weight
		m.shards[i].mu.Unlock()
	}
	return n
}

// MaxTiers is how many tiers' rules a limit keeps.
const MaxTiers = maxTiers

// ShardSize is what processors must not share cache lines of.
const ShardSize = unsafe.Sizeof(shard{})

// SlotSize is what a bucket takes of a table.
const SlotSize = unsafe.Sizeof(slot{})

// MaxBlockedKeys is how many blocks a store in memory lists.
const MaxBlockedKeys = maxBlockedKeys
