package core_test

import (
	"strconv"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/storetest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(_ *testing.T, clock *storetest.Clock) core.Store {
		return core.NewMemoryAt(core.MemoryConfig{}, clock.Micros)
	})
}

// A 64-bit processor's caches are what the sizes are made for.
func TestSizes(t *testing.T) {
	t.Parallel()
	if strconv.IntSize == 64 && (core.ShardSize%64 != 0 || core.SlotSize != 48) {
		t.Errorf("a shard takes %d bytes, want whole cache lines; a slot %d, want 48", core.ShardSize, core.SlotSize)
	}
}
