// Package race reports to tests whether the race detector is on.
package race

import "testing"

// Skip skips a test if the race detector is on: one that counts allocations or memory, since the detector allocates and makes
// sync.Pool forget at random, or one that takes many times as long with it and has nothing for it to find. make test runs it without
// the detector: see measured in internal/test/run. The file of such a test has no build tag instead: linters read what tests have
// compiled, with the detector.
func Skip(tb testing.TB) {
	if Enabled {
		tb.Helper()
		tb.Skip("make test runs it without the race detector")
	}
}
