package quota

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/race"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/terms"
)

// booked returns a book with the limit "plan" of 100 units per month.
func booked(t *testing.T, l ledger.Ledger) *Book {
	b := bookOn(t, l, Config{})
	limiterOn(t, b.Store(), monthly(100))
	return b
}

func mustAllow(t *testing.T, b *Book, at time.Time) Allowance {
	t.Helper()
	a, _, err := b.Allowance(t.Context(), "plan", "tenant:acme", at)
	must.OK(t, err)
	return a
}

func TestBadChangesAreRefusedAndNotWritten(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		b, ctx := booked(t, l), t.Context()
		credit := func(f func(*Credit)) error {
			c := Credit{Operation: "op", Limit: "plan", Tenant: "tenant:acme", Units: 5}
			f(&c)
			_, err := b.Credit(ctx, c)
			return err
		}
		adjust := func(f func(*Adjustment)) error {
			a := Adjustment{Operation: "op", Limit: "plan", Tenant: "tenant:acme", Units: 5, Reason: "incident"}
			f(&a)
			_, err := b.Adjust(ctx, a)
			return err
		}
		for _, tt := range []struct {
			name string
			err  error
			want string
		}{
			{"no operation", credit(func(c *Credit) { c.Operation = "" }), "an operation id must be"},
			{"a long operation", credit(func(c *Credit) { c.Operation = strings.Repeat("x", 201) }), "an operation id must be"},
			{"an operation with a line break", credit(func(c *Credit) { c.Operation = "a\nb" }), "an operation id must be"},
			{"an operation with a NUL", credit(func(c *Credit) { c.Operation = "a\x00" }), "an operation id must be"},
			{"no limit", credit(func(c *Credit) { c.Limit = "" }), "a limit's name"},
			{"no tenant", credit(func(c *Credit) { c.Tenant = "" }), "the tenant is empty"},
			{"no units", credit(func(c *Credit) { c.Units = 0 }), "a credit must be from 1"},
			{"negative units", credit(func(c *Credit) { c.Units = -5 }), "a credit must be from 1"},
			{"too many units", credit(func(c *Credit) { c.Units = math.MaxInt64 }), "a credit must be from 1"},
			{"before the epoch", credit(func(c *Credit) { c.Expires = time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC) }), "a credit can't expire"},
			{"too late", credit(func(c *Credit) { c.Expires = time.Date(99999, 1, 1, 0, 0, 0, 0, time.UTC) }), "a credit can't expire"},
			{"in a period that has ended", credit(func(c *Credit) { c.Expires = time.Now().AddDate(0, 0, -32) }), "would count nowhere: the present period began at"},
			{"a reason that is no text", credit(func(c *Credit) { c.Reason = "\xff" }), "a reason must be text"},
			{"a long reason", credit(func(c *Credit) { c.Reason = strings.Repeat("ü", 1001) }), "a reason must be text"},
			{"an adjustment of nothing", adjust(func(a *Adjustment) { a.Units = 0 }), "an adjustment must be"},
			{"the least number", adjust(func(a *Adjustment) { a.Units = math.MinInt64 }), "an adjustment must be"},
			{"without a reason", adjust(func(a *Adjustment) { a.Reason = "" }), "must have a reason"},
			{"a time before the epoch", adjust(func(a *Adjustment) { a.At = time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC) }), "there is no period at 1960"},
			{"a time too far ahead", adjust(func(a *Adjustment) { a.At = time.Date(99999, 1, 1, 0, 0, 0, 0, time.UTC) }), "there is no period at 99999"},
			{"a limit that nobody has", adjust(func(a *Adjustment) { a.Limit = "other" }), "has no limit of this name"},
			{"a plan without units", b.SetPlan(ctx, Plan{Limit: "plan", Name: "free"}), "set Hard"},
			{"a plan below itself", b.SetPlan(ctx, Plan{Limit: "plan", Name: "free", Included: 10, Hard: 5}), "set Hard"},
			{"a plan with a bad name", b.SetPlan(ctx, Plan{Limit: "plan", Name: "<b>", Included: 10}), "a plan's name"},
			{"a plan that nobody has", b.Assign(ctx, Assignment{Limit: "plan", Tenant: "tenant:acme", Plan: "gold"}), "has no plan of this name"},
			{"a negative override", b.Override(ctx, Override{Limit: "plan", Tenant: "tenant:acme", Included: -1, Hard: 5}), "neither can be negative"},
		} {
			if tt.err == nil || !strings.Contains(tt.err.Error(), tt.want) {
				t.Errorf("%s: %v, want an error with %q", tt.name, tt.err, tt.want)
			}
		}
		all, err := l.Facts(ctx, "plan", []string{"tenant:acme"})
		if err != nil || len(all["tenant:acme"].Changes) > 0 {
			t.Errorf("changes %+v, %v", all["tenant:acme"].Changes, err)
		}
		check.Is(t, "the statement of an unknown tenant", check.ErrorOf(b.Statement(ctx, "plan", "tenant:acme", time.Now())), ErrUnknownTenant)
		check.Is(t, "the statement of an unknown limit", check.ErrorOf(b.Statement(ctx, "other", "tenant:acme", time.Now())), ErrUnknownLimit)
	})
}

// A credit that has expired since is told to be a repeat, and not to be a mistake.
func TestACreditThatHasExpiredIsARepeat(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := &knownLimit{rule: *ruleOf(t, monthly(1))}
	before := terms.Change{Operation: "payment-1", Expires: now.AddDate(0, -2, 0).UnixMicro()}
	f := &terms.Facts{Now: now.UnixMicro(), Changes: []terms.Change{before}}
	must.OK(t, l.wantUseful(f, &before))
	other := before
	other.Operation = "payment-2"
	check.Fails(t, "another of that time", l.wantUseful(f, &other), "would count nowhere")
	other.Expires = now.UnixMicro() // counts until the end of this period
	must.OK(t, l.wantUseful(f, &other))
}

func TestOperationsAreDoneOnce(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		b, ctx := booked(t, l), t.Context()
		credit := Credit{Operation: "payment-1", Limit: "plan", Tenant: "tenant:acme", Units: 50, Expires: time.Now().AddDate(1, 0, 0), Reason: "top-up"}
		var group sync.WaitGroup
		var applied atomic.Int64
		for range 16 {
			group.Go(func() {
				for range 20 {
					ok, err := b.Credit(ctx, credit)
					check.OK(t, err)
					if ok {
						applied.Add(1)
					}
				}
			})
		}
		group.Wait()
		check.Equal(t, "times done", applied.Load(), 1)
		for name, f := range map[string]func(*Credit){
			"units": func(c *Credit) { c.Units++ }, "tenant": func(c *Credit) { c.Tenant = "tenant:other" },
			"expiry": func(c *Credit) { c.Expires = time.Time{} }, "reason": func(c *Credit) { c.Reason = "" },
		} {
			other := credit
			f(&other)
			if ok, err := b.Credit(ctx, other); ok || !errors.Is(err, ErrReused) {
				t.Errorf("another %s: done %v, error %v", name, ok, err)
			}
		}
		adjustment := Adjustment{Operation: "incident-7", Limit: "plan", Tenant: "tenant:acme", Units: -10, Reason: "sorry"}
		if ok, err := b.Adjust(ctx, Adjustment{Operation: "payment-1", Limit: "plan", Tenant: "tenant:acme", Units: 50, Reason: "top-up"}); ok || !errors.Is(err, ErrReused) {
			t.Errorf("an adjustment by the credit's operation: done %v, error %v", ok, err)
		}
		for n := range 3 {
			if ok, err := b.Adjust(ctx, adjustment); ok != (n == 0) || err != nil {
				t.Errorf("adjustment %d: done %v, error %v", n, ok, err)
			}
		}
		adjustment.At = time.Now().AddDate(0, -3, 0)
		check.Is(t, "in another period", check.ErrorOf(b.Adjust(ctx, adjustment)), ErrReused)
		if a := mustAllow(t, b, time.Now()); a.Credits != 50 || a.Adjusted != -10 || a.Hard != 140 || a.Units() != 140 {
			t.Errorf("allowance %+v", a)
		}
	})
}

func TestPlansAndOverrides(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		b, ctx := booked(t, l), t.Context()
		step := func(what string, err error, want Allowance) {
			t.Helper()
			must.OK(t, err)
			check.Equal(t, what, mustAllow(t, b, time.Now()), want)
		}
		step("nothing", nil, Allowance{Included: 100, Hard: 100})
		must.OK(t, b.SetPlan(ctx, Plan{Limit: "plan", Name: "pro", Included: 1000, Hard: 1200}))
		a := Assignment{Limit: "plan", Tenant: "tenant:acme", Plan: "pro"}
		step("a plan", b.Assign(ctx, a), Allowance{Plan: "pro", Included: 1000, Hard: 1200})
		step("the same plan", b.Assign(ctx, a), Allowance{Plan: "pro", Included: 1000, Hard: 1200})
		step("an override", b.Override(ctx, Override{Limit: "plan", Tenant: "tenant:acme", Included: 7}), Allowance{Override: true, Included: 7, Hard: 7})
		step("no override", b.Override(ctx, Override{Limit: "plan", Tenant: "tenant:acme"}), Allowance{Plan: "pro", Included: 1000, Hard: 1200})
		step("another plan's numbers", b.SetPlan(ctx, Plan{Limit: "plan", Name: "pro", Included: 5}), Allowance{Plan: "pro", Included: 5, Hard: 5})
		step("the same numbers", b.SetPlan(ctx, Plan{Limit: "plan", Name: "pro", Included: 5}), Allowance{Plan: "pro", Included: 5, Hard: 5})
		all, err := l.Facts(ctx, "plan", []string{"tenant:acme"})
		if err != nil || len(all["tenant:acme"].Changes) != 5 {
			t.Errorf("%d changes, %v; want the 5 that changed something", len(all["tenant:acme"].Changes), err)
		}
	})
}

// Credits are used after the plan's units, the first to expire first, and the rest carries over.
func TestCreditsCarryOver(t *testing.T) {
	t.Parallel()
	month := func(m time.Month) int64 { return time.Date(2026, m, 1, 0, 0, 0, 0, time.UTC).UnixMicro() }
	own := terms.Terms{Included: 100, Hard: 110}
	f := &terms.Facts{
		Changes: []terms.Change{
			{Kind: terms.ChangeCredit, Units: 50, At: month(1) + 5, Expires: month(12)},
			{Kind: terms.ChangeCredit, Units: 30, At: month(1) + 6, Expires: month(3)},
			{Kind: terms.ChangeAdjust, Units: -10, At: month(5), Start: month(2)},
		},
		Periods: []terms.PeriodUse{{Start: month(1), End: month(2), Used: 120}, {Start: month(2), End: month(3), Used: 100}, {Start: month(3), End: month(4), Used: 125}},
	}
	for _, tt := range []struct {
		m    time.Month
		used int64
		want terms.Allowance
	}{
		{1, 120, terms.Allowance{Included: 100, Hard: 190, Credits: 80, CreditsUsed: 20}},
		{2, 100, terms.Allowance{Included: 100, Adjusted: -10, Hard: 160, Credits: 60, CreditsUsed: 10}}, // 50 and 10
		{3, 125, terms.Allowance{Included: 100, Hard: 160, Credits: 50, CreditsUsed: 25}},
		{4, 140, terms.Allowance{Included: 100, Hard: 135, Credits: 25, CreditsUsed: 25, Overage: 15}},
		{12, 0, terms.Allowance{Included: 100, Hard: 110}},
	} {
		check.Equal(t, tt.m.String(), f.Allowance(month(tt.m), month(tt.m+1), tt.used, own), tt.want)
	}
	many := &terms.Facts{}
	for range 5000 {
		many.Changes = append(many.Changes, terms.Change{Kind: terms.ChangeCredit, Units: terms.MaxUnits, At: 1})
	}
	if a := many.Allowance(month(1), month(2), math.MaxInt64, own); a.Credits != terms.MaxUnits || a.Hard != terms.MaxUnits || a.Overage < 0 {
		t.Errorf("sums that are too large: %+v", a)
	}
}

// An adjustment by more units than are included takes no credits that nobody has used: not in its own period, and not
// in what is carried over from it.
func TestAdjustmentsTakeNoCredits(t *testing.T) {
	t.Parallel()
	month := func(m time.Month) int64 { return time.Date(2026, m, 1, 0, 0, 0, 0, time.UTC).UnixMicro() }
	own := terms.Terms{Included: 10, Hard: 100}
	f := &terms.Facts{
		Changes: []terms.Change{
			{Kind: terms.ChangeCredit, Units: 50, At: month(1)},
			{Kind: terms.ChangeAdjust, Units: -30, At: month(1), Start: month(1)},
		},
		Periods: []terms.PeriodUse{{Start: month(1), End: month(2), Used: 5}},
	}
	check.Equal(t, "January", f.Allowance(month(1), month(2), 5, own), terms.Allowance{Included: 10, Adjusted: -30, Hard: 120, Credits: 50, CreditsUsed: 5})
	check.Equal(t, "February", f.Allowance(month(2), month(3), 0, own), terms.Allowance{Included: 10, Hard: 145, Credits: 45})
}

func TestPerTenant(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		m := fresh()
		here, there := bookOn(t, l, Config{Store: m}), bookOn(t, l, Config{})
		ctx := t.Context()
		limiter := limiterOn(t, here.Store(), here.PerTenant(core.PerMonth(10, time.UTC).Named("plan"), keyfuncs.Header("X-Tenant")))
		tenant := keyfuncs.Encode("header.x-tenant", "acme")
		granted := func(n int) (granted int) {
			for range n {
				if limiter.Allow(request("acme")).Allowed {
					granted++
				}
			}
			return granted
		}
		// eventually asks until the answer is the one after a change, which another process has made, and
		// returns how long that took.
		eventually := func(step string, want int64) time.Duration {
			t.Helper()
			began := time.Now()
			wait.Until(t, fmt.Sprintf("%s: the quota is %d", step, want), func() bool {
				d := limiter.Allow(request("acme"))
				return d.Results()[0].Rule.Quota == want
			})
			return time.Since(began)
		}
		check.Equal(t, "granted without a plan", granted(12), 10)
		mustFlushBook(t, here) // and has told of its limits
		must.OK(t, there.SetPlan(ctx, Plan{Limit: "plan", Name: "pro", Included: 20, Hard: 25}))
		must.OK(t, there.Assign(ctx, Assignment{Limit: "plan", Tenant: tenant, Plan: "pro"}))
		eventually("a plan", 25)
		d := limiter.Allow(request("acme"))
		check.Equal(t, "the soft limit, what is included", d.Results()[0].Rule.Soft, 20)
		must.Get(there.Credit(ctx, Credit{Operation: "1", Limit: "plan", Tenant: tenant, Units: 5}))(t)
		tenants, changes := eventually("a credit", 30), 2
		adjust := func(operation string, units, want int64) {
			t.Helper()
			must.Get(there.ledger.Apply(ctx, &terms.Change{Operation: operation, Kind: terms.ChangeAdjust, Limit: "plan", Tenant: tenant, Units: units, Start: periodStart(t), Reason: "r"}))(t)
			tenants = min(tenants, eventually("an adjustment", want))
			changes++
		}
		adjust("2", -2, 28)
		for n := 0; n < 10 && tenants > time.Second; n++ {
			adjust(fmt.Sprint("more ", n), 1, 29)
			adjust(fmt.Sprint("less ", n), -1, 28)
		}
		plans := time.Hour
		setPlan := func(included int64) {
			t.Helper()
			must.OK(t, there.SetPlan(ctx, Plan{Limit: "plan", Name: "pro", Included: included}))
			plans = min(plans, eventually("other numbers of the plan", included+3))
		}
		for n := int64(0); n < 2 || n < 20 && plans > time.Second; n++ {
			setPlan(30 + n)
		}
		setPlan(40)
		if slowest := max(tenants, plans); slowest > time.Second { // one change or another may find a busy machine
			t.Errorf("each change took more than a second: those of a tenant %v, those of a plan %v", tenants, plans)
		}
		granted(60)
		mustFlushBook(t, here)
		check.Equal(t, "used", here.total(t, "plan", tenant), 43)
		s := must.Get(here.Statement(ctx, "plan", tenant, time.Now()))(t)
		if s.Used != 43 || s.Included != 40 || s.Credits != 5 || s.CreditsUsed != 5 || s.Overage != 0 || len(s.Changes) != changes || len(s.Days) == 0 {
			t.Errorf("statement %+v", s)
		}
		var text strings.Builder
		must.OK(t, WriteCSV(&text, s))
		if want := fmt.Sprintf("plan,%s,", tenant); !strings.Contains(text.String(), want) {
			t.Errorf("CSV %q, want %q in it", text.String(), want)
		}
	})
}

func periodStart(t *testing.T) int64 {
	t.Helper()
	start, _, _ := ruleOf(t, monthly(1)).Period(time.Now().UnixMicro())
	return start
}

func TestFormulasInCSV(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	must.OK(t, WriteCSV(&text, &Statement{Limit: "plan", Tenant: `=HYPERLINK("x"),1`}))
	check.Contains(t, "CSV", text.String(), `"'=HYPERLINK(""x""),1"`)
}

// A tenant whose numbers are cached costs no allocation.
func TestPerTenantAllocatesNothing(t *testing.T) {
	race.Skip(t)
	b := InMemory(byHand(fresh()))
	t.Cleanup(func() { closeBook(t, b) })
	limiter := limiterOn(t, b.Store(), b.PerTenant(core.PerMonth(1<<40, time.UTC).Named("plan"), keyfuncs.Header("X-Tenant")))
	var r keyfuncs.Request = request("acme")
	if n := testing.AllocsPerRun(1000, func() { limiter.Allow(r) }); n > 0 {
		t.Errorf("%v allocations per request", n)
	}
}
