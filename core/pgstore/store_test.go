package pgstore_test

import (
	"cmp"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/pgstore"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/storetest"
)

func TestMain(m *testing.M) {
	os.Exit(pgtest.Main(m))
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	pool := sharedPool(t)
	storetest.Run(t, func(t *testing.T, clock *storetest.Clock) core.Store {
		return pgstore.NewAt(pool, clock.Micros, migrated(t, pool))
	})
}

var schemas atomic.Int64

// newRole returns the name of a role of the server that no other call returns, in a test that is run again, too.
func newRole() string { return fmt.Sprintf("role%d", schemas.Add(1)) }

// ample is time for an answer, on a machine on which PostgreSQL stands still for seconds.
const ample = 2 * time.Minute

// migrated returns the config of an empty schema, with ample time unless config says otherwise.
func migrated(t testing.TB, pool *pgxpool.Pool, config ...pgstore.Config) pgstore.Config {
	t.Helper()
	var c pgstore.Config
	if len(config) > 0 {
		c = config[0]
	}
	c.Timeout = cmp.Or(c.Timeout, ample)
	c.Schema = fmt.Sprintf("s%d", schemas.Add(1))
	if err := pgstore.Migrate(t.Context(), pool, c); err != nil {
		t.Fatal(err)
	}
	return c
}

// sharedPool returns a pool on the shared server, which ends with the test.
func sharedPool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return newPool(t, pgtest.Shared(t).ConnString("")+" pool_max_conns=16")
}

func newPool(t testing.TB, connString string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), connString)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}
