package quota

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/race"
	"github.com/weblimit/weblimit/internal/testclock"
	"github.com/weblimit/weblimit/keyfuncs"
)

// monthly is a limit of 100 units per month.
func monthly(n int64) core.Limit {
	return core.PerMonth(n, time.UTC).By(keyfuncs.Tenant("tenant")).Named("plan")
}

func limiterOn(t *testing.T, s store.Store, limits ...core.Limit) *core.Limiter {
	t.Helper()
	l, err := core.New(core.Config{Store: s, Limits: limits, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// bookOn returns a book over a ledger, which is closed at the end. It waits for its ledger, which on a
// busy machine is slow, and not away.
func bookOn(t *testing.T, l ledger, c Config) *Book {
	t.Helper()
	return bookWith(t, l, c, endlessPatience)
}

func bookWith(t *testing.T, l ledger, c Config, p patience) *Book {
	t.Helper()
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	if err := c.complete(); err != nil {
		t.Fatal(err)
	}
	if c.FlushEvery == maxFlushEvery { // only the test itself flushes
		c.FlushEvery = time.Hour
	}
	b, err := newBook(c, l, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeBook(t, b) })
	return b
}

func closeBook(t *testing.T, b *Book) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
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
	if err := b.ledger.usage(t.Context(), Query{Limit: limit, Tenant: textOf([]byte(key))}.all(), func(u Usage) error {
		n += u.Used
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

func mustFlushBook(t *testing.T, b *Book) {
	t.Helper()
	if err := b.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAFreshStoreGoesOnWhereTheBookIs(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		first := bookOn(t, l, Config{Store: memstore.New(memstore.Config{})})
		if got := spend(t, limiterOn(t, first.Store(), monthly(100)), "tenant:acme", 60); got != 60 {
			t.Fatalf("granted %d of 60", got)
		}
		closeBook(t, first)
		second := bookOn(t, l, Config{Store: memstore.New(memstore.Config{})})
		if got := spend(t, limiterOn(t, second.Store(), monthly(100)), "tenant:acme", 60); got != 40 {
			t.Errorf("granted %d of the 40 that are left", got)
		}
		mustFlushBook(t, second)
		if got := second.total(t, "plan", "tenant:acme"); got != 100 {
			t.Errorf("the ledger has %d units, want 100", got)
		}
	})
}

// What a process has not flushed is not lost with the store: it goes to the ledger before the
// account is restored.
func TestAStoreThatForgets(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		m := memstore.New(memstore.Config{})
		b := bookOn(t, l, Config{Store: m, FlushEvery: time.Minute})
		limiter := limiterOn(t, b.Store(), monthly(100))
		var granted int64
		for range 5 {
			granted += spend(t, limiter, "tenant:acme", 30)
			forget(t, m, "tenant:acme", monthly(100))
		}
		if granted != 100 {
			t.Errorf("granted %d units of 100", granted)
		}
		mustFlushBook(t, b)
		if got := b.total(t, "plan", "tenant:acme"); got != 100 {
			t.Errorf("the ledger has %d units, want 100", got)
		}
	})
}

// forget has a store forget a key.
func forget(t *testing.T, s store.Store, key string, limit core.Limit) {
	t.Helper()
	rule, err := limit.Rule()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Reset(t.Context(), []store.Check{{Key: []byte(key), Rule: &rule}}); err != nil {
		t.Fatal(err)
	}
}

func TestLimitsAreDecidedTogether(t *testing.T) {
	t.Parallel()
	b := InMemory(Config{Store: memstore.New(memstore.Config{})})
	t.Cleanup(func() { closeBook(t, b) })
	burst := core.PerHour(3).By(keyfuncs.Tenant("tenant")).Named("burst")
	trial := core.PerCalendarDay(2, time.UTC).By(keyfuncs.Tenant("tenant")).Named("trial").Shadow()
	limiter := limiterOn(t, b.Store(), burst, monthly(100), trial)
	if got := spend(t, limiter, "tenant:acme", 10); got != 3 {
		t.Errorf("granted %d, want the 3 of the other limit", got)
	}
	mustFlushBook(t, b)
	if got := b.total(t, "plan", "tenant:acme"); got != 3 {
		t.Errorf("the ledger has %d units of the plan, want 3", got)
	}
	if got := b.total(t, "trial", "tenant:acme"); got != 2 {
		t.Errorf("the ledger has %d units of the shadow limit, want its 2", got)
	}
}

// Keys that another limit denies get no account: whoever makes up keys must get past that limit first.
func TestDeniedKeysHaveNoAccounts(t *testing.T) {
	t.Parallel()
	b := InMemory(Config{Store: memstore.New(memstore.Config{})})
	t.Cleanup(func() { closeBook(t, b) })
	everyone := core.PerHour(5).By(keyfuncs.Everyone()).Named("everyone")
	l := limiterOn(t, b.Store(), everyone, monthly(100))
	strict := func(key string) store.Check {
		r, _ := everyone.Rule()
		_ = key
		return store.Check{Key: []byte("everyone"), Rule: &r, Cost: 1}
	}
	_ = l
	plan, err := monthly(100).Rule()
	if err != nil {
		t.Fatal(err)
	}
	results := make([]store.Result, 2)
	for i := range 20 {
		checks := []store.Check{strict(""), {Key: fmt.Appendf(nil, "tenant:%d", i), Rule: &plan, Cost: 1}}
		if err := b.Store().Take(t.Context(), checks, results); err != nil {
			t.Fatal(err)
		}
		if want := i < 5; results[0].Allowed != want || results[1].Charged != want || !results[1].Allowed {
			t.Errorf("check %d: %+v", i, results)
		}
	}
	if n := len(b.ledger.(*memoryLedger).accounts); n != 5 {
		t.Errorf("%d accounts, want those of the 5 keys that were charged", n)
	}
}

func TestRefundsAndSettlements(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		m := memstore.New(memstore.Config{})
		b := bookOn(t, l, Config{Store: m, FlushEvery: time.Minute})
		limiterOn(t, b.Store(), monthly(100))
		rule, err := monthly(100).Rule()
		if err != nil {
			t.Fatal(err)
		}
		key := []byte("tenant:acme")
		checks, results := []store.Check{{Key: key, Rule: &rule, Cost: 10}}, make([]store.Result, 1)
		for _, lost := range []bool{false, true} {
			if err := b.Store().Take(t.Context(), checks, results); err != nil || !results[0].Charged {
				t.Fatalf("Take: %+v, %v", results, err)
			}
			if lost {
				forget(t, m, "tenant:acme", monthly(100))
			}
			if err := b.Store().Refund(t.Context(), checks, results); err != nil {
				t.Fatal(err)
			}
			if lost {
				forget(t, m, "tenant:acme", monthly(100))
			}
			if err := b.Store().Charge(t.Context(), checks, results); err != nil {
				t.Fatal(err)
			}
		}
		mustFlushBook(t, b)
		if got := b.total(t, "plan", "tenant:acme"); got != 20 {
			t.Errorf("the ledger has %d units, want 20", got)
		}
		if checks[0].Rule != &rule {
			t.Error("the caller's check has another rule")
		}
	})
}

func TestResetIsAnError(t *testing.T) {
	t.Parallel()
	b := InMemory(Config{Store: memstore.New(memstore.Config{})})
	t.Cleanup(func() { closeBook(t, b) })
	burst := core.PerHour(3).By(keyfuncs.Tenant("tenant")).Named("burst")
	limiter := limiterOn(t, b.Store(), burst, monthly(100))
	spend(t, limiter, "tenant:acme", 3)
	if err := limiter.Reset(t.Context(), "tenant:acme"); !errors.Is(err, ErrKept) {
		t.Errorf("Reset: %v, want %v", err, ErrKept)
	}
	if got := spend(t, limiter, "tenant:acme", 10); got != 3 {
		t.Errorf("granted %d, want the 3 of the limit that is not kept", got)
	}
	mustFlushBook(t, b)
	if got := b.total(t, "plan", "tenant:acme"); got != 6 {
		t.Errorf("the ledger has %d units, want 6", got)
	}
}

// Periods and days are those of the calendar, and the last use of a period is not the next one's.
func TestPeriodsInTheBook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		berlin, err := time.LoadLocation("Europe/Berlin")
		if err != nil {
			t.Skip(err)
		}
		m := memstore.New(memstore.Config{})
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
		if err := b.ledger.usage(t.Context(), q, func(u Usage) error {
			got = append(got, fmt.Sprintf("%s %s %d", u.Start.In(berlin).Format("0102 15:04"), u.End.In(berlin).Format("0102 15:04"), u.Used))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		want := []string{"0930 00:00 1031 00:00 2", "1031 00:00 1130 00:00 60", "1130 00:00 1231 00:00 18"}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("accounts %q, want %q", got, want)
		}
		days, err := b.ledger.days(t.Context(), q)
		if err != nil || len(days) != 40 {
			t.Fatalf("%d days, %v", len(days), err)
		}
		for i, d := range days {
			if want := time.Date(2027, time.October, 30+i, 0, 0, 0, 0, time.UTC); !dateOf(d.date).Equal(want) || d.used != 2 {
				t.Errorf("day %d: %v with %d units, want %v with 2", i, dateOf(d.date), d.used, want)
			}
		}
		closeBook(t, b)
	})
}

func TestManyRequestsForOneUnknownAccount(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		a := bookOn(t, l, Config{Store: memstore.New(memstore.Config{})})
		spend(t, limiterOn(t, a.Store(), monthly(100)), "tenant:acme", 70)
		closeBook(t, a)
		m := memstore.New(memstore.Config{})
		var books []*Book
		for range 2 { // two processes with one store
			books = append(books, bookOn(t, l, Config{Store: m}))
		}
		var mu sync.Mutex
		var granted int64
		var group sync.WaitGroup
		for i := range 32 {
			group.Go(func() {
				checks, results := planCheck(t, 1), make([]store.Result, 1)
				for range 5 {
					if err := books[i%2].Store().Take(t.Context(), checks, results); err != nil {
						t.Error(err)
						return
					}
					if results[0].Charged {
						mu.Lock()
						granted++
						mu.Unlock()
					}
				}
			})
		}
		group.Wait()
		if granted != 30 {
			t.Errorf("granted %d of the 30 that are left", granted)
		}
		for _, b := range books {
			mustFlushBook(t, b)
		}
		if got := books[0].total(t, "plan", "tenant:acme"); got != 100 {
			t.Errorf("the ledger has %d units, want 100", got)
		}
	})
}

// planCheck returns a check of the monthly limit, of 100 units.
func planCheck(t *testing.T, cost int64) []store.Check {
	t.Helper()
	rule, err := monthly(100).Rule()
	if err != nil {
		t.Fatal(err)
	}
	return []store.Check{{Key: []byte("tenant:acme"), Rule: &rule, Cost: cost}}
}

func TestTheHotPathAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	b := InMemory(Config{Store: memstore.New(memstore.Config{}), FlushEvery: time.Minute})
	t.Cleanup(func() { closeBook(t, b) })
	rule, err := monthly(1 << 40).Rule()
	if err != nil {
		t.Fatal(err)
	}
	checks, results := []store.Check{{Key: []byte("tenant:acme"), Rule: &rule, Cost: 1}}, make([]store.Result, 1)
	if n := testing.AllocsPerRun(1000, func() { _ = b.Store().Take(t.Context(), checks, results) }); n > 0 {
		t.Errorf("%v allocations per check", n)
	}
}

// An operation is charged once, however many processes repeat it, and across a store that forgets the
// account but not the operation.
func TestOperationsOfRequestsAreChargedOnce(t *testing.T) {
	t.Parallel()
	eachLedger(t, func(t *testing.T, l ledger) {
		m := memstore.New(memstore.Config{})
		limit := monthly(100).OncePer(keyfuncs.Header("Idempotency-Key"), time.Hour).Repeats(1000)
		rule, err := limit.Rule()
		if err != nil {
			t.Fatal(err)
		}
		books := []*Book{bookOn(t, l, Config{Store: m}), bookOn(t, l, Config{Store: m})}
		limiterOn(t, books[0].Store(), limit)
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				checks := []store.Check{{Key: []byte("tenant:acme"), Rule: &rule, Cost: 5, Once: []byte("order-1")}}
				results := make([]store.Result, 1)
				for range 125 {
					if err := books[i%2].Store().Take(t.Context(), checks, results); err != nil || !results[0].Allowed {
						t.Errorf("%+v, %v", results, err)
					}
				}
			})
		}
		group.Wait()
		for _, b := range books {
			mustFlushBook(t, b)
		}
		if got := books[0].total(t, "plan", "tenant:acme"); got != 5 {
			t.Errorf("the ledger has %d units after 1,000 repeats, want 5", got)
		}
	})
}

// slowLedger calls a function before it begins accounts.
type slowLedger struct {
	ledger
	before func()
}

func (s *slowLedger) begin(ctx context.Context, o []opening, p []position, a []begun) error {
	s.before()
	return s.ledger.begin(ctx, o, p, a)
}

// The ledger takes so long that the next period has begun.
func TestAPeriodThatEndsMeanwhile(t *testing.T) {
	t.Parallel()
	m := memstore.New(memstore.Config{})
	var now atomic.Int64
	now.Store(time.Date(2028, time.February, 29, 23, 59, 59, 999_000_000, time.UTC).UnixMicro())
	testclock.Set(m, now.Load)
	l := &slowLedger{ledger: newMemoryLedger(defaultLevels), before: func() { now.Add(2000) }}
	b := bookOn(t, l, Config{Store: m, FlushEvery: time.Minute})
	checks, results := planCheck(t, 7), make([]store.Result, 1)
	if err := b.Store().Take(t.Context(), checks, results); err != nil || !results[0].Charged {
		t.Fatalf("%+v, %v", results, err)
	}
	mustFlushBook(t, b)
	var got []string
	for u, err := range b.Usage(t.Context(), Query{To: farFuture}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %d", u.Start.Format(time.DateOnly), u.Used))
	}
	if want := "[2028-02-01 0 2028-03-01 7]"; fmt.Sprint(got) != want {
		t.Errorf("accounts %v, want %s", got, want)
	}
}
