package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/child"
)

const (
	// startTimeout bounds the wait for a server, which may first have to recover from a crash.
	startTimeout = 3 * time.Minute
	// logTailBytes is how much of the server's log goes into a failure message.
	logTailBytes = 4096
	// mainDatabase exists on every server.
	mainDatabase = "postgres"
)

// defaults are the settings of every server. Killed processes lose nothing that the kernel
// has, so without fsync a commit is still durable for the tests.
var defaults = []string{
	"listen_addresses=",
	"fsync=off",
	"full_page_writes=off",
	"max_connections=200",
	"shared_buffers=64MB",
	"timezone=UTC",
	"log_min_messages=warning",
}

// Server is a running PostgreSQL server. Its methods may be called concurrently.
type Server struct {
	dir      string // holds the socket, the log and the data; removed by Stop
	data     string
	settings []string

	mu      sync.Mutex
	cmd     *exec.Cmd     // Guarded by mu; replaced by Restart.
	done    chan struct{} // Guarded by mu; closed once cmd was waited for.
	frozen  []int         // Guarded by mu; the processes that Freeze has stopped.
	stopped bool          // Guarded by mu; final.
}

// start makes and starts a server, and returns once it accepts connections.
func start(settings []string) (*Server, error) {
	dir, err := tempDir()
	if err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	s := &Server{dir: dir, settings: settings}
	remember(s)
	if s.data, err = copyTemplate(dir); err == nil {
		err = s.run()
	}
	if err != nil {
		s.Stop()
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	return s, nil
}

// Host returns the directory of the server's socket, which clients take for a host. Its port
// is 5432.
func (s *Server) Host() string { return s.dir }

// ConnString returns a connection string for the superuser and a database, in the form of
// libpq and pgx. The database "" is that of the superuser.
func (s *Server) ConnString(database string) string {
	return s.ConnStringAs("postgres", "", database)
}

// ConnStringAs is [Server.ConnString] for another role, made by [Server.Exec], which has to
// log in with its password.
func (s *Server) ConnStringAs(role, password, database string) string {
	if database == "" {
		database = mainDatabase
	}
	quote := func(v string) string { return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v) + "'" }
	str := "host=" + quote(s.dir) + " port=5432 sslmode=disable user=" + quote(role) + " dbname=" + quote(database)
	if password != "" {
		str += " password=" + quote(password)
	}
	return str
}

// Stop kills the server and removes its directory. Stopping twice does nothing, and a frozen
// server stops too. Tests need it only to remove PostgreSQL before they end. For a server that
// comes back, see Kill and Restart.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.stopped = true
	s.kill()
	s.freeMemory()
	_ = os.RemoveAll(s.dir)
	forget(s)
}

// Kill ends all processes of the server at once (SIGKILL). Then connections are refused, until
// Restart. What was committed stays.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
}

// Restart brings a killed server back at the same address, with its data. A server that still
// runs is killed first.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		tb.Fatal("pgtest: Restart after Stop")
	}
	s.kill()
	if err := s.run(); err != nil {
		tb.Fatalf("pgtest: %v", err)
	}
}

// exited reports whether the server is gone.
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

// run starts the server and waits until it accepts connections. s.mu is held, or s not shared
// yet.
func (s *Server) run() error {
	deadline := time.Now().Add(startTimeout)
	for {
		err := s.runOnce(deadline)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		// Processes of the killed server may still hold its shared memory.
		if !strings.Contains(s.logTail(), "shared memory block") {
			return err
		}
		time.Sleep(20 * time.Millisecond) // nothing tells when they have ended
	}
}

func (s *Server) runOnce(deadline time.Time) error {
	if err := s.spawn(); err != nil {
		return err
	}
	for !s.ready() {
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %v for PostgreSQL\n%s", startTimeout, s.logTail())
		}
		select {
		case <-s.done:
			return fmt.Errorf("PostgreSQL exited at start-up\n%s", s.logTail())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// spawn starts the process and waits for nothing. s.mu is held, or s not shared yet.
func (s *Server) spawn() error {
	found, err := programs()
	if err != nil {
		return err
	}
	// A file needs no goroutine that reads it, as a pipe would, and it outlives the process. Workers of a server that was
	// killed write to it, too: each line goes to its end.
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	args := []string{"-D", s.data, "-k", s.dir, "-p", "5432"}
	for _, settings := range [][]string{defaults, s.settings} {
		for _, setting := range settings {
			args = append(args, "-c", setting)
		}
	}
	cmd := exec.Command(found.postgres, args...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	if err := asServer(cmd); err != nil {
		return err
	}
	if err := child.Start(cmd); err != nil { // its workers end when it does
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // killed, as a rule: its log says more than its status
	}()
	s.cmd, s.done, s.frozen = cmd, done, nil
	return nil
}

// ready reports whether the server accepts connections, by the file in which it says so to
// pg_ctl: its first line is the process, the eighth the state. A server in standby is ready
// for queries, too.
func (s *Server) ready() bool {
	b, err := os.ReadFile(filepath.Join(s.data, "postmaster.pid"))
	if err != nil {
		return false
	}
	const pid, state = 0, 7
	lines := strings.Split(string(b), "\n")
	if len(lines) <= state || lines[pid] != strconv.Itoa(s.cmd.Process.Pid) {
		return false
	}
	word := strings.TrimSpace(lines[state])
	return word == "ready" || word == "standby"
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
