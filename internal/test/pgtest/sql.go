package pgtest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// sqlTimeout bounds one statement of this package's methods.
const sqlTimeout = 3 * time.Minute

// names counts what has been given a name.
var names atomic.Uint64

// Name returns a name of a schema, role or database that no other call returns, in this process or in another
// one. It begins with what, a word. A schema of the database that all tests share, by an empty database name, is
// there five times sooner than a database of [Server.Database].
func Name(what string) string {
	return fmt.Sprintf("%s_%d_%x_%d", what, os.Getpid(), process, names.Add(1))
}

// process tells processes with the same number from each other.
var process = rand.Uint32()

// Database makes an empty database for this test alone and returns its connection string.
func (s *Server) Database(tb testing.TB) (connString string) {
	tb.Helper()
	database := Name("test")
	s.Exec(tb, "", "CREATE DATABASE "+database)
	return s.ConnString(database)
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
