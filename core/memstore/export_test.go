package memstore

import "unsafe"

// Weight returns how much of MaxBuckets is taken, logs included.
func (m *Store) Weight() int {
	n := 0
	for i := range m.shards {
		m.shards[i].mu.Lock()
		n += int(m.shards[i].count + m.shards[i].weight)
		m.shards[i].mu.Unlock()
	}
	return n
}

// ShardSize is what processors must not share cache lines of.
const ShardSize = unsafe.Sizeof(shard{})

// SlotSize is what a bucket takes of a table.
const SlotSize = unsafe.Sizeof(slot{})
