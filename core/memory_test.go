package core_test

import (
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
