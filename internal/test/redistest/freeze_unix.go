//go:build unix

package redistest

import (
	"syscall"
	"testing"
)

// Freeze stops the process without ending it: the kernel still accepts connections, and
// nothing answers. Thaw, Kill and the end of the test undo it.
func (s *Server) Freeze(tb testing.TB) {
	tb.Helper()
	s.signal(tb, syscall.SIGSTOP, true)
}

// Thaw lets a frozen server go on. It then answers all that it was sent.
func (s *Server) Thaw(tb testing.TB) {
	tb.Helper()
	s.signal(tb, syscall.SIGCONT, false)
}

func (s *Server) signal(tb testing.TB, sig syscall.Signal, frozen bool) {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.cmd.Process.Signal(sig); err != nil {
		tb.Fatalf("redistest: %v to %s: %v", sig, Program(), err)
	}
	s.frozen = frozen
}
