package prove

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/core/pgstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
)

func openPostgres(connString string) (store.Store, error) {
	pool, err := pgxpool.New(context.Background(), connString)
	if err != nil {
		return nil, err
	}
	return pgstore.New(pool), nil
}

func TestPostgreSQL(t *testing.T) {
	connString := pgtest.Start(t).Database(t)
	pool := must.Get(pgxpool.New(t.Context(), connString))(t)
	must.OK(t, pgstore.Migrate(t.Context(), pool))
	pool.Close()
	processes := startAll(t, order{PostgreSQL: connString + fmt.Sprintf(" pool_max_conns=%d", 4)})
	each(t, 0.07, func(seed uint64, _ *tally) *history {
		h := newHistory("postgresql", seed, time.Hour, 24*time.Hour)
		h.job.Each, h.behind, h.repeats = 5, true, byNone
		together(t, h, processes)
		return h
	})
}
