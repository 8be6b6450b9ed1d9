package quota

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/internal/test/pgtest"
)

func TestMigrationsAtTheSameTimeAndTwice(t *testing.T) {
	t.Parallel()
	database := pgtest.Shared(t).Database(t)
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			pool := connect(t, database)
			for range 2 {
				b, err := Open(t.Context(), pool, Config{Store: memstore.New(memstore.Config{}), Timeout: time.Minute})
				if err != nil {
					t.Error(err)
					return
				}
				closeBook(t, b)
			}
		})
	}
	group.Wait()
	var versions int
	if err := connect(t, database).QueryRow(t.Context(), "SELECT count(*) FROM weblimit.migration").Scan(&versions); err != nil || versions != 3 {
		t.Errorf("%d versions, %v", versions, err)
	}
}

func TestSchemasAreApart(t *testing.T) {
	t.Parallel()
	pool := poolOf(t)
	for _, schema := range []string{"one", "two"} {
		b, err := Open(t.Context(), pool, Config{Store: memstore.New(memstore.Config{}), Schema: schema, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		limiter := limiterOn(t, b.Store(), monthly(100))
		if got := spend(t, limiter, "tenant:acme", 120); got != 100 {
			t.Errorf("schema %s: granted %d of 100", schema, got)
		}
		closeBook(t, b)
	}
}

// Months without a partition get one when they are needed, from many processes at once, and
// old ones can be detached.
func TestPartitions(t *testing.T) {
	t.Parallel()
	pool := poolOf(t)
	l := newPGLedger(pool, "weblimit", defaultLevels)
	if err := l.migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.prepare(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for _, m := range []time.Month{time.January, time.February, time.March} {
				a := month("plan", fmt.Sprintf("tenant:%d", i), m)
				if err := l.begin(t.Context(), []opening{{account: a}}, []position{at(a, 1, 2, 5, 60)}, make([]begun, 1)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	b := bookOn(t, l, Config{Store: memstore.New(memstore.Config{})})
	limiterOn(t, b.Store(), monthly(100))
	if _, err := b.Detach(t.Context(), time.Now()); err == nil {
		t.Error("months that have not ended were detached")
	}
	credit := Credit{Operation: "1", Limit: "plan", Tenant: "tenant:1", Units: 10}
	if _, err := b.Credit(t.Context(), credit); err != nil {
		t.Fatal(err)
	}
	tables, err := b.Detach(t.Context(), time.Date(2026, time.March, 15, 0, 0, 0, 0, time.UTC))
	want := []string{
		"weblimit.account_2026_01", "weblimit.account_2026_02", "weblimit.generation_2026_01", "weblimit.generation_2026_02",
		"weblimit.day_2026_01", "weblimit.day_2026_02", "weblimit.export_2026_01", "weblimit.export_2026_02",
		"weblimit.exported_2026_01", "weblimit.exported_2026_02",
	}
	if err != nil || !slices.Equal(tables, want) {
		t.Errorf("detached %q, %v; want %q", tables, err, want)
	}
	if got := usedOf(t, l, month("plan", "tenant:1", time.March)); got != 5 {
		t.Errorf("March has %d units, want 5", got)
	}
	if got := usedOf(t, l, month("plan", "tenant:1", time.February)); got != -1 {
		t.Errorf("February has %d units after it was detached", got)
	}
}
