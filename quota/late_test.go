package quota

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/memledger"
)

// gated is a ledger that begins accounts when the test lets it.
type gated struct {
	ledger.Ledger
	gate chan struct{}
}

func (g gated) Begin(ctx context.Context, openings []ledger.Opening, positions []ledger.Position, answers []ledger.Begun) error {
	select {
	case <-g.gate:
		return g.Ledger.Begin(ctx, openings, positions, answers)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// slowly runs a test of two books with one store, whose limiters share what they grant by themselves, as those of one process. Their ledger does not begin accounts until the gate is opened.
func slowly(t *testing.T, f func(t *testing.T, l gated, books []*Book, limiters []*core.Limiter)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2000, time.February, 10, 0, 0, 0, 0, time.UTC)))
		l, m := gated{memledger.New(defaultLevels), make(chan struct{})}, fresh()
		var books []*Book
		var limiters []*core.Limiter
		for range 2 {
			c := byHand(m)
			c.Timeout = 5 * time.Second
			books = append(books, bookWith(t, l, c, usualPatience))
			limiter, err := core.New(core.Config{Store: books[len(books)-1].Store(), Limits: []core.Limit{monthly(100).OnOutage(core.Deny)}})
			if err != nil {
				t.Fatal(err)
			}
			limiters = append(limiters, limiter)
		}
		f(t, l, books, limiters)
		for _, b := range books {
			closeBook(t, b)
		}
	})
}

// A ledger that is late, such as at a moment at which very many tenants are new, makes no request fail, whatever is chosen
// for an outage: the process grants its share of what a tenant has, here all of it, and the store is told as soon as it knows the
// account.
func TestALateLedger(t *testing.T) {
	slowly(t, func(t *testing.T, l gated, books []*Book, limiters []*core.Limiter) {
		const tenants = 50
		granted := make(map[string]int)
		reasons := make(map[core.Reason]int)
		ask := func(tenant string, n int) {
			t.Helper()
			d := limiters[n%2].AllowKey(t.Context(), tenant, 1)
			if reasons[d.Reason]++; d.Allowed {
				granted[tenant]++
			}
		}
		for n := range 6 {
			for i := range tenants {
				ask(fmt.Sprintf("tenant:%d", i), n)
			}
		}
		for n := range 150 {
			ask("tenant:greedy", n)
		}
		check.Equal(t, "granted to the one that asks for more than it has", granted["tenant:greedy"], 100)
		check.Equal(t, "decisions", fmt.Sprint(reasons), fmt.Sprint(map[core.Reason]int{core.ReasonOutageLocal: 6*tenants + 150}))
		close(l.gate)
		synctest.Wait()
		for n := range 20 { // which tell the store
			ask("tenant:greedy", n)
			for i := range tenants {
				ask(fmt.Sprintf("tenant:%d", i), n)
			}
		}
		check.Equal(t, "granted to it at most, the quota once more", granted["tenant:greedy"] <= 200, true)
		for _, b := range books {
			mustFlushBook(t, b)
		}
		for tenant, n := range granted {
			check.Equal(t, tenant+": units in the ledger", books[0].total(t, "plan", tenant), int64(n))
		}
	})
}

// A ledger that has failed is away, which is an outage: the limit's policy decides.
func TestALedgerThatFails(t *testing.T) {
	slowly(t, func(t *testing.T, l gated, _ []*Book, limiters []*core.Limiter) {
		check.Equal(t, "while it is late", limiters[0].AllowKey(t.Context(), "tenant:a", 1).Reason, core.ReasonOutageLocal)
		time.Sleep(6 * time.Second)
		d := limiters[0].AllowKey(t.Context(), "tenant:b", 1)
		check.Equal(t, "after it has failed", d.Reason, core.ReasonOutageDenied)
		close(l.gate)
		time.Sleep(2 * probeEvery)
		_ = limiters[0].AllowKey(t.Context(), "tenant:b", 1)
		check.OK(t, limiters[0].AllowKey(t.Context(), "tenant:c", 1).Err)
	})
}
