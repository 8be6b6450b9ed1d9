package billing

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/quota"
)

// poolOfBoth returns a pool of connections to whichever of two servers is as wanted, such as "read-write".
func poolOfBoth(t *testing.T, a, b *pgtest.Server, wanted string) *pgxpool.Pool {
	t.Helper()
	config := must.Get(pgxpool.ParseConfig(fmt.Sprintf("host=%s,%s port=5432,5432 user=postgres dbname=postgres sslmode=disable target_session_attrs=%s", a.Host(), b.Host(), wanted)))(t)
	config.ConnConfig.ConnectTimeout = patience
	pool := must.Get(pgxpool.NewWithConfig(context.Background(), config))(t)
	t.Cleanup(pool.Close)
	return pool
}

// spender charges tenants of a book, and knows what was granted.
type spender struct {
	*testing.T
	book    *quota.Book
	rules   []*store.Rule
	granted map[int]int64
}

func (s *spender) spend(tenants, units int) (failed error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience) // without which Redis has 3 seconds
	defer cancel()
	for n := range tenants {
		checks, results := []store.Check{{Key: []byte(tenant(n)), Rule: s.rules[0], Cost: int64(units)}}, make([]store.Result, 1)
		if err := s.book.Store().Take(ctx, checks, results); err != nil {
			failed = err
		} else if results[0].Charged {
			s.granted[n] += int64(units)
		}
	}
	return failed
}

// want compares the ledger with what was granted.
func (s *spender) want(what string) {
	s.Helper()
	used := make(map[int]int64)
	for u, err := range s.book.Usage(s.Context(), quota.Query{Limit: planName}) {
		must.OK(s, err)
		var n int
		must.Do(fmt.Sscanf(u.Tenant, "tenant:%d", &n))(s)
		used[n] = u.Used
	}
	for n, granted := range s.granted {
		if used[n] != granted {
			s.Errorf("%s: %s: the ledger has %d units, and %d were granted", what, tenant(n), used[n], granted)
			return
		}
	}
}

// A standby that has not received the last flushes takes over. While it only takes reads, the ledger is away; then
// the book goes on, and takes from Redis what the standby lacks. Nothing is lost, and nothing there twice.
func TestAStandbyTakesOver(t *testing.T) {
	t.Parallel()
	primary := pgtest.Start(t)
	standby := pgtest.StartStandby(t, primary)
	server := redistest.Start(t)
	redisStore := redisstore.New(server.Client(t))
	var out, back atomic.Int64
	redisStore.OnEvent(func(e core.Event) {
		switch e.Kind {
		case quota.EventLedgerOut:
			out.Add(1)
		case quota.EventLedgerBack:
			back.Add(1)
		}
	})
	var delivered atomic.Int64
	config := quota.Config{Store: redisStore, FlushEvery: time.Minute, Timeout: 5 * time.Second, Notices: []quota.Channel{{
		Name: "mail", Backoff: 10 * time.Millisecond, Deliver: func(context.Context, quota.Notice) error { delivered.Add(1); return nil },
	}}}
	config.FlushEvery = 100 * time.Millisecond
	pool := poolOfBoth(t, primary, standby, "read-write")
	s := &spender{T: t, granted: make(map[int]int64)}
	s.book = must.Get(quota.Open(t.Context(), pool, config))(t)
	t.Cleanup(func() { _ = s.book.Close(context.Background()) })
	s.rules = must.Get(rulesOf(s.book.Store(), limits(1000, 0)...))(t)
	flush := func() {
		t.Helper()
		wait.Until(t, "a flush", func() bool { return s.book.Flush(t.Context()) == nil })
	}
	must.OK(t, s.spend(300, 5))
	flush()
	written := primary.Exec(t, "", "SELECT pg_current_wal_lsn()")
	replayed := func() bool {
		return standby.Exec(t, "", fmt.Sprintf("SELECT pg_last_wal_replay_lsn() >= '%s'::pg_lsn", written)) == "t"
	}
	wait.Until(t, "the standby has received all", replayed)

	// Tools read from a standby.
	reading := poolOfBoth(t, standby, standby, "any")
	tool := must.Get(quota.Attach(t.Context(), reading, quota.Config{}))(t)
	statement := must.Get(tool.Statement(t.Context(), planName, tenant(7), time.Now()))(t)
	check.Equal(t, "used, by the standby", statement.Used, 5)
	_, err := tool.Credit(t.Context(), quota.Credit{Operation: "1", Limit: planName, Tenant: tenant(7), Units: 5})
	check.Fails(t, "a credit on a standby", err, "read-only")

	standby.Kill()
	must.OK(t, s.spend(200, 7)) // the standby does not get this
	must.OK(t, s.spend(2, 900))
	flush()
	primary.Kill()
	must.OK(t, s.spend(300, 1)) // Redis goes on
	standby.Restart(t)
	wait.Until(t, "the standby has replayed again what it had received", replayed)

	// An application that starts while there is nothing but a standby serves what Redis knows.
	late := config
	late.Store, late.StartWithoutLedger = redisstore.New(server.Client(t)), true
	late.Store.Registry().OnEvent(func(core.Event) {}) // no log
	if b, err := quota.Open(t.Context(), reading, late); err != nil {
		t.Errorf("a start with a standby alone: %v", err)
	} else {
		other := &spender{T: t, book: b, granted: s.granted}
		other.rules = must.Get(rulesOf(b.Store(), limits(1000, 0)...))(t)
		check.OK(t, other.spend(100, 2))
		defer func() { must.OK(t, b.Close(context.Background())) }()
	}
	wait.Until(t, "the ledger is out", func() bool { return out.Load() > 0 })
	standby.Promote(t)
	flush()
	wait.Until(t, "the ledger is back", func() bool { return back.Load() > 0 })
	must.OK(t, s.spend(300, 1))
	flush()
	var causes []quota.Cause
	for range 2 {
		must.Do(s.book.Reconcile(t.Context(), true, func(d quota.Difference) error { causes = append(causes, d.Cause); return nil }))(t)
		flush()
	}
	slices.Sort(causes)
	t.Logf("reconciled: %v", slices.Compact(causes))
	s.want("after the standby took over")
	wait.Until(t, "the notices of two tenants", func() bool { return delivered.Load() >= 2 })
}
