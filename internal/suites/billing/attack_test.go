package billing

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/quota"
)

// bookOf returns a book over servers that tests share, with its rules.
func bookOf(t *testing.T, redisServer *redistest.Server, postgreSQL, prefix string, limits ...core.Limit) (*quota.Book, []*store.Rule) {
	t.Helper()
	s := redisstore.New(redisServer.Client(t), redisstore.Config{Prefix: prefix})
	book := must.Get(quota.Open(t.Context(), connect(t, postgreSQL), quota.Config{Store: s, FlushEvery: time.Minute, Timeout: patience}))(t)
	t.Cleanup(func() { _ = book.Close(t.Context()) })
	rules := must.Get(rulesOf(book.Store(), limits...))(t)
	return book, rules
}

// Two versions of an application run side by side, of which the later one has another billing day.
// The units are in the periods of both, since a store keeps what was used when a limit's calendar
// changes, and in none of them twice.
func TestTheBillingDayChanges(t *testing.T) {
	t.Parallel()
	server, database, prefix := redistest.Shared(t), pgtest.Shared(t).Database(t), redistest.Prefix(t)
	plan := func(day int) core.Limit {
		return core.PerBillingMonth(1_000_000, day, time.UTC).By(keyfuncs.Tenant("tenant")).Named(planName)
	}
	day := time.Now().UTC().AddDate(0, 0, 10).Day()
	other := time.Now().UTC().AddDate(0, 0, 20).Day()
	before, beforeRules := bookOf(t, server, database, prefix, plan(day))
	after, afterRules := bookOf(t, server, database, prefix, plan(other))
	ctx, cancel := context.WithTimeout(t.Context(), patience) // without which Redis has 3 seconds
	defer cancel()
	take := func(b *quota.Book, rule *store.Rule, cost int64) (a store.Account) {
		checks, results := []store.Check{{Key: []byte(tenant(1)), Rule: rule, Cost: cost, Account: &a}}, make([]store.Result, 1)
		if err := b.Store().Take(ctx, checks, results); err != nil || !results[0].Charged {
			t.Fatalf("%+v, %v", results[0], err)
		}
		return a
	}
	take(before, beforeRules[0], 100)
	var granted int64 = 100
	var last store.Account
	for range 10 {
		last = take(after, afterRules[0], 10)
		take(before, beforeRules[0], 1)
		granted += 11
	}
	if n := counting.Generation(last.Position); n > 11 {
		t.Errorf("generation %d after 10 changes", n)
	}
	for _, b := range []*quota.Book{before, after} {
		must.OK(t, b.Flush(t.Context()))
	}
	for u, err := range before.Usage(t.Context(), quota.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		figure(t, "units from "+u.Start.Format(time.DateOnly), u.Used)
		if u.Used > granted {
			t.Errorf("the ledger has %d units, and %d were granted", u.Used, granted)
		}
	}
}

// Costs as large as numbers get, by a client that controls them, neither overflow anything nor keep other
// clients from being served, also when Redis forgets.
func TestLargeCosts(t *testing.T) {
	t.Parallel()
	const most = 1<<51 - 1
	server, database, prefix := redistest.Start(t), pgtest.Shared(t).Database(t), redistest.Prefix(t)
	plan := core.PerBillingMonth(most, billingDay, time.UTC).By(keyfuncs.Tenant("tenant")).Named(planName)
	book, rules := bookOf(t, server, database, prefix, plan)
	ctx, cancel := context.WithTimeout(t.Context(), patience) // without which Redis has 3 seconds
	defer cancel()
	call := func(f func(context.Context, []store.Check, []store.Result) error, key string, cost int64) store.Result {
		checks, results := []store.Check{{Key: []byte(key), Rule: rules[0], Cost: cost}}, make([]store.Result, 1)
		if err := f(ctx, checks, results); err != nil {
			t.Fatalf("%s, cost %d: %v", key, cost, err)
		}
		return results[0]
	}
	const attacker, customer = "tenant:attacker", "tenant:customer"
	for range 4 { // each time Redis has forgotten, it may go as far beyond its limit again
		call(book.Store().Take, attacker, most)
		call(book.Store().Charge, attacker, math.MaxInt64)
		call(book.Store().Charge, attacker, math.MaxInt64)
		call(book.Store().Take, attacker, math.MaxInt64)
		if r := call(book.Store().Take, customer, 1); !r.Charged {
			t.Fatalf("the customer is denied: %+v", r)
		}
		must.OK(t, server.Client(t).FlushAll(t.Context()).Err())
	}
	must.OK(t, book.Flush(t.Context()))
	must.Do(book.Reconcile(t.Context(), true, nil))(t)
	for u, err := range book.Usage(t.Context(), quota.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Tenant == customer && u.Used != 4 || u.Tenant == attacker && (u.Used < most || u.Used > 8*most) {
			t.Errorf("%s has used %d units", u.Tenant, u.Used)
		}
	}
	if _, err := book.Statement(t.Context(), planName, attacker, time.Now()); err != nil {
		t.Error(err)
	}
}

// A process is frozen for longer than a process may be silent, with units that are not written. Meanwhile
// Redis is emptied, and others go on with the accounts. Then it wakes up.
func TestFrozenForAWhile(t *testing.T) {
	if !long.Run() {
		t.Skip("takes 45 s: make long runs it")
	}
	t.Parallel()
	s := newScenario(t, 5, order{Goroutines: 64, Tenants: 100, Quota: 1 << 40, Settle: true, FlushEvery: 500 * time.Millisecond})
	for range 4 {
		s.start()
	}
	time.Sleep(1200 * time.Millisecond)
	s.note("process frozen", "%s", s.processes[0].name)
	s.processes[0].Stop(t)
	s.lose("emptied")
	time.Sleep(2 * time.Second)
	for _, p := range s.processes[1:3] { // one goes on
		p.Close()
	}
	time.Sleep(38 * time.Second)
	s.lose("emptied")
	s.processes[0].Continue(t)
	s.note("process thawed", "")
	time.Sleep(time.Second)
	s.finish()
	s.judge(t, "LONG_TESTS=1 go test -run FrozenForAWhile -v .")
}
