package pgstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/pgstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
)

// A migration may run twice, at once, and by a role that may only use what is there.
func TestMigrate(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	connString := server.Database(t)
	pool := newPool(t, connString+" pool_max_conns=8")
	errs := make(chan error, 8)
	for range cap(errs) {
		go func() { errs <- pgstore.Migrate(t.Context(), pool) }()
	}
	for range cap(errs) {
		check.OK(t, <-errs)
	}
	var versions int
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM weblimit.pgstore_version").Scan(&versions); err != nil || versions != 2 {
		t.Errorf("%d versions, %v", versions, err)
	}

	role := pgtest.Name("role")
	for _, sql := range []string{
		"CREATE ROLE " + role + " LOGIN PASSWORD 'p'",
		"GRANT USAGE ON SCHEMA weblimit TO " + role,
		"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA weblimit TO " + role,
	} {
		must.Get(pool.Exec(t.Context(), sql))(t)
	}
	_, database, _ := strings.Cut(connString, "dbname='")
	narrow := newPool(t, server.ConnStringAs(role, "p", strings.TrimSuffix(database, "'")))
	_, err := pgstore.Open(t.Context(), narrow, pgstore.Config{Schema: "another"})
	check.Contains(t, "what a role is told that may not make the schema", fmt.Sprint(err), "call pgstore.Migrate once with a role that may CREATE on the database")
	s, err := pgstore.Open(t.Context(), narrow)
	if err != nil {
		t.Fatalf("a role without rights to change the schema: %v", err)
	}
	rule := mustRule(t, core.Per(3, longWindow).Named("plan").Penalty(store.Block{After: 1, Within: time.Hour, For: time.Hour}))
	take(t, s, checkOf("k", rule, 3))
	take(t, s, checkOf("k", rule, 1))
	for b, err := range s.Blocks(t.Context(), []*core.Rule{rule}) {
		if b.Key != "k" || err != nil {
			t.Errorf("block of %q, %v", b.Key, err)
		}
	}
}

// A schema of the first version gets what the second added.
func TestMigrateAddsWhatIsMissing(t *testing.T) {
	t.Parallel()
	pool, config := shared(t)
	for _, sql := range []string{
		"DROP FUNCTION " + config.Schema + ".pgstore_swap_2",
		"DELETE FROM " + config.Schema + ".pgstore_version WHERE version = 2",
	} {
		must.Get(pool.Exec(t.Context(), sql))(t)
	}
	s := must.Get(pgstore.Open(t.Context(), pool, config))(t)
	take(t, s, checkOf("k", mustRule(t, core.PerHour(3).Named("plan")), 3))
}
