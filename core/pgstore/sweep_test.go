package pgstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/pgstore"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// Records that have ended are removed, and no others.
func TestSweep(t *testing.T) {
	t.Parallel()
	pool, config := shared(t)
	now := time.Now().UnixMicro()
	s := pgstore.NewAt(pool, func() int64 { return now }, config)
	short := mustRule(t, core.PerMinute(10).Named("short"))
	long := mustRule(t, core.PerDay(10).Named("long"))
	for i := range 1300 {
		take(t, s, checkOf(fmt.Sprint(i%650), []*core.Rule{short, long}[i/650], 10))
	}
	later := pgstore.NewAt(pool, func() int64 { return now + 10*time.Minute.Microseconds() }, config)
	for _, want := range []int64{500, 150, 0} {
		must.Equal(t, "records removed", later.Sweep(), want)
	}
	for i := range 650 {
		must.Equal(t, "a day's bucket was removed: left", take(t, later, checkOf(fmt.Sprint(i), long, 0))[0].Remaining, 0)
	}
}

// A store removes by itself what has ended, while it is asked something.
func TestAStoreThatIsAskedSweeps(t *testing.T) {
	t.Parallel()
	pool, config := shared(t)
	must.Get(pool.Exec(t.Context(), "INSERT INTO "+config.Schema+".pgstore_record SELECT n::text::bytea, 1, 1, '' FROM generate_series(1, 1200) n"))(t)
	s, rule := pgstore.New(pool, config), mustRule(t, core.PerMinute(1_000_000).Named("plan"))
	wait.For(t, "removal", func() (err error) {
		take(t, s, checkOf("k", rule, 1)) // a removal that failed is tried again with a call
		var n int
		if err = pool.QueryRow(t.Context(), "SELECT count(*) FROM "+config.Schema+".pgstore_record").Scan(&n); err == nil && n != 1 {
			err = fmt.Errorf("%d records, want 1", n)
		}
		return err
	})
}

// Charges of a hot key leave few dead rows behind, whether or not autovacuum comes by.
func TestHotKeysLeaveFewDeadRows(t *testing.T) {
	t.Parallel()
	// In a database of its own: what other transactions there may still read is not pruned.
	// By one connection, which can be told to report its statistics at once.
	pool := newPool(t, pgtest.Shared(t).Database(t)+" pool_max_conns=1")
	rule := mustRule(t, core.PerSecond(1_000_000).Named("plan"))
	const charges = 2000
	for attempt := range 5 { // PostgreSQL's own transactions, such as that of a worker that analyzes, can keep dead rows for a while
		config := migrated(t, pool) // a table of its own, since statistics of an earlier one arrive late
		s, table := pgstore.New(pool, config), config.Schema+".pgstore_record"
		must.Get(pool.Exec(t.Context(), "ALTER TABLE "+table+" SET (autovacuum_enabled = off)"))(t)
		for range charges {
			take(t, s, checkOf("hot", rule, 1))
		}
		var updates, hot, dead, bytes int64
		must.OK(t, pool.QueryRow(t.Context(), "SELECT pg_relation_size($1::regclass)", table).Scan(&bytes))
		wait.For(t, "statistics", func() error {
			_, _ = pool.Exec(t.Context(), "SELECT pg_stat_force_next_flush()") // PostgreSQL 14 reports them after a second
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
