package quota

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/memledger"
	"github.com/weblimit/weblimit/quota/internal/terms"
)

// hanging is a ledger that, while it hangs, answers no question that a request could wait for.
type hanging struct {
	ledger.Ledger
	hangs atomic.Bool
	asked atomic.Int64 // for allowances
}

func (h *hanging) wait(ctx context.Context) error {
	if h.hangs.Load() {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (h *hanging) Facts(ctx context.Context, limit string, tenants []string) (map[string]*terms.Facts, error) {
	h.asked.Add(1)
	if err := h.wait(ctx); err != nil {
		return nil, err
	}
	return h.Ledger.Facts(ctx, limit, tenants)
}

func (h *hanging) Begin(ctx context.Context, openings []ledger.Opening, positions []ledger.Position, answers []ledger.Begun) error {
	if err := h.wait(ctx); err != nil {
		return err
	}
	return h.Ledger.Begin(ctx, openings, positions, answers)
}

func (h *hanging) Flush(ctx context.Context, positions []ledger.Position) error {
	if err := h.wait(ctx); err != nil {
		return err
	}
	return h.Ledger.Flush(ctx, positions)
}

// inFebruary runs a test in a month that ends an hour and a half later, of which the store's and the process's clocks
// are one.
func inFebruary(t *testing.T, f func(t *testing.T, l *hanging, b *Book, limiter *core.Limiter)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2000, time.February, 29, 22, 30, 0, 0, time.UTC)))
		l := &hanging{Ledger: memledger.New(defaultLevels)}
		c := byHand(fresh())
		c.Timeout = 5 * time.Second
		b := bookWith(t, l, c, usualPatience)
		synctest.Wait() // it hears of changes
		plan := core.PerMonth(100, time.UTC).Named("plan").OnOutage(core.Deny)
		f(t, l, b, limiterOn(t, b.Store(), b.PerTenant(plan, keyfuncs.Header("X-Tenant"))))
		l.hangs.Store(false)
		closeBook(t, b)
	})
}

// spendAll makes requests until one is denied, and returns how many were not.
func spendAll(t *testing.T, limiter *core.Limiter, tenant string) (n int) {
	t.Helper()
	for ; n < 10_000; n++ {
		began := time.Now()
		d := limiter.Allow(request(tenant))
		if waited := time.Since(began); waited > 0 || d.Err != nil {
			t.Fatalf("request %d waited %v: %v, %v", n, waited, d.Reason, d.Err)
		}
		if !d.Allowed {
			return n
		}
	}
	return n
}

// The ledger is away when a month begins: each tenant has what it may use, exactly, and nobody waits.
func TestAMonthBeginsWhileTheLedgerIsAway(t *testing.T) {
	inFebruary(t, func(t *testing.T, l *hanging, b *Book, limiter *core.Limiter) {
		tenant := tenantOfRequest(t, "acme")
		must.OK(t, b.SetPlan(t.Context(), Plan{Limit: "plan", Name: "pro", Included: 20, Hard: 30}))
		must.OK(t, b.Assign(t.Context(), Assignment{Limit: "plan", Tenant: tenant, Plan: "pro"}))
		must.Get(b.Adjust(t.Context(), Adjustment{Operation: "a", Limit: "plan", Tenant: tenant, Units: 5, Reason: "an outage"}))(t)
		check.Equal(t, "units in February", spendAll(t, limiter, "acme"), 35)
		check.Equal(t, "units of another tenant", spendAll(t, limiter, "other"), 100)
		l.hangs.Store(true)
		time.Sleep(90 * time.Minute)
		check.Equal(t, "units in March", spendAll(t, limiter, "acme"), 30)
		check.Equal(t, "units of another tenant", spendAll(t, limiter, "other"), 100)
		l.hangs.Store(false)
		mustFlushBook(t, b)
		for _, u := range usesOf(t, b, Query{}.all()) {
			if want := map[time.Month]int64{time.February: 35, time.March: 30}; u.Tenant == tenant {
				check.Equal(t, "the ledger has of "+u.Start.String(), u.Used, want[u.Start.Month()])
			}
		}
	})
}

// What is left of credits is known when the last use of the month before is written. Until then the tenant has what
// was left when it was asked for last.
func TestCreditsWhenAMonthBegins(t *testing.T) {
	inFebruary(t, func(t *testing.T, l *hanging, b *Book, limiter *core.Limiter) {
		tenant := tenantOfRequest(t, "acme")
		must.OK(t, b.Override(t.Context(), Override{Limit: "plan", Tenant: tenant, Included: 10, Hard: 10}))
		must.Get(b.Credit(t.Context(), Credit{Operation: "c", Limit: "plan", Tenant: tenant, Units: 50}))(t)
		limiter.Allow(request("acme"))
		for range 30 {
			limiter.Allow(request("acme"))
		}
		mustFlushBook(t, b) // 21 credits are used
		time.Sleep(31 * time.Minute)
		asked := l.asked.Load()
		limiter.Allow(request("acme")) // asks again, in the hour before
		synctest.Wait()
		check.Equal(t, "questions in the hour before", l.asked.Load()-asked, 1)
		for range 5 {
			limiter.Allow(request("acme"))
		}
		check.Equal(t, "questions after that", l.asked.Load()-asked, 1)
		time.Sleep(time.Hour - time.Second)
		l.hangs.Store(true)
		time.Sleep(time.Second)
		check.Equal(t, "units in March, while the ledger does not answer", spendAll(t, limiter, "acme"), 10+50-21)
		l.hangs.Store(false)
		time.Sleep(10 * time.Second)
		mustFlushBook(t, b)
		limiter.Allow(request("acme")) // asks again
		synctest.Wait()
		d := limiter.Allow(request("acme"))
		q, _ := d.Quota()
		check.Equal(t, "hard limit, with 6 credits more that were used", q.Units, int64(10+50-27))
	})
}

// A process is killed right after a month has begun: another one finds what it has charged, though the ledger has never
// heard of these accounts.
func TestAProcessIsKilledWhenAMonthBegins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2000, time.February, 29, 23, 59, 0, 0, time.UTC)))
		l, m := memledger.New(defaultLevels), fresh()
		killed := bookWith(t, &hanging{Ledger: l}, byHand(m), usualPatience)
		limiter := limiterOn(t, killed.Store(), monthly(100))
		const tenants = 2*reconcileBatch + 7 // several pages
		for i := range tenants {
			spend(t, limiter, fmt.Sprintf("tenant:%d", i), 2)
		}
		mustFlushBook(t, killed)
		time.Sleep(time.Minute)
		for i := range tenants {
			switch i % 3 {
			case 0:
				spend(t, limiter, fmt.Sprintf("tenant:%d", i), 3)
			case 1: // only looks
				_, _ = limiter.Peek(t.Context(), fmt.Sprintf("tenant:%d", i), 1)
			}
		}
		killed.ledger.(*hanging).hangs.Store(true) // it writes nothing any more
		other := bookWith(t, l, byHand(m), usualPatience)
		limiterOn(t, other.Store(), monthly(100))
		found := make(map[Cause]int)
		count := func(d Difference) error {
			if d.Used != 0 || d.InStore != 3 || d.Start.Month() != time.March {
				t.Errorf("%+v", d)
			}
			found[d.Cause]++
			return nil
		}
		const third = (tenants + 2) / 3
		for _, want := range []struct {
			repair bool
			r      Reconciliation
		}{
			{false, Reconciliation{Accounts: third, Left: third}},
			{true, Reconciliation{Accounts: third, Repaired: third}},
			{true, Reconciliation{Accounts: third}}, // which the ledger has now
		} {
			check.Equal(t, fmt.Sprint("reconciled, with repair ", want.repair), must.Get(other.Reconcile(t.Context(), want.repair, count))(t), want.r)
		}
		check.Equal(t, "differences", fmt.Sprint(found), fmt.Sprint(map[Cause]int{CauseNotFlushed: 2 * third}))
		var sum int64
		for _, u := range usesOf(t, other, Query{From: time.Now()}) {
			sum += u.Used
		}
		check.Equal(t, "units of March", sum, 3*third)
		time.Sleep(7 * time.Hour) // the store has none any more that began by themselves
		check.Equal(t, "reconciled later", must.Get(other.Reconcile(t.Context(), true, count))(t).Repaired, 0)
		killed.ledger.(*hanging).hangs.Store(false)
		closeBook(t, killed)
		closeBook(t, other)
	})
}

// tenantOfRequest returns the tenant of a request.
func tenantOfRequest(t *testing.T, name string) string {
	t.Helper()
	key, presence := keyfuncs.Header("X-Tenant").Append(nil, request(name))
	if presence != keyfuncs.Present {
		t.Fatal("no tenant")
	}
	return string(key)
}
