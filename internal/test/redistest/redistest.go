// Package redistest runs real redis-server processes for tests.
//
// A package that uses it hands its TestMain over:
//
//	func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }
//
// Most tests use [Shared], one server per test binary, and keep their keys apart with
// [Prefix]. No test flushes a shared server. A test that counts commands, changes the
// configuration, stops or freezes Redis starts a server of its own with [Start]. Tests of
// hash slots use [StartCluster] or, where redirections matter, [SharedCluster]. Tests of
// failover or resharding use [StartClusterOf] or [StartSentinel].
//
// Faults are real: the methods of [Server] make it refuse commands as Redis itself does, and
// [Proxy] breaks connections.
//
// Servers keep nothing on disk and listen on a unix socket or on loopback only. Without
// redis-server in PATH the test skips; where CI=true it fails, so that a pipeline can't
// turn green by testing nothing. With -short it skips too. The environment variable
// REDIS_SERVER names another server, such as an older one or Valkey; see [Program]. Everything
// here works with Redis 5, except what calls [Since].
package redistest

import (
	"sync/atomic"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
)

// underMain says that Main runs, which stops the shared server in the end.
var underMain atomic.Bool

// Main runs the tests of m, then stops the servers that still run and removes their
// directories. It returns the exit code for os.Exit.
func Main(m *testing.M) int {
	underMain.Store(true)
	defer StopAll()
	return m.Run()
}

// Shared returns the server that all tests of this binary share, on a unix socket, or those of
// all binaries, under `make test`. The first call starts it; [Main] stops it, or the run. Tests use keys
// under their own [Prefix], and never flush, stop, freeze or reconfigure this server. It may be called
// concurrently.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	requireBinary(tb)
	requireMain(tb)
	s := must.Get(shared())(tb)
	if s.exited() {
		tb.Fatalf("redistest: the shared server is gone\n%s", s.logTail())
	}
	return s
}

// requireMain fails the test if nothing would stop the shared servers.
func requireMain(tb testing.TB) {
	tb.Helper()
	if !underMain.Load() {
		tb.Fatal("redistest: shared servers need a TestMain that calls redistest.Main")
	}
}

// Start starts a server for this test alone, on a unix socket, and stops it when the test
// ends. args are appended to the command line and win over the defaults:
//
//	redistest.Start(t, "--maxmemory", "1mb")
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return startFor(tb, unixSocket, args)
}

// StartTCP is [Start] on a free port of 127.0.0.1, for tests that can't use a unix socket.
// The port 10000 above it was free as well, as Redis Cluster needs.
func StartTCP(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return startFor(tb, tcpPort, args)
}

func startFor(tb testing.TB, listen listener, args []string) *Server {
	tb.Helper()
	requireBinary(tb)
	s := must.Get(start(listen, args))(tb)
	tb.Cleanup(s.Stop)
	return s
}
