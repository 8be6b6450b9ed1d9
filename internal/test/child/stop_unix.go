//go:build unix

package child

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// Stop stops the process, as a scheduler does that has other work, until Continue. One that has ended stays so.
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
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		tb.Errorf("%v: %v", s, err)
	}
}
