package quota

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/books"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/race"
	"github.com/weblimit/weblimit/internal/testclock"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/memledger"
	"github.com/weblimit/weblimit/quota/internal/micros"
)

// monthly is a limit of 100 units per month.
func monthly(n int64) core.Limit {
	return core.PerMonth(n, time.UTC).By(keyfuncs.Tenant("tenant")).Named("plan")
}

func limiterOn(t *testing.T, s store.Store, limits ...core.Limit) *core.Limiter {
	t.Helper()
	return must.Get(core.New(core.Config{Store: s, Limits: limits, Timeout: time.Minute}))(t)
}

// ruleOf returns a limit's rule.
func ruleOf(t testing.TB, limit core.Limit) *store.Rule {
	t.Helper()
	rule := must.Get(limit.Rule())(t)
	return &rule
}

// fresh returns an empty store.
func fresh() *memstore.Store { return memstore.New(memstore.Config{}) }

// byHand configures a book that writes only when the test says so.
func byHand(s store.Store) Config { return Config{Store: s, FlushEvery: maxFlushEvery} }

// byHandOn returns such a book over a ledger, with the plan of n units, and its store.
func byHandOn(t *testing.T, l ledger.Ledger, n int64) (*Book, *memstore.Store) {
	t.Helper()
	m := fresh()
	b := bookOn(t, l, byHand(m))
	limiterOn(t, b.Store(), monthly(n))
	return b, m
}

// bookOn returns a book over a ledger, which is closed at the end, and whose store is empty unless c has
// one. It waits for its ledger, which on a busy machine is slow, and not away.
func bookOn(t *testing.T, l ledger.Ledger, c Config) *Book {
	t.Helper()
	return bookWith(t, l, c, endlessPatience)
}

func bookWith(t *testing.T, l ledger.Ledger, c Config, p patience) *Book {
	t.Helper()
	c.Timeout = cmp.Or(c.Timeout, time.Minute)
	if c.Store == nil {
		c.Store = fresh()
	}
	must.OK(t, c.complete())
	if c.FlushEvery == maxFlushEvery { // only the test itself flushes
		c.FlushEvery = time.Hour
	}
	b := must.Get(newBook(c, l, p, nil))(t)
	t.Cleanup(func() { closeBook(t, b) })
	return b
}

func closeBook(t *testing.T, b *Book) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	check.OK(t, b.Close(ctx))
}

// spend takes units for a key one by one and returns how many were granted.
func spend(t *testing.T, l *core.Limiter, key string, n int) (granted int64) {
	t.Helper()
	for range n {
		if d := l.AllowKey(t.Context(), key, 1); d.Err != nil {
			t.Errorf("%s: %v", key, d.Err)
		} else if d.Allowed {
			granted++
		}
	}
	return granted
}

// total returns what the ledger says that a key has used in all periods.
func (b *Book) total(t *testing.T, limit, key string) (n int64) {
	t.Helper()
	must.OK(t, b.ledger.Usage(t.Context(), Query{Limit: limit, Tenant: key}.all().selection(), func(u ledger.Use) error {
		n += u.Used
		return nil
	}))
	return n
}

// wantUnits compares what the ledger says that tenant:acme has used of the plan in all periods.
func wantUnits(t *testing.T, b *Book, want int64) {
	t.Helper()
	check.Equal(t, "units of the tenant in the ledger", b.total(t, "plan", "tenant:acme"), want)
}

// wantWritten has a book write what was used, and compares it.
func wantWritten(t *testing.T, b *Book, want int64) {
	t.Helper()
	mustFlushBook(t, b)
	wantUnits(t, b, want)
}

// wantGranted takes units for tenant:acme one by one, of which want are granted.
func wantGranted(t *testing.T, l *core.Limiter, n int, want int64) {
	t.Helper()
	check.Equal(t, fmt.Sprint("granted of ", n), spend(t, l, "tenant:acme", n), want)
}

func mustFlushBook(t *testing.T, books ...*Book) {
	t.Helper()
	for _, b := range books {
		must.OK(t, b.Flush(t.Context()))
	}
}

// usesOf returns what a book has by account.
func usesOf(t *testing.T, b *Book, q Query) (all []Usage) {
	t.Helper()
	for u, err := range b.Usage(t.Context(), q) {
		must.OK(t, err)
		all = append(all, u)
	}
	return all
}

func TestAFreshStoreGoesOnWhereTheBookIs(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		first := bookOn(t, l, Config{})
		wantGranted(t, limiterOn(t, first.Store(), monthly(100)), 60, 60)
		closeBook(t, first)
		second := bookOn(t, l, Config{})
		wantGranted(t, limiterOn(t, second.Store(), monthly(100)), 60, 40)
		wantWritten(t, second, 100)
	})
}

// What a process has not flushed is not lost with the store: it goes to the ledger before the
// account is restored.
func TestAStoreThatForgets(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		m := fresh()
		b := bookOn(t, l, byHand(m))
		limiter := limiterOn(t, b.Store(), monthly(100))
		var granted int64
		for range 5 {
			granted += spend(t, limiter, "tenant:acme", 30)
			forget(t, m, "tenant:acme", monthly(100))
		}
		check.Equal(t, "granted of 150", granted, 100)
		wantWritten(t, b, 100)
	})
}

// forget has a store forget a key.
func forget(t *testing.T, s store.Store, key string, limit core.Limit) {
	t.Helper()
	must.OK(t, s.Reset(t.Context(), []store.Check{{Key: []byte(key), Rule: ruleOf(t, limit)}}))
}

func TestLimitsAreDecidedTogether(t *testing.T) {
	t.Parallel()
	b := bookOn(t, memledger.New(defaultLevels), Config{})
	burst := core.PerHour(3).By(keyfuncs.Tenant("tenant")).Named("burst")
	trial := core.PerCalendarDay(2, time.UTC).By(keyfuncs.Tenant("tenant")).Named("trial").Shadow()
	limiter := limiterOn(t, b.Store(), burst, monthly(100), trial)
	wantGranted(t, limiter, 10, 3) // of the other limit
	wantWritten(t, b, 3)
	check.Equal(t, "units of the shadow limit in the ledger", b.total(t, "trial", "tenant:acme"), 2)
}

// Keys that another limit denies get no account: whoever makes up keys must get past that limit first.
func TestDeniedKeysHaveNoAccounts(t *testing.T) {
	t.Parallel()
	b := bookOn(t, memledger.New(defaultLevels), Config{})
	everyone := core.PerHour(5).By(keyfuncs.Everyone()).Named("everyone")
	limiterOn(t, b.Store(), everyone, monthly(100))
	strict, plan := ruleOf(t, everyone), ruleOf(t, monthly(100))
	results := make([]store.Result, 2)
	for i := range 20 {
		checks := []store.Check{{Key: []byte("everyone"), Rule: strict, Cost: 1}, {Key: fmt.Appendf(nil, "tenant:%d", i), Rule: plan, Cost: 1}}
		must.OK(t, b.Store().Take(t.Context(), checks, results))
		if want := i < 5; results[0].Allowed != want || results[1].Charged != want || !results[1].Allowed {
			t.Errorf("check %d: %+v", i, results)
		}
	}
	check.Equal(t, "accounts, one for each key that was charged", len(usesOf(t, b, Query{}.all())), 5)
}

func TestRefundsAndSettlements(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		b, m := byHandOn(t, l, 100)
		checks, results := planCheck(t, 10), make([]store.Result, 1)
		rule := checks[0].Rule
		for _, lost := range []bool{false, true} {
			if err := b.Store().Take(t.Context(), checks, results); err != nil || !results[0].Charged {
				t.Fatalf("Take: %+v, %v", results, err)
			}
			if lost {
				forget(t, m, "tenant:acme", monthly(100))
			}
			must.OK(t, b.Store().Refund(t.Context(), checks, results))
			if lost {
				forget(t, m, "tenant:acme", monthly(100))
			}
			must.OK(t, b.Store().Charge(t.Context(), checks, results))
		}
		wantWritten(t, b, 20)
		if checks[0].Rule != rule {
			t.Error("the caller's check has another rule")
		}
	})
}

func TestResetIsAnError(t *testing.T) {
	t.Parallel()
	b := bookOn(t, memledger.New(defaultLevels), Config{})
	burst := core.PerHour(3).By(keyfuncs.Tenant("tenant")).Named("burst")
	limiter := limiterOn(t, b.Store(), burst, monthly(100))
	spend(t, limiter, "tenant:acme", 3)
	check.Is(t, "Reset", limiter.Reset(t.Context(), "tenant:acme"), books.ErrKept)
	wantGranted(t, limiter, 10, 3) // of the limit that is not kept
	wantWritten(t, b, 6)
}

// Periods and days are those of the calendar, and the last use of a period is not the next one's.
func TestPeriodsInTheBook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		berlin, err := time.LoadLocation("Europe/Berlin")
		if err != nil {
			t.Skip(err)
		}
		m := fresh()
		now := time.Date(2027, time.October, 30, 12, 0, 0, 0, berlin)
		testclock.Set(m, func() int64 { at := now; return at.UnixMicro() })
		b := InMemory(Config{Store: m})
		limit := core.PerBillingMonth(1000, 31, berlin).By(keyfuncs.Tenant("tenant")).Named("plan")
		limiter := limiterOn(t, b.Store(), limit)
		for range 40 {
			spend(t, limiter, "tenant:acme", 2)
			now = now.Add(24 * time.Hour)
			time.Sleep(time.Second)
			synctest.Wait()
		}
		var got []string
		q := Query{}.all()
		for _, u := range usesOf(t, b, q) {
			got = append(got, fmt.Sprintf("%s %s %d", u.Start.In(berlin).Format("0102 15:04"), u.End.In(berlin).Format("0102 15:04"), u.Used))
		}
		want := []string{"0930 00:00 1031 00:00 2", "1031 00:00 1130 00:00 60", "1130 00:00 1231 00:00 18"}
		check.Equal(t, "accounts", fmt.Sprint(got), fmt.Sprint(want))
		days := daysOf(t, b.ledger, q)
		must.Equal(t, "days", len(days), 40)
		for i, d := range days {
			if want := time.Date(2027, time.October, 30+i, 0, 0, 0, 0, time.UTC); !micros.Date(d.Date).Equal(want) || d.Used != 2 {
				t.Errorf("day %d: %v with %d units, want %v with 2", i, micros.Date(d.Date), d.Used, want)
			}
		}
		closeBook(t, b)
	})
}

func TestManyRequestsForOneUnknownAccount(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		a := bookOn(t, l, Config{})
		spend(t, limiterOn(t, a.Store(), monthly(100)), "tenant:acme", 70)
		closeBook(t, a)
		m := fresh()
		var books []*Book
		for range 2 { // two processes with one store
			books = append(books, bookOn(t, l, Config{Store: m}))
		}
		var granted atomic.Int64
		var group sync.WaitGroup
		for i := range 32 {
			group.Go(func() {
				checks, results := planCheck(t, 1), make([]store.Result, 1)
				for range 5 {
					check.OK(t, books[i%2].Store().Take(t.Context(), checks, results))
					if results[0].Charged {
						granted.Add(1)
					}
				}
			})
		}
		group.Wait()
		check.Equal(t, "granted of the 30 that are left", granted.Load(), 30)
		mustFlushBook(t, books...)
		wantUnits(t, books[0], 100)
	})
}

// planCheck returns a check of the monthly limit, of 100 units.
func planCheck(t *testing.T, cost int64) []store.Check {
	t.Helper()
	return []store.Check{{Key: []byte("tenant:acme"), Rule: ruleOf(t, monthly(100)), Cost: cost}}
}

func TestTheHotPathAllocatesNothing(t *testing.T) {
	race.Skip(t)
	b := InMemory(byHand(fresh()))
	t.Cleanup(func() { closeBook(t, b) })
	rule := ruleOf(t, monthly(1<<40))
	checks, results := []store.Check{{Key: []byte("tenant:acme"), Rule: rule, Cost: 1}}, make([]store.Result, 1)
	if n := testing.AllocsPerRun(1000, func() { _ = b.Store().Take(t.Context(), checks, results) }); n > 0 {
		t.Errorf("%v allocations per check", n)
	}
}

// An operation is charged once, however many processes repeat it, and across a store that forgets the
// account but not the operation.
func TestOperationsOfRequestsAreChargedOnce(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		m := fresh()
		limit := monthly(100).OncePer(keyfuncs.Header("Idempotency-Key"), time.Hour).Repeats(1000)
		rule := ruleOf(t, limit)
		books := []*Book{bookOn(t, l, Config{Store: m}), bookOn(t, l, Config{Store: m})}
		limiterOn(t, books[0].Store(), limit)
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				checks := []store.Check{{Key: []byte("tenant:acme"), Rule: rule, Cost: 5, Once: []byte("order-1")}}
				results := make([]store.Result, 1)
				for range 125 {
					if err := books[i%2].Store().Take(t.Context(), checks, results); err != nil || !results[0].Allowed {
						t.Errorf("%+v, %v", results, err)
					}
				}
			})
		}
		group.Wait()
		mustFlushBook(t, books...)
		wantUnits(t, books[0], 5)
	})
}

// The ledger takes so long that the next period has begun.
func TestAPeriodThatEndsMeanwhile(t *testing.T) {
	t.Parallel()
	m := fresh()
	var now atomic.Int64
	now.Store(time.Date(2028, time.February, 29, 23, 59, 59, 999_000_000, time.UTC).UnixMicro())
	testclock.Set(m, now.Load)
	l := &hookedLedger{Ledger: memledger.New(defaultLevels), beforeBegin: func() error { now.Add(2000); return nil }}
	b := bookOn(t, l, byHand(m))
	checks, results := planCheck(t, 7), make([]store.Result, 1)
	if err := b.Store().Take(t.Context(), checks, results); err != nil || !results[0].Charged {
		t.Fatalf("%+v, %v", results, err)
	}
	mustFlushBook(t, b)
	var got []string
	for _, u := range usesOf(t, b, Query{To: micros.FarFuture}) {
		got = append(got, fmt.Sprintf("%s %d", u.Start.Format(time.DateOnly), u.Used))
	}
	check.Equal(t, "accounts", fmt.Sprint(got), "[2028-02-01 0 2028-03-01 7]")
}

// An account of which the store has charged what is not written, and of which an earlier generation was written late, is
// right after one Reconcile.
func TestReconcileRepairsWhatWasWrittenLateAtOnce(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		m := fresh()
		first, second, third := bookOn(t, l, byHand(m)), bookOn(t, l, byHand(m)), bookOn(t, l, byHand(m))
		spend(t, limiterOn(t, first.Store(), monthly(100)), "tenant:acme", 10)
		forget(t, m, "tenant:acme", monthly(100))
		spend(t, limiterOn(t, second.Store(), monthly(100).Named("plan")), "tenant:acme", 5) // knows nothing of the 10
		mustFlushBook(t, first)
		check.Equal(t, "differences that are repaired", must.Get(third.Reconcile(t.Context(), true, nil))(t), Reconciliation{Accounts: 1, Repaired: 1})
		if left := differencesOf(t, third, false); len(left) > 0 {
			t.Errorf("after it: %+v", left)
		}
		check.Equal(t, "in the ledger", third.total(t, "plan", "tenant:acme"), 15)
		d := limiterOn(t, third.Store(), monthly(100).Named("plan")).AllowKey(t.Context(), "tenant:acme", 1)
		check.Equal(t, "left in the store", d.Results()[0].Remaining, 84)
	})
}
