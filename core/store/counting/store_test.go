package counting_test

import (
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/storetest"
)

// The kit counts as the stores of this module do, with nothing around it but a map.
func TestAStoreOverAMap(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(_ *testing.T, clock *storetest.Clock) core.Store { return newMapStore(clock.Micros) })
}
