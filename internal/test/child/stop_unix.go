//go:build unix

package child

import (
	"syscall"
	"testing"
)

// Stop stops the process, as a scheduler does that has other work, until Continue.
func (p *Process) Stop(tb testing.TB) {
	tb.Helper()
	p.signal(tb, syscall.SIGSTOP)
}

// Continue lets a stopped process go on.
func (p *Process) Continue(tb testing.TB) {
	tb.Helper()
	p.signal(tb, syscall.SIGCONT)
}

func (p *Process) signal(tb testing.TB, s syscall.Signal) {
	tb.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		tb.Fatalf("%v: %v", s, err)
	}
}
