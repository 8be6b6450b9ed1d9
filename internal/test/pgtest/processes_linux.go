package pgtest

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Freeze stops all processes of the server without ending them: the kernel still accepts
// connections, and nothing answers. Thaw, Kill and the end of the test undo it.
func (s *Server) Freeze(tb testing.TB) {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.freeze(); err != nil {
		tb.Fatalf("pgtest: freezing: %v", err)
	}
}

// Thaw lets a frozen server go on. It then answers all that it was sent.
func (s *Server) Thaw(tb testing.TB) {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pid := range s.frozen {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			tb.Errorf("pgtest: thawing: %v", err)
		}
	}
	s.frozen = nil
}

// freeze stops the parent first, so that there are no new processes. s.mu is held.
func (s *Server) freeze() error {
	parent := s.cmd.Process.Pid
	if err := syscall.Kill(parent, syscall.SIGSTOP); err != nil {
		return err
	}
	children, err := childrenOf(parent)
	if err != nil {
		return err
	}
	for _, pid := range children {
		_ = syscall.Kill(pid, syscall.SIGSTOP) // it may have ended just now
	}
	s.frozen = slices.Concat(children, []int{parent})
	return nil
}

// kill ends all processes, if they still run: those of connections would otherwise finish and
// commit what they are doing. s.mu is held.
func (s *Server) kill() {
	if s.cmd == nil {
		return
	}
	select {
	case <-s.done:
		return
	default:
	}
	_ = s.freeze()
	for _, pid := range s.frozen {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = s.cmd.Process.Kill()
	<-s.done
	s.frozen = nil
}

// childrenOf returns the processes whose parent is pid.
func childrenOf(pid int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var children []int
	for _, file := range stats {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // ended meanwhile
		}
		// The name, in parentheses, may contain anything.
		head, tail, _ := strings.Cut(string(b), " (")
		fields := strings.Fields(tail[strings.LastIndexByte(tail, ')')+1:])
		if len(fields) < 2 || fields[1] != strconv.Itoa(pid) {
			continue
		}
		if child, err := strconv.Atoi(head); err == nil {
			children = append(children, child)
		}
	}
	return children, nil
}
