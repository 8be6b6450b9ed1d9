package quota

import (
	"fmt"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/quota/internal/ledger"
)

// A time is one of a period or an error, and none is the present one: not the period of the year 1, in which nobody has
// used anything.
func TestTimesOfStatements(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		b, ctx := booked(t, l), t.Context()
		takeFrom(t, b, "tenant:acme", 5)
		mustFlushBook(t, b)
		all := func(at time.Time) (used int64, err error) {
			for s, err := range b.Statements(ctx, "plan", at) {
				if err != nil {
					return 0, err
				}
				used += s.Used
			}
			return used, nil
		}
		s := must.Get(b.Statement(ctx, "plan", "tenant:acme", time.Time{}))(t)
		check.Equal(t, "the statement", s.Used, 5)
		check.Equal(t, "the statements", must.Get(all(time.Time{}))(t), 5)
		_, used, err := b.Allowance(ctx, "plan", "tenant:acme", time.Time{})
		must.OK(t, err)
		check.Equal(t, "used", used.Used, 5)
		for _, at := range []time.Time{time.Unix(-1, 0), time.Date(99999, 1, 1, 0, 0, 0, 0, time.UTC)} {
			check.Fails(t, "Statement", check.ErrorOf(b.Statement(ctx, "plan", "tenant:acme", at)), "there is no period at")
			check.Fails(t, "Statements", check.ErrorOf(all(at)), "there is no period at")
			_, _, err := b.Allowance(ctx, "plan", "tenant:acme", at)
			check.Fails(t, "Allowance", err, "there is no period at")
		}
	})
}

// The statements of all tenants are those of each, over pages: of all that have used something, or that
// something was said of.
func TestStatementsOfAllTenants(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		b, ctx := bookOn(t, l, Config{}), t.Context()
		limiter := limiterOn(t, b.Store(), monthly(100), monthly(100).Named("other"))
		var positions []ledger.Position
		now, period := time.Now(), ruleOf(t, monthly(1))
		start, end, _ := period.Period(now.UnixMicro())
		const n = 2*statementBatch + 7
		for i := range n {
			positions = append(positions, at(ledger.Account{Limit: "plan", Key: fmt.Sprintf("tenant:%d", i), Start: start, End: end}, 1, 2, int64(i), 60))
		}
		mustFlush(t, l, positions...)
		limiter.AllowKey(ctx, "\x00odd", 3)
		mustFlushBook(t, b)
		must.OK(t, b.SetPlan(ctx, Plan{Limit: "plan", Name: "pro", Included: 10, Hard: 20}))
		for _, tenant := range []string{"tenant:idle", "tenant:7"} {
			must.OK(t, b.Assign(ctx, Assignment{Limit: "plan", Tenant: tenant, Plan: "pro"}))
		}
		last, count := "", 0
		for s, err := range b.Statements(ctx, "plan", now) {
			must.OK(t, err)
			one := must.Get(b.Statement(ctx, "plan", s.Tenant, now))(t)
			check.Equal(t, "the statement", fmt.Sprintf("%+v", *s), fmt.Sprintf("%+v", *one))
			if text := ledger.TextOf([]byte(s.Tenant)); text <= last {
				t.Errorf("%q after %q", text, last)
			} else {
				last = text
			}
			count++
		}
		check.Equal(t, "statements", count, n+2)
		for s, err := range b.Statements(ctx, "plan", now.AddDate(0, -2, 0)) {
			t.Errorf("in a period in which there was nothing: %+v, %v", s, err)
		}
		for s, err := range b.Statements(ctx, "paln", now) {
			if s != nil {
				t.Errorf("of a limit that is not there: %+v", s)
			}
			check.Is(t, "of a limit that is not there", err, ErrUnknownLimit)
		}
	})
}
