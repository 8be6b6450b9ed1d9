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
