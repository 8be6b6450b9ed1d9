package pgstore_test

import (
	"cmp"
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/pgstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/storetest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

func TestMain(m *testing.M) {
	wait.Beside(8) // most wait for servers
	os.Exit(pgtest.Main(m))
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	pool := newPool(t, pgtest.Shared(t).ConnString("")+" pool_max_conns=16")
	storetest.Run(t, func(t *testing.T, clock *storetest.Clock) core.Store {
		return &sweeping{Store: pgstore.NewAt(pool, clock.Micros, migrated(t, pool))}
	})
}

func TestPostgresIsDivided(t *testing.T) {
	t.Parallel()
	pool := newPool(t, pgtest.Shared(t).ConnString("")+" pool_max_conns=16")
	storetest.Fair(t, func(t *testing.T, clock *storetest.Clock) core.Store {
		return &sweeping{Store: pgstore.NewAt(pool, clock.Micros, migrated(t, pool))}
	})
}

// sweeping is a store that now and then removes what has ended, before it decides.
type sweeping struct {
	*pgstore.Store
	takes atomic.Int64
}

func (s *sweeping) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	if s.takes.Add(1)%20 == 0 {
		s.Sweep()
	}
	return s.Store.Take(ctx, checks, results)
}

// ample is time for an answer, on a machine on which PostgreSQL stands still for seconds.
const ample = 2 * time.Minute

// migrated returns the config of an empty schema, with ample time unless config says otherwise.
func migrated(t testing.TB, pool *pgxpool.Pool, config ...pgstore.Config) pgstore.Config {
	t.Helper()
	var c pgstore.Config
	if len(config) > 0 {
		c = config[0]
	}
	c.Timeout, c.Schema = cmp.Or(c.Timeout, ample), pgtest.Name("store")
	must.OK(t, pgstore.Migrate(t.Context(), pool, c))
	return c
}

// shared returns a pool on the shared server, with settings in the form of libpq, and the config of an empty
// schema there.
func shared(t testing.TB, settings ...string) (*pgxpool.Pool, pgstore.Config) {
	t.Helper()
	pool := newPool(t, strings.Join(append(settings, pgtest.Shared(t).ConnString("")), " "))
	return pool, migrated(t, pool)
}

// quietStore is New for tests in which there are outages.
func quietStore(pool *pgxpool.Pool, config ...pgstore.Config) *pgstore.Store {
	s := pgstore.New(pool, config...)
	s.OnEvent(func(store.Event) {}) // not into the output of the test
	return s
}

func newPool(t testing.TB, connString string) *pgxpool.Pool {
	t.Helper()
	pool := must.Get(pgxpool.New(t.Context(), connString))(t)
	t.Cleanup(pool.Close)
	return pool
}
