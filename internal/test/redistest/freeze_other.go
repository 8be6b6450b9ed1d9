//go:build !unix

package redistest

import "testing"

// Freeze skips the test: only Unix can stop a process without ending it.
func (*Server) Freeze(tb testing.TB) {
	tb.Helper()
	tb.Skip("redistest: a process can't be frozen on this system")
}

// Thaw does nothing.
func (*Server) Thaw(testing.TB) {}
