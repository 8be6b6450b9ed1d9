package quota

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/pgledger"
)

func TestMigrationsAtTheSameTimeAndTwice(t *testing.T) {
	t.Parallel()
	database := pgtest.Shared(t).Database(t)
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			pool := connect(t, database)
			for range 2 {
				if b, err := Open(t.Context(), pool, Config{Store: fresh(), Timeout: time.Minute}); err != nil {
					t.Error(err)
				} else {
					closeBook(t, b)
				}
			}
		})
	}
	group.Wait()
	var versions int
	if err := connect(t, database).QueryRow(t.Context(), "SELECT count(*) FROM weblimit.migration").Scan(&versions); err != nil || versions != 5 {
		t.Errorf("%d versions, %v", versions, err)
	}
}

// A role that may not make the schema is told what to do.
func TestARoleThatMayNotMakeTheSchema(t *testing.T) {
	t.Parallel()
	server, role := pgtest.Shared(t), pgtest.Name("role")
	must.Get(connect(t, server.ConnString("")).Exec(t.Context(), "CREATE ROLE "+role+" LOGIN PASSWORD 'p'"))(t)
	err := pgledger.New(connect(t, server.ConnStringAs(role, "p", "postgres")), pgtest.Name("book"), defaultLevels).SetUp(t.Context())
	check.Contains(t, "the error", fmt.Sprint(err), "open the book once with a role that may CREATE on the database")
}

func TestSchemasAreApart(t *testing.T) {
	t.Parallel()
	pool := poolOf(t)
	for _, schema := range []string{"one", "two"} {
		b := must.Get(Open(t.Context(), pool, Config{Store: fresh(), Schema: schema, Timeout: time.Minute}))(t)
		wantGranted(t, limiterOn(t, b.Store(), monthly(100)), 120, 100)
		closeBook(t, b)
	}
}

// Months without a partition get one when they are needed, from many processes at once, and
// old ones can be detached.
func TestPartitions(t *testing.T) {
	t.Parallel()
	pool := poolOf(t)
	l := pgledger.New(pool, "weblimit", defaultLevels)
	must.OK(t, l.Migrate(t.Context()))
	must.OK(t, l.Prepare(t.Context(), time.Now()))
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for _, m := range []time.Month{time.January, time.February, time.March} {
				a := month("plan", fmt.Sprintf("tenant:%d", i), m)
				check.OK(t, l.Begin(t.Context(), []ledger.Opening{{Account: a}}, []ledger.Position{at(a, 1, 2, 5, 60)}, make([]ledger.Begun, 1)))
			}
		})
	}
	group.Wait()
	b := bookOn(t, l, Config{})
	limiterOn(t, b.Store(), monthly(100))
	check.Fails(t, "months that have not ended were detached", check.ErrorOf(b.Detach(t.Context(), time.Now())), "")
	credit := Credit{Operation: "1", Limit: "plan", Tenant: "tenant:1", Units: 10}
	must.Get(b.Credit(t.Context(), credit))(t)
	tables, err := b.Detach(t.Context(), time.Date(2026, time.March, 15, 0, 0, 0, 0, time.UTC))
	want := []string{
		"weblimit.account_2026_01", "weblimit.account_2026_02", "weblimit.generation_2026_01", "weblimit.generation_2026_02",
		"weblimit.day_2026_01", "weblimit.day_2026_02", "weblimit.export_2026_01", "weblimit.export_2026_02",
		"weblimit.exported_2026_01", "weblimit.exported_2026_02",
	}
	if err != nil || !slices.Equal(tables, want) {
		t.Errorf("detached %q, %v; want %q", tables, err, want)
	}
	wantUsed(t, l, month("plan", "tenant:1", time.March), 5)
	wantUsed(t, l, month("plan", "tenant:1", time.February), -1)
}
