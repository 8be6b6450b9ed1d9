package redistest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// startTimeout bounds the wait for the first PONG of a server; it takes about 20 ms
	// on an idle machine.
	startTimeout = 20 * time.Second
	// commandTimeout bounds what this package itself asks a running server.
	commandTimeout = 10 * time.Second
	// logTailBytes is how much of the server's log goes into a failure message.
	logTailBytes = 2048
)

// Server is a running redis-server process. Its methods may be called concurrently.
type Server struct {
	network, addr string
	dir           string // holds the socket, the log and nodes.conf; removed by Stop
	args          []string

	mu      sync.Mutex
	cmd     *exec.Cmd     // Guarded by mu; replaced by Restart.
	done    chan struct{} // Guarded by mu; closed once cmd was waited for.
	stopped bool          // Guarded by mu; final.
}

// Network returns "unix" or "tcp", as net.Dial and redis.Options want it.
func (s *Server) Network() string { return s.network }

// Addr returns the path of the socket, or host:port.
func (s *Server) Addr() string { return s.addr }

// Client returns a new client of this server with go-redis's defaults, closed when the test ends.
func (s *Server) Client(tb testing.TB) *redis.Client {
	tb.Helper()
	c := redis.NewClient(&redis.Options{Network: s.network, Addr: s.addr})
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// Stop kills the process, waits for its end and removes its directory. Stopping twice does
// nothing, and a frozen server stops too. Tests need it only to take Redis away before
// they end; for a server that comes back, see Kill and Restart.
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

// Kill kills the process and waits for its end: from then on connections are refused, until
// Restart. The data is lost.
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
	if err := s.run(); err != nil {
		tb.Fatal(err)
	}
}

// kill ends the process, if it still runs. s.mu is held.
func (s *Server) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it fails only on a process that is gone already
	<-s.done
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

// start starts a server where listen says, and returns once it answers.
func start(listen listener, args []string) (*Server, error) {
	var err error
	// Between choosing a port and binding it another process can take it: choose again.
	for range 3 {
		var s *Server
		if s, err = startOnce(listen, args); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func startOnce(listen listener, args []string) (*Server, error) {
	dir, err := tempDir()
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	network, addr, listenArgs, err := listen(dir)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("redistest: %w", err)
	}
	s := &Server{
		network: network,
		addr:    addr,
		dir:     dir,
		args: slices.Concat(
			[]string{"--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", dir},
			listenArgs, args,
		),
	}
	remember(s)
	if err := s.run(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// run starts the process and waits until it answers. s.mu is held, or s not shared yet.
func (s *Server) run() error {
	// A file, and no pipe: no goroutine has to read it, and it is there when the process is not.
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(binary, s.args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := startChild(cmd); err != nil {
		return fmt.Errorf("redistest: starting %s: %w", binary, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // killed, as a rule: its log says more than its status
	}()
	s.cmd, s.done = cmd, done
	return s.awaitPong()
}

// awaitPong asks PING until the server answers, exits or takes too long.
func (s *Server) awaitPong() error {
	deadline := time.Now().Add(startTimeout)
	for {
		err := ping(s.network, s.addr)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("redistest: no PONG from %s in %v: %w\n%s", s.addr, startTimeout, err, s.logTail())
		}
		select {
		case <-s.done:
			return fmt.Errorf("redistest: %s %q exited at start-up\n%s", binary, s.args, s.logTail())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// ping makes one attempt on a connection of its own: a client's pool would back off after
// the first refusals. A server that wants a password is up as well.
func ping(network, addr string) error {
	conn, err := net.DialTimeout(network, addr, time.Second)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	reply, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	if !strings.HasPrefix(reply, "+PONG") && !strings.HasPrefix(reply, "-NOAUTH") {
		return fmt.Errorf("PING answered %q", reply)
	}
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

// timeout returns a context for one question of this package to a server. It is not the
// test's context, which is done by the time cleanups run.
func timeout() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), commandTimeout)
}
