package pgstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/pgstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
)

// What pgxpool can be set to for PgBouncer and the like.
func TestOtherProtocols(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"exec", "simple_protocol", "describe_exec", "cache_describe"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t, pgtest.Shared(t).ConnString("")+" default_query_exec_mode="+mode)
			config := migrated(t, pool)
			rule := mustRule(t, core.Per(3, longWindow).SlidingLog().Named("plan"))
			for i := range int64(3) { // new stores remember nothing: the second and third read
				if got := take(t, pgstore.New(pool, config), checkOf("k\x00\xff", rule, 1))[0]; !got.Allowed || got.Remaining != 2-i {
					t.Errorf("take %d: %+v", i, got)
				}
			}
			if got := take(t, pgstore.New(pool, config), checkOf("k\x00\xff", rule, 1))[0]; got.Allowed {
				t.Errorf("take 4: %+v", got)
			}
			contend(t, pool, config, rule)
		})
	}
}

// contend makes two stores compete, so that they lock.
func contend(t *testing.T, pool *pgxpool.Pool, config pgstore.Config, rule *core.Rule) {
	t.Helper()
	a, b := pgstore.New(pool, config), pgstore.New(pool, config)
	var all sync.WaitGroup
	for _, s := range []*pgstore.Store{a, b} {
		all.Go(func() {
			for i := range 20 {
				take(t, s, checkOf(fmt.Sprint("contended", i%2), rule, 1))
			}
		})
	}
	all.Wait()
}

// The isolation level and other defaults of the application's database change nothing.
func TestOtherDefaultsOfTheDatabase(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"default_transaction_isolation=serializable", "default_transaction_isolation='repeatable read'", "search_path=pg_catalog", "bytea_output=escape", "timezone='America/St_Johns'", "standard_conforming_strings=off"} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			name, value, _ := strings.Cut(setting, "=")
			c := must.Get(pgxpool.ParseConfig(pgtest.Shared(t).ConnString("") + " pool_max_conns=8"))(t)
			c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
				_, err := conn.Exec(ctx, "SET "+name+"="+value)
				return err
			}
			pool := must.Get(pgxpool.NewWithConfig(t.Context(), c))(t)
			t.Cleanup(pool.Close)
			config := migrated(t, pool)
			rule := mustRule(t, core.Per(30, longWindow).SlidingLog().Named("plan"))
			contend(t, pool, config, rule)
			for i := range 2 {
				check.Equal(t, "left", take(t, pgstore.New(pool, config), checkOf(fmt.Sprint("contended", i), rule, 0))[0].Remaining, 10)
			}
		})
	}
}
