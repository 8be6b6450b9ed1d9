// Package pgtest runs real PostgreSQL servers for tests.
//
// A package that uses it hands its TestMain over:
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
//
// Most tests use [Shared], one server per test binary, and a database of their own by
// [Server.Database]. A test that stops, freezes or configures PostgreSQL starts a server of
// its own with [Start], which takes half a second.
//
// Servers listen on a unix socket in a temporary directory and on no port. PostgreSQL refuses
// to run as root; root's tests run it as the user postgres or nobody. The package needs no
// client library: tests connect with the one they test, by [Server.ConnString].
//
// Without PostgreSQL the test skips; where CI=true it fails, so that a pipeline can't turn
// green by testing nothing. With -short it skips too.
package pgtest

import (
	"os"
	"sync/atomic"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
)

// underMain says that Main runs, which stops the servers in the end.
var underMain atomic.Bool

// Main runs the tests of m, a *testing.M or what wraps one, then stops the servers that still
// run and removes their directories. It returns the exit code for os.Exit.
func Main(m interface{ Run() int }) int {
	underMain.Store(true)
	defer StopAll()
	return m.Run()
}

// Shared returns the server that all tests of this binary share, or those of all binaries, under `make test`.
// The first call starts it; [Main] stops it, or the run. Tests work in a database of their own
// ([Server.Database]), with roles of their own, and never stop, freeze or configure this server. It may be
// called concurrently.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	require(tb)
	s := must.Get(shared())(tb)
	if s.exited() {
		tb.Fatalf("pgtest: the shared server is gone\n%s", s.logTail())
	}
	return s
}

// Start starts a server for this test alone, and stops it when the test ends. Each setting is
// a parameter of postgresql.conf, and wins over the defaults:
//
//	pgtest.Start(t, "max_connections=20")
func Start(tb testing.TB, settings ...string) *Server {
	tb.Helper()
	require(tb)
	s := must.Get(start(settings))(tb)
	tb.Cleanup(s.Stop)
	return s
}

// require ends the test if there is no PostgreSQL, and if nothing would remove what servers
// have in common.
func require(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("pgtest: -short runs nothing that needs PostgreSQL")
	}
	_, err := programs()
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		tb.Fatalf("pgtest: %v", err)
	default:
		tb.Skipf("pgtest: %v; scripts/install-postgres tells more", err)
	}
	if !underMain.Load() {
		tb.Fatal("pgtest: servers need a TestMain that calls pgtest.Main")
	}
}
