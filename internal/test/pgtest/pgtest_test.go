package pgtest

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestSharedIsOneServer(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	if again := Shared(t); again != s {
		t.Errorf("another server: %s and %s", s.Host(), again.Host())
	}
	check.Equal(t, "SELECT", s.Exec(t, "", "SELECT 6*7, current_user"), "42|postgres")
}

func TestDatabasesAreApart(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	a, b := s.Database(t), s.Database(t)
	if a == b {
		t.Fatalf("both are %s", a)
	}
	name := func(connString string) string {
		_, rest, _ := strings.Cut(connString, "dbname='")
		return strings.TrimSuffix(rest, "'")
	}
	s.Exec(t, name(a), "CREATE TABLE here (x int)")
	check.Equal(t, "tables in the other database", s.Exec(t, name(b), "SELECT count(*) FROM pg_class WHERE relname = 'here'"), "0")
}

func TestSettingsWin(t *testing.T) {
	t.Parallel()
	s := Start(t, "max_connections=7")
	check.Equal(t, "max_connections", s.Exec(t, "", "SHOW max_connections"), "7")
	if got := s.Exec(t, "", "SHOW listen_addresses"); got != "" {
		t.Errorf("it listens on %q", got)
	}
}

func TestOnlyTheSuperuserNeedsNoPassword(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	narrow := Name("narrow")
	s.Exec(t, "", "CREATE ROLE "+narrow+" LOGIN PASSWORD 'it''s'")
	check.Contains(t, "connection string", s.ConnStringAs(narrow, "it's", ""), `password='it\'s'`)
}

func TestKilledServersKeepWhatWasCommitted(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.Exec(t, "", "CREATE TABLE kept AS SELECT 1 AS x")
	s.Kill()
	if _, err := s.psql("", "SELECT 1"); err == nil {
		t.Error("a killed server answers")
	}
	s.Restart(t)
	s.Exec(t, "", "INSERT INTO kept VALUES (2)")
	s.Restart(t) // of a server that runs
	check.Equal(t, "sum", s.Exec(t, "", "SELECT sum(x) FROM kept"), "3")
}

func TestFrozenServersAcceptAndDoNotAnswer(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.Freeze(t)
	conn := must.Get(net.Dial("unix", filepath.Join(s.Host(), ".s.PGSQL.5432")))(t)
	defer func() { _ = conn.Close() }()
	// An SSLRequest, which is answered with one byte.
	must.Do(conn.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47}))(t)
	_ = conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a frozen server answers %d bytes, %v", n, err)
	}
	s.Thaw(t)
	_ = conn.SetReadDeadline(time.Now().Add(sqlTimeout))
	if n, err := conn.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("after Thaw: %d bytes, %v", n, err)
	}
}

func TestStopRemovesEverything(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.Freeze(t)
	id := s.memoryID()
	if id == "" || !hasMemory(t, id) {
		t.Fatalf("segment %q of shared memory is not there", id)
	}
	s.Stop()
	s.Stop()
	if hasMemory(t, id) {
		t.Errorf("segment %s of shared memory is still there", id)
	}
	if _, err := os.Stat(s.Host()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its directory: %v, want %v", err, os.ErrNotExist)
	}
	if !s.exited() {
		t.Error("the server runs on")
	}
}

// hasMemory reports whether the kernel has a segment of shared memory.
func hasMemory(t *testing.T, id string) bool {
	t.Helper()
	segments := must.Get(os.ReadFile("/proc/sysvipc/shm"))(t)
	for line := range strings.Lines(string(segments)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[1] == id {
			return true
		}
	}
	return false
}
