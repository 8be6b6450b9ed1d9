package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
)

// logTailBytes is how much of the server's log goes into a failure message.
const logTailBytes = 2048

// Server is a running redis-server process. Its methods may be called concurrently.
type Server struct {
	network, addr string
	dir           string // holds the socket, the log and nodes.conf; removed by Stop
	args          []string

	mu      sync.Mutex
	env     []string      // added to that of this process. Guarded by mu.
	cmd     *exec.Cmd     // Guarded by mu; replaced by Restart.
	done    chan struct{} // Guarded by mu; closed once cmd was waited for.
	stopped bool          // Guarded by mu; final.
	frozen  bool          // Guarded by mu; by Freeze, until Thaw or a new process.
}

// Network returns "unix" or "tcp", as net.Dial and redis.Options want it.
func (s *Server) Network() string { return s.network }

// Addr returns the path of the socket, or host:port.
func (s *Server) Addr() string { return s.addr }

// roomy is how many connections the clients of tests have room for. go-redis answers with the last error for a moment once as
// many dials have failed as its pool has room for, and the dials of requests that a test gives up on purpose fail, too: other
// tests of the client would be told of them.
const roomy = 1000

// Client returns a new client of this server with go-redis's defaults, except that it has room for more connections. It is
// closed when the test ends.
func (s *Server) Client(tb testing.TB) *redis.Client {
	tb.Helper()
	return s.ClientWith(tb, &redis.Options{PoolSize: roomy})
}

// ClientWith is [Server.Client] with the test's options. It sets the address.
func (s *Server) ClientWith(tb testing.TB, options *redis.Options) *redis.Client {
	tb.Helper()
	o := *options
	o.Network, o.Addr = s.network, s.addr
	c := redis.NewClient(&o)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// Stop kills the process, waits for its end and removes its directory. Stopping twice does
// nothing, and a frozen server stops too. Tests need it only to remove Redis before they
// end. For a server that comes back, see Kill and Restart.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.stopped = true
	s.kill()
	_ = os.RemoveAll(s.dir)
	forget(s)
}

// Kill kills the process and waits for its end. Then connections are refused, until Restart.
// The data is lost.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
}

// Restart brings a killed server back, empty, at the same address. A server that still runs
// is killed first.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		tb.Fatal("redistest: Restart after Stop")
	}
	s.kill()
	must.OK(tb, s.run())
}

// kill ends the process, if it still runs. s.mu is held.
func (s *Server) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it fails only on a process that is gone already
	<-s.done
}

// live reports whether the process runs and is not frozen.
func (s *Server) live() bool {
	s.mu.Lock()
	frozen := s.frozen
	s.mu.Unlock()
	return !frozen && !s.exited()
}

// exited reports whether the process is gone.
func (s *Server) exited() bool {
	s.mu.Lock()
	done := s.done
	s.mu.Unlock()
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// spawn starts the process, with extra after the usual arguments, and waits for nothing.
// s.mu is held, or s not shared yet.
func (s *Server) spawn(extra ...string) error {
	// A file needs no goroutine that reads it, as a pipe would, and it outlives the process.
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(Program(), slices.Concat(s.args, extra)...)
	cmd.Stdout, cmd.Stderr = log, log
	if len(s.env) > 0 {
		cmd.Env = append(os.Environ(), s.env...)
	}
	if err := child.Start(cmd); err != nil {
		return fmt.Errorf("redistest: starting %s: %w", Program(), err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // killed, as a rule: its log says more than its status
	}()
	s.cmd, s.done, s.frozen = cmd, done, false
	return nil
}

func (s *Server) logPath() string { return filepath.Join(s.dir, "log") }

// logTail returns the end of the server's log, for failure messages.
func (s *Server) logTail() string {
	b, err := os.ReadFile(s.logPath())
	if err != nil {
		return "(no log: " + err.Error() + ")"
	}
	if len(b) > logTailBytes {
		b = b[len(b)-logTailBytes:]
	}
	return string(b)
}
