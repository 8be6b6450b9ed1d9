package pgtest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
)

// StartStandby starts a standby of a server for this test alone, by streaming replication, and stops it when the
// test ends. Its clients may read.
func StartStandby(tb testing.TB, of *Server) *Server {
	tb.Helper()
	s := must.Get(startStandby(of))(tb)
	tb.Cleanup(s.Stop)
	return s
}

func startStandby(of *Server) (*Server, error) {
	dir, err := tempDir()
	if err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	s := &Server{dir: dir, data: filepath.Join(dir, "data"), settings: of.settings}
	remember(s)
	found, err := programs()
	if err == nil {
		err = run(beside(found.initdb, "pg_basebackup"), "-D", s.data, "-h", of.dir, "-p", "5432", "-U", "postgres",
			"--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync")
	}
	if err == nil {
		err = s.run()
	}
	if err != nil {
		s.Stop()
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	return s, nil
}

// beside returns the path of a program that is where another one is, or in PATH.
func beside(program, name string) string {
	if target, err := filepath.EvalSymlinks(program); err == nil {
		program = target
	}
	path := filepath.Join(filepath.Dir(program), name)
	if _, err := exec.LookPath(path); err != nil {
		return name
	}
	return path
}

// Promote makes a standby a server of its own, with what it has received, and returns when it takes writes.
func (s *Server) Promote(tb testing.TB) {
	tb.Helper()
	s.Exec(tb, "", "SELECT pg_promote()")
}
