package quota

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/testclock"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/micros"
)

// The store's clock crosses the end of a period and comes back, once and again. The store goes on in the
// period that has begun, and so does the ledger: each charge counts in one period, and its day and what
// is exported lie inside that.
func TestAChargeCountsInOnePeriod(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		m := fresh()
		var now atomic.Int64
		testclock.Set(m, now.Load)
		config := byHand(m)
		b := bookOn(t, l, config)
		limiterOn(t, b.Store(), monthly(1000))
		e := newEngine(t)
		mustOpenExport(t, l, beginning)
		midnight := time.Date(2026, time.May, 1, 0, 0, 0, 0, time.UTC)
		var granted int64
		for _, seconds := range []int64{-35, 30, -35, 1, -20, -3600, 2, 40} {
			now.Store(midnight.UnixMicro() + seconds*1e6)
			checks, results := takeFrom(t, b, "tenant:acme", 10)
			takeFrom(t, b, "tenant:acme", 5)
			check.OK(t, b.Store().Refund(t.Context(), checks, results)) // of the period that was charged
			granted += 5
			mustFlushBook(t, b)
			passBy(t, l, e.billing(), "one", false)
		}
		var got []string
		for _, u := range usesOf(t, b, Query{From: beginning, To: micros.FarFuture}) {
			got = append(got, fmt.Sprintf("%s %d", u.Start.Format(time.DateOnly), u.Used))
		}
		check.Equal(t, "accounts", fmt.Sprint(got), fmt.Sprintf("[2026-04-01 5 2026-05-01 %d]", granted-5))
		for _, d := range daysOf(t, l, Query{From: beginning, To: micros.FarFuture}) {
			if day := micros.Date(d.Date); day.Before(micros.Time(d.Start)) || !day.Before(micros.Time(d.End)) {
				t.Errorf("%d units on %v are of the period from %v", d.Used, day, micros.Time(d.Start))
			}
		}
		if !e.equals(t, l) {
			t.Errorf("the engine has %v", e.sums)
		}
		var account store.Account
		peek := []store.Check{{Key: []byte("tenant:acme"), Rule: ruleOf(t, monthly(1000)), Account: &account}}
		must.OK(t, b.Store().Peek(t.Context(), peek, make([]store.Result, 1)))
		check.Equal(t, "units in the store", account.Used, granted-5)
	})
}

// What Reconcile writes of an account whose period has not begun by the store's clock lies inside that period.
func TestReconcileBeforeAPeriodBegins(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		m := fresh()
		month := time.Now().UTC().AddDate(0, 1, 0)
		begins := time.Date(month.Year(), month.Month(), 1, 0, 0, 0, 0, time.UTC)
		var now atomic.Int64
		now.Store(begins.UnixMicro() + 1e6)
		testclock.Set(m, now.Load)
		killed, b := bookOn(t, l, byHand(m)), bookOn(t, l, byHand(m))
		limiterOn(t, killed.Store(), monthly(1000))
		limiterOn(t, b.Store(), monthly(1000))
		takeFrom(t, killed, "tenant:acme", 3)
		now.Add(-10e6)
		takeFrom(t, killed, "tenant:acme", 4)
		if sum := must.Get(b.Reconcile(t.Context(), true, nil))(t); sum.Repaired != 1 {
			t.Errorf("%+v", sum)
		}
		days := daysOf(t, l, Query{From: begins.AddDate(0, -2, 0), To: micros.FarFuture})
		if len(days) != 1 || !micros.Date(days[0].Date).Equal(begins) || days[0].Used != 7 {
			t.Errorf("days: %+v, want 7 units on %v", days, begins)
		}
	})
}
