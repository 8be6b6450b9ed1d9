package pgtest

import (
	"bytes"
	"context"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// sqlTimeout bounds one statement of this package's methods.
const sqlTimeout = 3 * time.Minute

// databases counts the calls of Database.
var databases atomic.Uint64

// Database makes an empty database for this test alone and returns its connection string.
func (s *Server) Database(tb testing.TB) (connString string) {
	tb.Helper()
	name := "test" + strconv.FormatUint(databases.Add(1), 10)
	s.Exec(tb, "", "CREATE DATABASE "+name)
	return s.ConnString(name)
}

// Exec runs statements with psql as the superuser, in a database ("" for the superuser's), and
// returns what they print: one line per row, columns separated by "|".
func (s *Server) Exec(tb testing.TB, database, sql string) string {
	tb.Helper()
	out, err := s.psql(database, sql)
	if err != nil {
		tb.Fatalf("pgtest: %s: %v\n%s", sql, err, out)
	}
	return strings.TrimRight(out, "\n")
}

func (s *Server) psql(database, sql string) (out string, err error) {
	found, err := programs()
	if err != nil {
		return "", err
	}
	// Not the test's context, which is done when cleanups run.
	ctx, cancel := context.WithTimeout(context.Background(), sqlTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, found.psql,
		"-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", s.ConnString(database), "-c", sql)
	cmd.Dir = "/"
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	b, err := cmd.Output()
	if err != nil {
		return stderr.String(), err
	}
	return string(b), nil
}
