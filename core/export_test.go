package core

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
