//go:build !linux

package pgtest

import "testing"

// Freeze skips the test: only on Linux does this package find all processes of a server.
func (s *Server) Freeze(tb testing.TB) {
	tb.Helper()
	tb.Skip("pgtest: Freeze needs Linux")
}

// Thaw does nothing.
func (s *Server) Thaw(testing.TB) {}

// kill ends the server; its workers end soon after. s.mu is held.
func (s *Server) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it fails only on a process that is gone already
	<-s.done
}
