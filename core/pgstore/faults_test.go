package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/pgstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/keyfuncs"
)

// faulty is a store on a server of the test's own.
type faulty struct {
	*pgtest.Server
	*pgstore.Store
	rule *core.Rule
}

func newFaulty(t *testing.T) *faulty {
	t.Helper()
	server := pgtest.Start(t)
	s := must.Get(pgstore.Open(t.Context(), newPool(t, server.ConnString("")+" pool_max_conns=4"), pgstore.Config{Timeout: ample}))(t)
	s.OnEvent(func(store.Event) {}) // not into the test's output
	return &faulty{server, s, mustRule(t, core.Per(1000, longWindow).FixedWindow().Named("plan"))}
}

// recovers waits until the store decides again, and returns what is left.
func (f *faulty) recovers(t *testing.T) (left int64) {
	t.Helper()
	wait.For(t, "recovery", func() error {
		results := make([]core.Result, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := f.Peek(ctx, []core.Check{checkOf("k", f.rule, 0)}, results)
		left = results[0].Remaining
		return err
	})
	return left
}

func TestKilledAndRestarted(t *testing.T) {
	t.Parallel()
	f := newFaulty(t)
	take(t, f, checkOf("k", f.rule, 10))
	f.Kill()
	seen := map[store.Class]int{}
	for range 20 {
		_, err := takeWithin(f, ample, checkOf("k", f.rule, 1))
		seen[classOf(err)]++
	}
	if seen[store.ClassConnection] == 0 || seen[store.ClassOpen] == 0 || seen[store.ClassConnection]+seen[store.ClassOpen] != 20 {
		t.Errorf("errors by class: %v, want connection, then breaker open", seen)
	}
	f.Restart(t)
	check.Equal(t, "left after the restart", f.recovers(t), 990)
	take(t, f, checkOf("k", f.rule, 1))
}

func TestFrozenServersAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	f := newFaulty(t)
	take(t, f, checkOf("k", f.rule, 10))
	f.Freeze(t)
	const patience = 150 * time.Millisecond
	refused := 0
	for i := 0; i < 10 || refused == 0 && i < 100; i++ {
		took, err := takeWithin(f, patience, checkOf("k", f.rule, 1))
		switch classOf(err) {
		case store.ClassTimeout:
		case store.ClassOpen:
			refused++
		default:
			t.Errorf("call %d: %v, want a timeout", i, err)
		}
		if took > patience+30*time.Second { // for a busy machine
			t.Errorf("call %d took %v, with %v of time", i, took, patience)
		}
	}
	if refused == 0 {
		t.Error("the breaker stayed closed")
	}
	// By now the server has requests whose callers have left. It must not do them.
	time.Sleep(100 * time.Millisecond) // the last call's time is over by the server's clock, too
	f.Thaw(t)
	check.Equal(t, "left after the thaw, since calls that failed are not charged", f.recovers(t), 990)
}

// broken is a way in which a store can't decide, and the class of its errors.
type broken struct {
	name  string
	class store.Class
	store func(t *testing.T, server *pgtest.Server) *pgstore.Store
}

func brokenStores() []broken {
	return []broken{
		{"no table", store.ClassUnsupported, func(t *testing.T, server *pgtest.Server) *pgstore.Store {
			return pgstore.New(newPool(t, server.ConnString("")), pgstore.Config{Schema: "missing"})
		}},
		{"wrong password", store.ClassLogin, func(t *testing.T, server *pgtest.Server) *pgstore.Store {
			role := pgtest.Name("role")
			server.Exec(t, "", "CREATE ROLE "+role+" LOGIN PASSWORD 'right'")
			return pgstore.New(newPool(t, server.ConnStringAs(role, "wrong", "")))
		}},
		{"no such database", store.ClassUnsupported, func(t *testing.T, server *pgtest.Server) *pgstore.Store {
			return pgstore.New(newPool(t, server.ConnString("nowhere")))
		}},
		{"no privilege", store.ClassPermission, func(t *testing.T, server *pgtest.Server) *pgstore.Store {
			config := migrated(t, newPool(t, server.ConnString("")))
			role := pgtest.Name("role")
			server.Exec(t, "", "CREATE ROLE "+role+" LOGIN PASSWORD 'p'; GRANT USAGE ON SCHEMA "+config.Schema+" TO "+role)
			return pgstore.New(newPool(t, server.ConnStringAs(role, "p", "")), config)
		}},
		{"read-only", store.ClassReadOnly, func(t *testing.T, server *pgtest.Server) *pgstore.Store {
			config := migrated(t, newPool(t, server.ConnString("")))
			return pgstore.New(newPool(t, server.ConnString("")+" default_transaction_read_only=on"), config)
		}},
		{"pool closed", store.ClassClosed, func(t *testing.T, server *pgtest.Server) *pgstore.Store {
			pool := newPool(t, server.ConnString(""))
			pool.Close()
			return pgstore.New(pool)
		}},
		{"pool exhausted", store.ClassOverload, func(t *testing.T, server *pgtest.Server) *pgstore.Store {
			pool := newPool(t, server.ConnString("")+" pool_max_conns=1")
			config := migrated(t, pool)
			t.Cleanup(must.Get(pool.Acquire(t.Context()))(t).Release)
			return pgstore.New(pool, config)
		}},
		{"too many connections", store.ClassOverload, func(t *testing.T, server *pgtest.Server) *pgstore.Store {
			role := pgtest.Name("role")
			server.Exec(t, "", "CREATE ROLE "+role+" LOGIN PASSWORD 'p' CONNECTION LIMIT 0")
			return pgstore.New(newPool(t, server.ConnStringAs(role, "p", "")))
		}},
		{"nobody listens", store.ClassConnection, func(t *testing.T, _ *pgtest.Server) *pgstore.Store {
			return pgstore.New(newPool(t, "host="+t.TempDir()+" user=u dbname=d"))
		}},
	}
}

func TestErrorsHaveTheirClass(t *testing.T) {
	t.Parallel()
	server := pgtest.Shared(t)
	rule := mustRule(t, core.PerHour(10).Named("hourly"))
	for _, b := range brokenStores() {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			s := b.store(t, server)
			s.OnEvent(func(store.Event) {})
			within := ample
			if b.name == "pool exhausted" { // the only one that takes all of it
				within = 300 * time.Millisecond
			}
			_, err := takeWithin(s, within, checkOf("secret-key", rule, 1))
			for within < ample && classOf(err) == store.ClassTimeout { // the machine may have stood still before there was a call
				within *= 4
				_, err = takeWithin(s, within, checkOf("secret-key", rule, 1))
			}
			check.Equal(t, fmt.Sprintf("take: class of %v", err), classOf(err), b.class)
			if strings.Contains(err.Error(), "secret-key") || strings.Contains(err.Error(), "right") {
				t.Errorf("the error holds a key or password: %v", err)
			}
			// Nothing was changed, so a charge may be sent again.
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			err = s.Charge(ctx, []core.Check{checkOf("secret-key", rule, 1)}, make([]core.Result, 1))
			var undone *store.Undone
			if !errors.As(err, &undone) || len(undone.Checks) != 1 {
				t.Errorf("charge: %v, want an Undone", err)
			}
			penalized := mustRule(t, core.PerHour(10).Named("hourly").Penalty(store.Block{After: 1, Within: time.Hour, For: time.Hour}))
			ctx, cancel = context.WithTimeout(t.Context(), within)
			defer cancel()
			for _, err := range s.Blocks(ctx, []*core.Rule{penalized}) {
				check.Equal(t, fmt.Sprintf("blocks: class of %v", err), classOf(err), b.class)
			}
		})
	}
}

// A limiter follows the outage action of its limits.
func TestLimitsFollowTheirOutagePolicy(t *testing.T) {
	t.Parallel()
	for policy, allowed := range map[core.OutageAction]bool{core.Allow: true, core.Deny: false} {
		pool := newPool(t, "host="+t.TempDir()+" user=u dbname=d")
		s := quietStore(pool)
		l := core.ForLimits(s, []core.Limit{core.PerHour(1).By(keyfuncs.ClientIP()).Named("plan").OnOutage(policy)})
		check.Equal(t, fmt.Sprintf("with outage action %v: allowed", policy), l.AllowKey(t.Context(), "k", 1).Allowed, allowed)
	}
}

// A row that somebody else has locked stalls its own key, up to the deadline, and no other.
func TestALockHeldByAnotherStallsItsKeyOnly(t *testing.T) {
	t.Parallel()
	pool, config := shared(t, "pool_max_conns=8")
	s := quietStore(pool, config)
	rule := mustRule(t, core.Per(100, longWindow).FixedWindow().Named("plan"))
	take(t, s, checkOf("locked", rule, 1))
	tx := must.Get(pool.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.Background()) }()
	must.Get(tx.Exec(t.Context(), "SELECT 1 FROM "+config.Schema+".pgstore_record FOR UPDATE"))(t)
	// Again with more time, if the machine was too slow for the other keys.
	for within, waited := time.Second, true; waited && !t.Failed(); within *= 3 {
		stalled := make(chan error, 3)
		for range cap(stalled) {
			go func() {
				_, err := takeWithin(s, within, checkOf("locked", rule, 1))
				stalled <- err
			}()
		}
		for i := range 30 {
			if took, err := takeWithin(s, ample, checkOf(fmt.Sprint("free", i), rule, 1)); err != nil {
				t.Fatalf("another key, after %v: %v", took, err)
			}
		}
		if waited = len(stalled) > 0; waited && within > ample {
			t.Error("other keys have waited until the calls of the locked one were over")
		}
		for range cap(stalled) {
			if err := <-stalled; classOf(err) != store.ClassBusy && classOf(err) != store.ClassTimeout {
				t.Errorf("the locked key: %v, want BUSY or a timeout", err)
			}
		}
	}
	must.OK(t, tx.Rollback(t.Context()))
	check.Equal(t, "left after the lock, since calls that failed are not charged", take(t, s, checkOf("locked", rule, 1))[0].Remaining, 98)
}

// Many callers of one locked row, whose time runs out at the same moment, are no outage of the server, which answers
// for all other keys.
func TestManyCallersOfALockedRowLeaveTheBreakerAlone(t *testing.T) {
	t.Parallel()
	pool, config := shared(t, "pool_max_conns=8")
	config.Timeout = ample
	rule := mustRule(t, core.Per(100, longWindow).FixedWindow().Named("plan"))
	take(t, pgstore.New(pool, config), checkOf("locked", rule, 1))
	tx := must.Get(pool.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(context.Background()) }()
	must.Get(tx.Exec(t.Context(), "SELECT 1 FROM "+config.Schema+".pgstore_record FOR UPDATE"))(t)
	// Again with more time, if the machine stood still for as long.
	for within := 300 * time.Millisecond; ; within *= 4 {
		s := pgstore.New(pool, config)
		var opened atomic.Int32
		s.OnEvent(func(e store.Event) {
			if e.Kind == store.EventBreakerOpened {
				opened.Add(1)
			}
		})
		first, leave := context.WithCancel(t.Context()) // waits for the lock, and the others for it
		var callers sync.WaitGroup
		go func() { _ = s.Take(first, []core.Check{checkOf("locked", rule, 1)}, make([]core.Result, 1)) }()
		for range 30 {
			callers.Go(func() {
				if _, err := takeWithin(s, within, checkOf("locked", rule, 1)); err == nil {
					t.Error("a locked row was charged")
				}
			})
		}
		over := make(chan struct{})
		go func() { callers.Wait(); close(over) }()
		refused := 0
		for i, waits := 0, true; waits; i++ {
			if _, err := takeWithin(s, ample, checkOf(fmt.Sprint("free", i%10), rule, 0)); err != nil {
				refused++
			}
			select {
			case <-over:
				waits = false
			default:
			}
		}
		leave()
		if refused == 0 && opened.Load() == 0 {
			return
		}
		if within > 30*time.Second {
			t.Fatalf("the breaker opened %d times, and %d calls of other keys failed", opened.Load(), refused)
		}
	}
}

// A record that can't be read is an error of its key, and leaves others and the breaker alone.
func TestUnreadableRecordsAreAnErrorOfTheirKey(t *testing.T) {
	t.Parallel()
	pool, config := shared(t)
	rule := mustRule(t, core.Per(100, longWindow).FixedWindow().Named("plan"))
	take(t, pgstore.New(pool, config), checkOf("odd", rule, 1))
	for _, state := range []string{`\x09`, `\x01`, `\x0102`, `\x01ffffffffffffffffffffffffffffffff`} {
		must.Get(pool.Exec(t.Context(), "UPDATE "+config.Schema+".pgstore_record SET version = version + 1, state = $1::text::bytea WHERE state <> ''", state))(t)
		s := pgstore.New(pool, config)
		for range 10 {
			if _, err := takeWithin(s, ample, checkOf("odd", rule, 1)); classOf(err) != store.ClassValue {
				t.Fatalf("state %s: %v, want class VALUE", state, err)
			}
		}
		if _, err := takeWithin(s, ample, checkOf("even", rule, 0)); err != nil {
			t.Errorf("another key: %v", err)
		}
	}
	s := pgstore.New(pool, config)
	if err := s.Reset(t.Context(), []core.Check{checkOf("odd", rule, 0)}); classOf(err) != "" {
		t.Errorf("a reset of it: %v", err)
	}
	take(t, s, checkOf("odd", rule, 1))
}
