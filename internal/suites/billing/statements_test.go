package billing

import (
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/quota"
)

// promise is what a tenant was given under the second limit, whose first day ends while the test runs.
type promise struct{ included, adjusted, credits int64 }

// promises gives each third tenant numbers of its own, credits and an adjustment of the first day, which
// can take more than is included.
func (s *scenario) promises(t *testing.T) {
	t.Helper()
	book, ctx := s.open(t), t.Context()
	s.promised = make(map[int]promise)
	for n := 0; n < s.order.Tenants; n += 3 {
		p := promise{included: s.random.Int64N(60), adjusted: s.random.Int64N(200) - 150, credits: 1 + s.random.Int64N(100)}
		s.promised[n] = p
		must.OK(t, book.Override(ctx, quota.Override{Limit: otherName, Tenant: tenant(n), Included: p.included, Hard: 1 << 40}))
		for i, units := range []int64{p.credits / 3, p.credits - p.credits/3} {
			if units > 0 {
				must.Get(book.Credit(ctx, quota.Credit{Operation: fmt.Sprint("credit ", n, i), Limit: otherName, Tenant: tenant(n), Units: units}))(t)
			}
		}
		if p.adjusted != 0 {
			must.Get(book.Adjust(ctx, quota.Adjustment{
				Operation: fmt.Sprint("adjustment ", n), Limit: otherName, Tenant: tenant(n), Units: p.adjusted, Reason: "test", At: time.Unix(s.order.DayEnds-1, 0),
			}))(t)
		}
	}
	must.OK(t, book.Close(ctx))
}

// compareStatements compares the statements of both days with what was promised and used: what is included is used
// first, then credits, of which the second day has what the first has left.
func (s *scenario) compareStatements(t *testing.T, book *quota.Book, ledger map[accountID]int64) (wrong []difference) {
	t.Helper()
	const day = 24 * 60 * 60
	for n, p := range s.promised {
		left, adjusted := p.credits, p.adjusted
		for _, ends := range []int64{s.order.DayEnds, s.order.DayEnds + day} {
			id := accountID{1, n, ends * 1e6}
			used := ledger[id]
			beyond := max(used-max(p.included+adjusted, 0), 0)
			paid := min(beyond, left)
			got := must.Get(book.Statement(t.Context(), otherName, tenant(n), time.Unix(ends-1, 0)))(t)
			want := fmt.Sprintf("used %d, credits %d, of them used %d, overage %d", used, left, paid, beyond-paid)
			if text := fmt.Sprintf("used %d, credits %d, of them used %d, overage %d", got.Used, got.Credits, got.CreditsUsed, got.Overage); text != want {
				wrong = append(wrong, difference{id, used, fmt.Sprintf("its statement has %s, and of %+v it should have %s", text, p, want)})
			}
			left, adjusted = left-paid, 0
		}
	}
	return wrong
}
