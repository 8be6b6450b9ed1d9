package pgtest

import (
	"fmt"
	"testing"
	"time"
)

// Clock is the clock of one database, as statements see it that name now() and clock_timestamp()
// without their schema. Those of the server and of other databases go on as they are.
type Clock struct {
	server   *Server
	database string
}

// ClockedDatabase makes an empty database for this test alone, whose clock the test sets.
func (s *Server) ClockedDatabase(tb testing.TB) (connString string, clock *Clock) {
	tb.Helper()
	database := Name("test")
	s.Exec(tb, "", "CREATE DATABASE "+database)
	s.Exec(tb, database, `CREATE SCHEMA clock; CREATE TABLE clock.ahead (by interval NOT NULL); INSERT INTO clock.ahead VALUES ('0');
		CREATE FUNCTION clock.now() RETURNS timestamptz STABLE LANGUAGE sql AS 'SELECT pg_catalog.now() + by FROM clock.ahead';
		CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql AS 'SELECT pg_catalog.clock_timestamp() + by FROM clock.ahead';
		GRANT USAGE ON SCHEMA clock TO PUBLIC; GRANT SELECT ON clock.ahead TO PUBLIC;
		ALTER DATABASE `+database+` SET search_path = clock, pg_catalog, public`)
	return s.ConnString(database), &Clock{s, database}
}

// SetAhead sets the clock to the server's and a duration more, for statements that begin later.
func (c *Clock) SetAhead(tb testing.TB, d time.Duration) {
	tb.Helper()
	c.server.Exec(tb, c.database, fmt.Sprintf("UPDATE clock.ahead SET by = interval '%d microseconds'", d.Microseconds()))
}
