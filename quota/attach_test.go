package quota

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/micros"
)

// attachTo returns an attached book over a ledger.
func attachTo(t *testing.T, l ledger.Ledger, s store.Store) *Book {
	t.Helper()
	c := Config{Store: s, Timeout: time.Minute}
	if s == nil {
		c.Store = &noStore{err: errNoStore}
	}
	must.OK(t, c.complete())
	b := must.Get(attach(t.Context(), c, l))(t)
	t.Cleanup(func() { closeBook(t, b) })
	return b
}

// differencesOf returns what Reconcile finds.
func differencesOf(t *testing.T, b *Book, repair bool) (all []Difference) {
	t.Helper()
	must.Get(b.Reconcile(t.Context(), repair, func(d Difference) error { all = append(all, d); return nil }))(t)
	return all
}

// A tool without limits of its own knows those of applications, and reads, repairs and adjusts.
func TestAttach(t *testing.T) {
	berlin := must.Get(time.LoadLocation("Europe/Berlin"))(t)
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		s := fresh()
		b := bookOn(t, l, byHand(s))
		limit := core.PerBillingMonth(100, 31, berlin).Soft(80).By(keyfuncs.Tenant("tenant")).Named("plan")
		limiter := limiterOn(t, b.Store(), limit,
			core.PerCalendarDay(50, time.FixedZone("office", 5400)).By(keyfuncs.Tenant("tenant")).Named("daily"),
			core.PerMinute(1000).By(keyfuncs.Tenant("tenant")).Named("minute"))
		spend(t, limiter, "tenant:acme", 10)
		mustFlushBook(t, b)

		tool := attachTo(t, l, s)
		limits := tool.Limits()
		if len(limits) != 2 || limits[0].Name != "daily" || limits[1].Name != "plan" || limits[1].Err != nil {
			t.Fatalf("limits: %+v", limits)
		}
		want := *ruleOf(t, limit)
		if got := limits[1].Rule; got != want || limits[1].Declared.IsZero() {
			t.Errorf("the rule is %+v, want %+v; declared %v", got, want, limits[1].Declared)
		}
		check.Equal(t, "differences where nothing differs", len(differencesOf(t, tool, false)), 0)
		statement, err := tool.Statement(t.Context(), "plan", "tenant:acme", time.Now())
		if err != nil || statement.Used != 10 || statement.Included != 80 || statement.Hard != 100 {
			t.Errorf("statement %+v, %v", statement, err)
		}

		// What is on its way is told by its position, and a repair writes it.
		spend(t, limiter, "tenant:acme", 5)
		found := differencesOf(t, tool, false)
		if len(found) != 2 || found[1].Cause != CauseNotFlushed || found[1].InStore != 15 || found[1].Used != 10 || found[1].Written >= found[1].Position {
			t.Errorf("found %+v", found)
		}
		for _, d := range differencesOf(t, tool, true) {
			if !d.Repaired {
				t.Errorf("not repaired: %+v", d)
			}
		}
		wantUnits(t, tool, 15)
		if applied, err := tool.Adjust(t.Context(), Adjustment{Operation: "1", Limit: "plan", Tenant: "tenant:acme", Units: 7, Reason: "goodwill"}); !applied || err != nil {
			t.Errorf("Adjust: %v, %v", applied, err)
		}
		if a, _, err := b.Allowance(t.Context(), "plan", "tenant:acme", time.Now()); err != nil || a.Adjusted != 7 {
			t.Errorf("the application has %+v, %v", a, err)
		}
		// It is no process of the book, and limiters are refused.
		check.Is(t, "a limiter on an attached book", check.ErrorOf(core.New(core.Config{Store: tool.Store(), Limits: []core.Limit{monthly(5).Named("other")}})), errAttached)
	})
}

// An attached book without a store reads, and does not compare.
func TestAttachWithoutAStore(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		b := bookOn(t, l, Config{})
		spend(t, limiterOn(t, b.Store(), monthly(100)), "tenant:acme", 3)
		mustFlushBook(t, b)
		tool := attachTo(t, l, nil)
		check.Is(t, "Reconcile", check.ErrorOf(tool.Reconcile(t.Context(), true, nil)), errNoStore)
		if s, err := tool.Statement(t.Context(), "plan", "tenant:acme", time.Now()); err != nil || s.Used != 3 {
			t.Errorf("statement %+v, %v", s, err)
		}
	})
}

// A limit that nobody has declared, or whose time zone is not known here, is said to be unknown.
func TestAttachSaysWhatItDoesNotKnow(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		s := fresh()
		b := bookOn(t, l, Config{Store: s})
		spend(t, limiterOn(t, b.Store(), monthly(100).Named("moon")), "tenant:acme", 3)
		mustFlushBook(t, b)
		now := micros.Month(time.Now())
		mustFlush(t, l, at(ledger.Account{Limit: "gone", Key: "tenant:acme", Start: micros.BeginOf(now).UnixMicro(), End: micros.BeginOf(now + 1).UnixMicro()}, 1, 2, 5, 1))
		rule := ruleOf(t, monthly(100).Named("moon"))
		d := ledger.DeclarationOf(rule)
		d.Zone, d.July = "Moon/Tranquility", 3600
		must.OK(t, l.Declare(t.Context(), []ledger.Declaration{d}))
		tool := attachTo(t, l, s)
		reasons := map[string]string{}
		for _, d := range differencesOf(t, tool, true) {
			if d.Cause != CauseUnknownLimit || d.Repaired {
				t.Errorf("found %+v", d)
			}
			reasons[d.Limit] = d.Reason
		}
		if len(reasons) != 2 || !strings.Contains(reasons["moon"], `does not know the time zone of its periods, "Moon/Tranquility"`) ||
			!strings.Contains(reasons["gone"], "no process of this version has declared the limit") {
			t.Errorf("reasons: %q", reasons)
		}
		if all := tool.Limits(); len(all) != 1 || all[0].Name != "moon" || all[0].Err == nil {
			t.Errorf("limits: %+v", all)
		}
	})
}

// Attaching needs tables, makes none, and can do with the right to read.
func TestAttachOnlyReads(t *testing.T) {
	t.Parallel()
	pool := poolOf(t)
	if _, err := Attach(t.Context(), pool, Config{}); !errors.Is(err, ErrNoBook) || !strings.Contains(err.Error(), `"weblimit"`) {
		t.Errorf("no tables: %v", err)
	}
	check.Fails(t, "an attached book delivers notices", check.ErrorOf(Attach(t.Context(), pool, Config{Notices: []Channel{{Name: "a", Deliver: func(context.Context, Notice) error { return nil }}}})), "")
	b := must.Get(Open(t.Context(), pool, Config{Store: fresh(), Timeout: time.Minute}))(t)
	spend(t, limiterOn(t, b.Store(), monthly(100)), "tenant:acme", 3)
	mustFlushBook(t, b)
	closeBook(t, b)
	config := pool.Config().Copy()
	config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	reading := must.Get(pgxpool.NewWithConfig(t.Context(), config))(t)
	t.Cleanup(reading.Close)
	tool := must.Get(Attach(t.Context(), reading, Config{}))(t)
	if all := usesOf(t, tool, Query{}); len(all) != 1 || all[0].Used != 3 {
		t.Errorf("%+v", all)
	}
	closeBook(t, tool)
	var processes int
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM weblimit.process").Scan(&processes); err != nil || processes != 0 {
		t.Errorf("%d processes, %v", processes, err)
	}
	must.Get(pool.Exec(t.Context(), "DROP TABLE weblimit.declared; DELETE FROM weblimit.migration WHERE version >= 3"))(t)
	check.Fails(t, "older tables", check.ErrorOf(Attach(t.Context(), pool, Config{})), "version 2")
}
