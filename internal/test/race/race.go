// Package race reports to tests whether the race detector is on.
package race

import "testing"

// Skip skips a test that counts allocations if the race detector is on, which allocates, and makes sync.Pool forget at
// random. The file of such a test has no build tag instead: linters read what tests have compiled, with the detector.
func Skip(tb testing.TB) {
	if Enabled {
		tb.Helper()
		tb.Skip("the race detector allocates")
	}
}
