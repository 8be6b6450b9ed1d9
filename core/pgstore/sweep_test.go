package pgstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/pgstore"
	"github.com/weblimit/weblimit/internal/test/pgtest"
)

// Records that have ended are removed, and no others.
func TestSweep(t *testing.T) {
	t.Parallel()
	pool := newPool(t, pgtest.Shared(t).ConnString(""))
	config := migrated(t, pool)
	now := time.Now().UnixMicro()
	s := pgstore.NewAt(pool, func() int64 { return now }, config)
	short := mustRule(t, core.PerMinute(10).Named("short"))
	long := mustRule(t, core.PerDay(10).Named("long"))
	for i := range 1300 {
		take(t, s, check(fmt.Sprint(i%650), []*core.Rule{short, long}[i/650], 10))
	}
	later := pgstore.NewAt(pool, func() int64 { return now + 10*time.Minute.Microseconds() }, config)
	eventually(t, "removal", func() error {
		take(t, later, check("again", short, 1)) // a removal that failed is tried again with a call
		var n int
		if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM "+config.Schema+".pgstore_record").Scan(&n); err != nil || n != 651 {
			return fmt.Errorf("%d records, want 651: %w", n, err)
		}
		return nil
	})
	for i := range 650 {
		if got := take(t, later, check(fmt.Sprint(i), long, 0))[0].Remaining; got != 0 {
			t.Fatalf("a day's bucket was removed: %d left", got)
		}
	}
}

// Charges of a hot key leave few dead rows behind, whether or not autovacuum comes by.
func TestHotKeysLeaveFewDeadRows(t *testing.T) {
	t.Parallel()
	// In a database of its own: what other transactions there may still read is not pruned.
	pool := newPool(t, pgtest.Shared(t).Database(t))
	rule := mustRule(t, core.PerSecond(1_000_000).Named("plan"))
	const charges = 2000
	for attempt := range 5 { // PostgreSQL's own transactions, such as that of a worker that analyzes, can keep dead rows for a while
		config := migrated(t, pool) // a table of its own, since statistics of an earlier one arrive late
		s, table := pgstore.New(pool, config), config.Schema+".pgstore_record"
		if _, err := pool.Exec(t.Context(), "ALTER TABLE "+table+" SET (autovacuum_enabled = off)"); err != nil {
			t.Fatal(err)
		}
		for range charges {
			take(t, s, check("hot", rule, 1))
		}
		var updates, hot, dead, bytes int64
		if err := pool.QueryRow(t.Context(), "SELECT pg_relation_size($1::regclass)", table).Scan(&bytes); err != nil {
			t.Fatal(err)
		}
		eventually(t, "statistics", func() error {
			err := pool.QueryRow(t.Context(), "SELECT n_tup_upd, n_tup_hot_upd, n_dead_tup FROM pg_stat_all_tables WHERE relid = $1::regclass", table).Scan(&updates, &hot, &dead)
			if err == nil && updates < charges-1 {
				err = fmt.Errorf("%d updates", updates)
			}
			return err
		})
		t.Logf("attempt %d: %d updates, %d of them HOT, %d dead rows, table of %d bytes", attempt, updates, hot, dead, bytes)
		if hot >= updates*98/100 && dead <= 400 && bytes <= 20*8192 {
			return
		}
	}
	t.Error("too many dead rows each time")
}
