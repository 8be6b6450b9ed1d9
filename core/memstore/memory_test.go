package memstore_test

import (
	"strconv"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/internal/test/storetest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(_ *testing.T, clock *storetest.Clock) core.Store {
		return storeAt(clock)
	})
}

func TestMemoryIsDivided(t *testing.T) {
	t.Parallel()
	storetest.Fair(t, func(_ *testing.T, clock *storetest.Clock) core.Store {
		return storeAt(clock)
	})
}

// A 64-bit processor's caches are what the sizes are made for.
func TestSizes(t *testing.T) {
	t.Parallel()
	if strconv.IntSize == 64 && (memstore.ShardSize%64 != 0 || memstore.SlotSize != 48) {
		t.Errorf("a shard takes %d bytes, want whole cache lines; a slot %d, want 48", memstore.ShardSize, memstore.SlotSize)
	}
}
