//go:build !race

package keyfuncs_test

import "testing"

// Not under the race detector, which makes sync.Pool forget at random, and not parallel:
// testing.AllocsPerRun counts the allocations of the process.
func TestNoConstructorsKeyAllocates(t *testing.T) {
	dst := make([]byte, 0, 512)
	for _, e := range everyFunc {
		for name, value := range values {
			f, r := e.make(value), carrying(value)
			if allocs := testing.AllocsPerRun(20, func() { f.Append(dst, r) }); allocs != 0 {
				t.Errorf("%s, %s: %v allocations", e.constructor, name, allocs)
			}
		}
	}
}
