package quota

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/memledger"
	"github.com/weblimit/weblimit/quota/internal/pgledger"
)

// events collects what a store reports.
type events struct {
	mu   sync.Mutex
	seen map[store.EventKind]int64
}

func (e *events) on(s *memstore.Store) {
	e.seen = make(map[store.EventKind]int64)
	s.OnEvent(func(event core.Event) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.seen[event.Kind] += max(event.Count, 1)
	})
}

func (e *events) count(kind store.EventKind) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seen[kind]
}

// PostgreSQL is away: known accounts go on from the store, unknown ones get an error at once,
// and nothing is lost.
func TestPostgreSQLAway(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		away, back func(t *testing.T, s *pgtest.Server)
	}{
		{"killed", func(_ *testing.T, s *pgtest.Server) { s.Kill() }, func(t *testing.T, s *pgtest.Server) { s.Restart(t) }},
		{"frozen", func(t *testing.T, s *pgtest.Server) { s.Freeze(t) }, func(t *testing.T, s *pgtest.Server) { s.Thaw(t) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := pgtest.Start(t)
			m := fresh()
			var seen events
			seen.on(m)
			b := must.Get(Open(t.Context(), connect(t, server.Database(t)), Config{Store: m, FlushEvery: 50 * time.Millisecond, Timeout: time.Second}))(t)
			t.Cleanup(func() { closeBook(t, b) })
			limiter := limiterOn(t, b.Store(), monthly(1000))
			knows(t, limiter, "tenant:known") // however slow a busy machine is
			must.Equal(t, "granted", spend(t, limiter, "tenant:known", 9), 9)
			tt.away(t, server)
			var known int64
			for n := 0; n < 50 || seen.count(EventLedgerOut) == 0; n++ {
				known += spend(t, limiter, "tenant:known", 1)
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				checks, results := planCheck(t, 1), make([]store.Result, 1)
				checks[0].Key = fmt.Appendf(nil, "tenant:%d", n)
				if err := b.Store().Take(ctx, checks, results); err == nil {
					t.Error("an account that nobody knows was granted")
				} else if !strings.Contains(err.Error(), "ledger") && (ctx.Err() == nil || time.Since(began) < 100*time.Millisecond) {
					t.Errorf("error %v, want one that names the ledger", err)
				}
				cancel()
				time.Sleep(time.Millisecond) // a thousand requests per second, until the ledger is given up
			}
			tt.back(t, server)
			wait.Until(t, "everything is written", func() bool { return b.Flush(t.Context()) == nil })
			check.Equal(t, "units in the ledger", b.total(t, "plan", "tenant:known"), 10+known)
			knows(t, limiter, "tenant:new")
			wait.Until(t, "that is written, too", func() bool { return b.Flush(t.Context()) == nil })
			wait.Until(t, "it is reported to be back", func() bool { return seen.count(EventLedgerBack) > 0 })
		})
	}
}

// knows waits until a tenant's request is granted, which takes a unit.
func knows(t *testing.T, limiter *core.Limiter, key string) {
	t.Helper()
	wait.Until(t, key+" is granted", func() bool {
		d := limiter.AllowKey(t.Context(), key, 1)
		return d.Err == nil && d.Allowed
	})
}

// A process that is full of accounts which it can't write leaves them to the store, and finds them again.
func TestMoreAccountsThanFit(t *testing.T) {
	t.Parallel()
	m := fresh()
	var seen events
	seen.on(m)
	l := &brokenLedger{Ledger: memledger.New(defaultLevels), random: nil}
	b := bookOn(t, l, Config{Store: m, FlushEvery: time.Minute, MaxAccounts: minMaxAccounts})
	limiterOn(t, b.Store(), monthly(100))
	checks, results := planCheck(t, 3), make([]store.Result, 1)
	for i := range 2 * minMaxAccounts {
		checks[0].Key = fmt.Appendf(nil, "tenant:%d", i)
		if err := b.Store().Take(t.Context(), checks, results); err != nil || !results[0].Charged {
			t.Fatalf("%+v, %v", results, err)
		}
	}
	if n := b.table.Entries.Load(); n > minMaxAccounts {
		t.Errorf("%d accounts are remembered, more than %d", n, minMaxAccounts)
	}
	mustFlushBook(t, b)
	b.flusher.present(t.Context())
	wait.Until(t, "all is written", func() bool { // by this call, or by one that the book had begun by itself
		var sum int64
		for _, u := range usesOf(t, b, Query{Limit: "plan"}) {
			sum += u.Used
		}
		return sum == 2*minMaxAccounts*3
	})
	if n := seen.count(EventAccountsWaiting); n < minMaxAccounts {
		t.Errorf("%d accounts were reported to wait, want at least %d", n, minMaxAccounts)
	}
}

// A book that is closed while it writes has no outage to report.
func TestACloseInAFlushIsNoOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := fresh()
		var seen events
		seen.on(m)
		h := &hanging{Ledger: memledger.New(defaultLevels)}
		b := bookOn(t, h, Config{Store: m, FlushEvery: time.Second})
		takeFrom(t, b, "tenant:acme", 9)
		h.hangs.Store(true)
		time.Sleep(1500 * time.Millisecond)
		h.hangs.Store(false) // for what is written from now on
		closeBook(t, b)
		wantUnits(t, b, 9)
		check.Equal(t, "outages", seen.count(EventLedgerOut), 0)
	})
}

func TestCloseIsBounded(t *testing.T) {
	t.Parallel()
	l := pgLedgerOf(t)
	b, _ := byHandOn(t, l, 100)
	takeFrom(t, b, "tenant:acme", 5)
	letGo := locked(t, l, "generation")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	check.Fails(t, "Close of a book that can't write", b.Close(ctx), "closing the book")
	if took := time.Since(began); took > 30*time.Second { // a statement has a minute
		t.Errorf("Close took %v", took)
	}
	check.Fails(t, "Close once more", b.Close(ctx), "closing the book") // nothing is written yet
	letGo()
	closeBook(t, b)
	wantUnits(t, b, 5)
	closeBook(t, b)
}

// locked keeps all others from a table, as a server that hangs does, until the test calls letGo or ends.
func locked(t *testing.T, l *pgledger.Ledger, table string) (letGo func()) {
	t.Helper()
	tx := must.Get(l.Pool.Begin(t.Context()))(t)
	must.Get(tx.Exec(t.Context(), l.SQL("LOCK TABLE {schema}."+table)))(t)
	letGo = sync.OnceFunc(func() { _ = tx.Rollback(context.Background()) })
	t.Cleanup(letGo)
	return letGo
}

// Each level is noted once, whichever process reaches it.
func TestNotices(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		m := fresh()
		a, b := bookOn(t, l, byHand(m)), bookOn(t, l, byHand(m))
		must.OK(t, l.OpenChannels(t.Context(), []string{"mail"}))
		limit := monthly(100).Soft(50)
		limiterOn(t, a.Store(), limit)
		checks, results := []store.Check{{Key: []byte("tenant:acme"), Rule: ruleOf(t, limit), Cost: 1}}, make([]store.Result, 1)
		for i := range 60 {
			must.OK(t, []*Book{a, b}[i%2].Store().Take(t.Context(), checks, results))
			if i%7 == 0 {
				mustFlushBook(t, a)
			}
		}
		mustFlushBook(t, a, b)
		var levels []string
		for _, d := range listOf(t, l, DeliveryQuery{}) {
			levels = append(levels, fmt.Sprintf("%d of %d/%d", d.Notice.Level, d.Notice.Included, d.Notice.Hard))
		}
		slices.Sort(levels)
		check.Equal(t, "notices", strings.Join(levels, ", "), "100 of 50/100, 80 of 50/100, 90 of 50/100")
	})
}

// A tenant whose allowance is raised gets a notice when it reaches a level again, once, and none of the
// levels that it was beyond already. A cut brings no second one.
func TestNoticesAfterARaise(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		m := fresh()
		books := []*Book{bookOn(t, l, byHand(m)), bookOn(t, l, byHand(m))}
		must.OK(t, l.OpenChannels(t.Context(), []string{"mail"}))
		limiterOn(t, books[0].Store(), monthly(1000).Soft(100))
		used := 0
		spendUntil := func(n int, included int64) {
			t.Helper()
			rule := ruleOf(t, monthly(1000).Soft(included))
			checks, results := []store.Check{{Key: []byte("tenant:acme"), Rule: rule, Cost: 1}}, make([]store.Result, 1)
			for ; used < n; used++ {
				must.OK(t, books[used%2].Store().Take(t.Context(), checks, results))
				if used%7 == 0 {
					mustFlushBook(t, books[used%3%2])
				}
			}
			mustFlushBook(t, books...)
		}
		spendUntil(102, 100) // all three
		spendUntil(115, 120) // 90 % of it; 80 % was exceeded
		spendUntil(120, 120)
		spendUntil(150, 110) // less is included
		spendUntil(185, 200)
		var levels []string
		ids := map[string]bool{}
		must.OK(t, books[0].Deliveries(t.Context(), DeliveryQuery{Channel: "mail"}, func(d Delivery) error {
			levels = append(levels, fmt.Sprintf("%d of %d", d.Notice.Level, d.Notice.Included))
			ids[d.Notice.ID] = true
			return nil
		}))
		slices.Reverse(levels)
		check.Equal(t, "notices", strings.Join(levels, ", "), "80 of 100, 90 of 100, 100 of 100, 90 of 120, 100 of 120, 80 of 200, 90 of 200")
		check.Equal(t, "ids", len(ids), 7)
		var second Notice
		must.OK(t, books[0].Deliveries(t.Context(), DeliveryQuery{}, func(d Delivery) error {
			if d.Notice.Level == 90 && d.Notice.Included == 120 {
				second = d.Notice
			}
			return nil
		}))
		n, err := books[0].Redeliver(t.Context(), "mail", second)
		check.OK(t, err)
		check.Equal(t, "notices that are delivered again", n, 1)
	})
}

// An application can start while PostgreSQL is away, and goes on where Redis is.
func TestStartWithoutPostgreSQL(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	pool := connect(t, server.Database(t))
	server.Kill()
	m := fresh()
	config := Config{Store: m, FlushEvery: 50 * time.Millisecond, Timeout: time.Minute}
	if _, err := Open(t.Context(), pool, config); err == nil || !strings.Contains(err.Error(), "making the tables") {
		t.Fatalf("without StartWithoutLedger: %v", err)
	}
	config.StartWithoutLedger = true
	b := must.Get(Open(t.Context(), pool, config))(t)
	t.Cleanup(func() { closeBook(t, b) })
	limiter := limiterOn(t, b.Store(), monthly(100))
	if d := limiter.AllowKey(t.Context(), "tenant:acme", 1); d.Err == nil {
		t.Error("an account that nobody knows was granted")
	}
	server.Restart(t)
	b.flusher.present(t.Context()) // as it does by itself every five seconds
	knows(t, limiter, "tenant:acme")
}

// A standby can be so far behind that it has no tables yet. An application starts there, too, and sends its notices once
// there are.
func TestStartOnAStandbyWithoutTables(t *testing.T) {
	t.Parallel()
	database := pgtest.Shared(t).Database(t)
	pool := connect(t, database)
	config := must.Get(pgxpool.ParseConfig(database))(t)
	config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "off" // for what turns it on and off
	admin := must.Get(pgxpool.NewWithConfig(t.Context(), config))(t)
	t.Cleanup(admin.Close)
	readOnly := func(on string) {
		must.Do(admin.Exec(t.Context(), fmt.Sprintf("ALTER DATABASE %q SET default_transaction_read_only = %s", config.ConnConfig.Database, on)))(t)
		pool.Reset()
	}
	readOnly("on")
	sent := make(chan Notice, 10)
	m := fresh()
	b := must.Get(Open(t.Context(), pool, Config{Store: m, FlushEvery: 50 * time.Millisecond, Timeout: time.Minute, StartWithoutLedger: true, Notices: []Channel{{
		Name: "mail", Backoff: 10 * time.Millisecond, Deliver: func(_ context.Context, n Notice) error { sent <- n; return nil },
	}}}))(t)
	t.Cleanup(func() { closeBook(t, b) })
	limiter := limiterOn(t, b.Store(), monthly(100))
	readOnly("off")
	knows(t, limiter, "tenant:acme")
	limiter.AllowKeyAtMost(t.Context(), "tenant:acme", 100) // what is left of the plan
	check.Equal(t, "tenant of the notice", (<-sent).Tenant, "tenant:acme")
}

// While the ledger is away, requests do not ask it: one probe at a time does.
func TestALedgerThatIsAwayIsAskedByProbesAlone(t *testing.T) {
	t.Parallel()
	o := &opener{book: &Book{}, away: true, probe: time.Now().Add(time.Hour)}
	for range 3 {
		_, err := o.enqueue(&restoring{done: make(chan struct{})})
		check.Is(t, "a request before the probe", err, errAway)
	}
	check.Equal(t, "questions that wait", len(o.queue), 0)
}
