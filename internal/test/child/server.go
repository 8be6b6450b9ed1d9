package child

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// Server is a program that serves until its test ends, and what it has written.
type Server struct {
	cmd   *exec.Cmd
	log   Output
	ended chan struct{} // closed when the process has ended
}

// Serve starts a server, and returns once ready, which gets what the server has written so far, has no error. One that
// ends before that ends the test at once, with what it has written. It is killed when the test ends; what it has written is logged if the test has failed.
func Serve(tb testing.TB, cmd *exec.Cmd, ready func(written string) error) *Server {
	tb.Helper()
	s := &Server{cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	cmd.WaitDelay = time.Minute // for children that have the output open
	must.OK(tb, Start(cmd))
	go func() {
		defer close(s.ended)
		_ = cmd.Wait() // killed, as a rule: its log says more
	}()
	tb.Cleanup(func() {
		s.Kill()
		if tb.Failed() {
			tb.Logf("%s has written\n%.8000s", cmd, s.Log())
		}
	})
	wait.For(tb, cmd.Path+" serves", func() error {
		if s.hasEnded() {
			return nil
		}
		return ready(s.Log())
	})
	if s.hasEnded() {
		tb.Fatalf("%s has ended, %v, before it served", cmd, cmd.ProcessState)
	}
	return s
}

func (s *Server) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// Log returns what the server has written so far.
func (s *Server) Log() string { return s.log.String() }

// Pid returns the number of the process.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Signal sends a signal to the process.
func (s *Server) Signal(tb testing.TB, signal os.Signal) {
	tb.Helper()
	must.OK(tb, s.cmd.Process.Signal(signal))
}

// Kill kills the process, if it still runs, and returns when it has ended.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // it fails only on a process that has ended
	<-s.ended
}
