// Package redistest runs real redis-server processes for tests.
//
// A package that uses it hands its TestMain over:
//
//	func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }
//
// Most tests take [Shared], one server per test binary, and keep apart by [Prefix]:
// nobody flushes a shared server. A test that counts commands, changes the configuration,
// stops or freezes Redis takes a server of its own from [Start]. One that is about hash
// slots takes [StartCluster] or, where redirections matter, [SharedCluster]; one about
// failover or resharding takes [StartClusterOf] or [StartSentinel].
//
// What goes wrong in production is made for real: by the methods of [Server], which make it
// refuse commands as Redis itself does, and by [Proxy], which harms connections.
//
// Servers keep nothing on disk and listen on a unix socket or on loopback only. Without
// redis-server in PATH the test skips; where CI=true it fails, so that a pipeline can't
// turn green by testing nothing. With -short it skips too.
package redistest

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
)

// binary is the program looked for in PATH.
const binary = "redis-server"

// underMain says that Main runs, so that somebody stops the shared server in the end.
var underMain atomic.Bool

// Main runs the tests of m, then stops every server they left and removes its directory.
// It returns the exit code for os.Exit.
func Main(m *testing.M) int {
	underMain.Store(true)
	defer stopAll()
	return m.Run()
}

// shared starts the shared server once. Its error is kept, so that every test reports it.
var shared = sync.OnceValues(func() (*Server, error) {
	return start(unixSocket, nil)
})

// Shared returns the server that all tests of this binary have in common, on a unix socket.
// The first call starts it; [Main] stops it. Tests use keys under their own [Prefix], and
// never flush, stop, freeze or reconfigure this server. It may be called concurrently.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	requireBinary(tb)
	requireMain(tb)
	s, err := shared()
	if err != nil {
		tb.Fatal(err)
	}
	if s.exited() {
		tb.Fatalf("redistest: the shared server is gone\n%s", s.logTail())
	}
	return s
}

// requireMain fails the test where nobody would stop what all tests share.
func requireMain(tb testing.TB) {
	tb.Helper()
	if !underMain.Load() {
		tb.Fatal("redistest: what tests share needs a TestMain that calls redistest.Main")
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

// StartTCP is [Start] on a free port of 127.0.0.1, for what a unix socket can't do.
// The port 10000 above it was free as well, as Redis Cluster wants.
func StartTCP(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return startFor(tb, tcpPort, args)
}

func startFor(tb testing.TB, listen listener, args []string) *Server {
	tb.Helper()
	requireBinary(tb)
	s, err := start(listen, args)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Stop)
	return s
}

// requireBinary ends the test when there is no redis-server: skipped on a developer's
// machine, failed where CI=true. With -short it skips every test.
func requireBinary(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("redistest: -short runs nothing that needs Redis")
	}
	_, err := exec.LookPath(binary)
	switch {
	case err == nil:
	case errors.Is(err, exec.ErrNotFound) && os.Getenv("CI") != "true":
		tb.Skip("redistest: no " + binary + " in PATH; `make test` installs it")
	default:
		tb.Fatalf("redistest: %v", err)
	}
}
