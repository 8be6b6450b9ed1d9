package keyfuncs_test

import (
	"fmt"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/race"
)

// Not under the race detector, which makes sync.Pool forget at random, and not parallel:
// testing.AllocsPerRun counts the allocations of the process.
func TestNoConstructorsKeyAllocates(t *testing.T) {
	race.Skip(t)
	dst := make([]byte, 0, 512)
	for _, e := range everyFunc {
		for name, value := range values {
			f, r := e.make(value), carrying(value)
			check.Equal(t, fmt.Sprintf("%s, %s: allocations", e.constructor, name), testing.AllocsPerRun(20, func() { f.Append(dst, r) }), 0)
		}
	}
}
