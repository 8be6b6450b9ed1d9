package pgtest

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestSharedIsOneServer(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	if again := Shared(t); again != s {
		t.Errorf("another server: %s and %s", s.Host(), again.Host())
	}
	if got := s.Exec(t, "", "SELECT 6*7, current_user"); got != "42|postgres" {
		t.Errorf("SELECT = %q", got)
	}
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
	if got := s.Exec(t, name(b), "SELECT count(*) FROM pg_class WHERE relname = 'here'"); got != "0" {
		t.Errorf("%s tables in the other database", got)
	}
}

func TestSettingsWin(t *testing.T) {
	t.Parallel()
	s := Start(t, "max_connections=7")
	if got := s.Exec(t, "", "SHOW max_connections"); got != "7" {
		t.Errorf("max_connections = %s", got)
	}
	if got := s.Exec(t, "", "SHOW listen_addresses"); got != "" {
		t.Errorf("it listens on %q", got)
	}
}

func TestOnlyTheSuperuserNeedsNoPassword(t *testing.T) {
	t.Parallel()
	s := Shared(t)
	s.Exec(t, "", "CREATE ROLE narrow LOGIN PASSWORD 'it''s'")
	if got := s.ConnStringAs("narrow", "it's", ""); !strings.Contains(got, `password='it\'s'`) {
		t.Errorf("connection string %s", got)
	}
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
	if got := s.Exec(t, "", "SELECT sum(x) FROM kept"); got != "3" {
		t.Errorf("sum = %s, want 3", got)
	}
}

func TestFrozenServersAcceptAndDoNotAnswer(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.Freeze(t)
	conn, err := net.Dial("unix", filepath.Join(s.Host(), ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	// An SSLRequest, which is answered with one byte.
	if _, err := conn.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47}); err != nil {
		t.Fatal(err)
	}
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
	s.Stop()
	s.Stop()
	if _, err := os.Stat(s.Host()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its directory: %v, want %v", err, os.ErrNotExist)
	}
	if !s.exited() {
		t.Error("the server runs on")
	}
}
