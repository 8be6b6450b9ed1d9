package quota

import (
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/memledger"
)

// unkeyed returns the limit "plan" of n units per month without a key.
func unkeyed(n int64) core.Limit { return core.PerMonth(n, time.UTC).Named("plan") }

// Trap 65, success without effect: a limit that would not be billed is an error when its limiter is made.
func TestLimitsThatWouldNotBeBilled(t *testing.T) {
	t.Parallel()
	tenant := keyfuncs.Tenant("tenant")
	under, others := fresh(), fresh()
	b := InMemory(Config{Store: under, Limits: []string{"plan", "hourly"}})
	t.Cleanup(func() { closeBook(t, b) })
	plan := unkeyed(10)
	for _, tt := range []struct {
		name   string
		config core.Config
		want   string
	}{
		{"PerTenant on another store", core.Config{Store: others, Limits: []core.Limit{b.PerTenant(plan, tenant)}}, "where nothing is billed: give it book.Store()"},
		{"PerTenant on the store under the book", core.Config{Store: under, Limits: []core.Limit{b.PerTenant(plan, tenant)}}, "where nothing is billed: give it book.Store()"},
		{"a limit on the store under the book", core.Config{Store: under, Limits: []core.Limit{plan.By(tenant)}}, "where nothing is billed: give it book.Store()"},
		{"PerTenant of windows", core.Config{Store: b.Store(), Limits: []core.Limit{b.PerTenant(core.PerMinute(5).Named("minute"), tenant)}}, "PerTenant needs a limit with periods"},
		{"PerTenant of a limit that is not kept", core.Config{Store: b.Store(), Limits: []core.Limit{b.PerTenant(plan.Named("other"), tenant)}}, `Config.Limits of its book leaves it out, so nothing of it is billed: add "other" there`},
		{"PerTenant in a fallback", core.Config{Store: b.Store(), Limits: []core.Limit{plan.By(tenant)}, Fallback: core.Fallback{Limits: []core.Limit{b.PerTenant(plan, tenant)}}}, "Config.Fallback: "},
	} {
		check.Fails(t, tt.name, check.ErrorOf(core.New(tt.config)), tt.want)
	}
	wrapped := struct{ core.Store }{b.Store()}
	must.Get(core.New(core.Config{Store: wrapped, Limits: []core.Limit{b.PerTenant(plan, tenant)}}))(t)
	must.Get(core.New(core.Config{Store: under, Limits: []core.Limit{core.PerMinute(5).By(tenant).Named("minute"), plan.By(tenant).Named("unkept")}}))(t)

	// A limiter that was there before the book is found when the book is opened.
	before := fresh()
	must.Get(core.New(core.Config{Store: before, Limits: []core.Limit{plan.By(tenant)}}))(t)
	config := Config{Store: before}
	must.OK(t, config.complete())
	check.Fails(t, "a book over a limit that is counted beside it", check.ErrorOf(newBook(config, memledger.New(defaultLevels), endlessPatience, nil)), "where nothing is billed")
}

// A tenant whose plan holds less than a request costs is denied, and not counted by the limit's own numbers.
func TestAPlanBelowTheCost(t *testing.T) {
	t.Parallel()
	b := InMemory(byHand(fresh()))
	t.Cleanup(func() { closeBook(t, b) })
	limiter := limiterOn(t, b.Store(), b.PerTenant(unkeyed(1000), keyfuncs.Header("X-Tenant")).Cost(10))
	must.OK(t, b.Override(t.Context(), Override{Limit: "plan", Tenant: "header.x-tenant:acme", Included: 5}))
	if d := limiter.Allow(request("acme")); d.Allowed {
		t.Errorf("allowed by %+v", d.Results()[0].Rule)
	}
}

// What is said of a name that the limit counts nobody under is refused, with the name that may be
// meant; the corrected call is made, and is no repeat.
func TestNamesThatAreNoTenants(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		b, ctx := bookOn(t, l, Config{}), t.Context()
		limiter := limiterOn(t, b.Store(),
			unkeyed(100).By(keyfuncs.Tenant("tenant")), unkeyed(100).By(keyfuncs.APIKey()).Named("keys"), unkeyed(100).By(keyfuncs.Tenant("tenant"), keyfuncs.ClientIP()).Named("both"))
		must.OK(t, b.SetPlan(ctx, Plan{Limit: "plan", Name: "pro", Included: 10}))
		credit := Credit{Operation: "payment-1", Limit: "plan", Tenant: "acme", Units: 5}
		adjustment := Adjustment{Operation: "incident-1", Limit: "plan", Tenant: "acme", Units: 5, Reason: "r"}
		now := time.Now()
		for _, tt := range []struct {
			name string
			err  error
		}{
			{"Credit", check.ErrorOf(b.Credit(ctx, credit))},
			{"Adjust", check.ErrorOf(b.Adjust(ctx, adjustment))},
			{"Assign", b.Assign(ctx, Assignment{Limit: "plan", Tenant: "acme", Plan: "pro"})},
			{"Override", b.Override(ctx, Override{Limit: "plan", Tenant: "acme", Included: 5})},
			{"Statement", check.ErrorOf(b.Statement(ctx, "plan", "acme", now))},
			{"Allowance", func() error { _, _, err := b.Allowance(ctx, "plan", "acme", now); return err }()},
		} {
			check.Is(t, tt.name, tt.err, ErrUnknownTenant)
			check.Fails(t, tt.name, tt.err, `"acme" under limit "plan", whose keys are such as "tenant:42"; another is known once a request was counted under it; did you mean "tenant:acme"?`)
		}
		credit.Tenant, adjustment.Tenant = "tenant:acme", "tenant:acme"
		if applied, err := b.Credit(ctx, credit); !applied || err != nil {
			t.Errorf("the corrected credit: %v, %v", applied, err)
		}
		if applied, err := b.Adjust(ctx, adjustment); !applied || err != nil {
			t.Errorf("the corrected adjustment: %v, %v", applied, err)
		}

		// A secret is in no error, and a key of several parts is not guessed.
		credit = Credit{Operation: "payment-2", Limit: "keys", Tenant: "sk_live_4711", Units: 5}
		err := check.ErrorOf(b.Credit(ctx, credit))
		check.Fails(t, "an API key", err, `whose keys are such as "apikey#`)
		check.Contains(t, "an API key", err.Error(), keyfuncs.Encode("apikey", "sk_live_4711"))
		if strings.Contains(err.Error(), "4711") {
			t.Errorf("the key is in the error: %v", err)
		}
		credit.Limit, credit.Tenant = "both", "tenant:acme"
		check.Fails(t, "one part of two", check.ErrorOf(b.Credit(ctx, credit)), `whose keys are such as "tenant:42|ip:192.0.2.7"; another is known once`)

		// What requests were counted under is a tenant, whatever its form.
		limiter.AllowKey(ctx, "acme", 1)
		mustFlushBook(t, b)
		must.OK(t, b.Assign(ctx, Assignment{Limit: "plan", Tenant: "acme", Plan: "pro"}))
		if s, err := b.Statement(ctx, "plan", "acme", now); err != nil || s.Plan != "pro" || s.Used != 1 {
			t.Errorf("statement %+v, %v", s, err)
		}
	})
}

// A query for a limit that there is not is no query in which nothing is found, and neither is one that ends before it begins.
func TestQueriesThatCanFindNothing(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		b, ctx := booked(t, l), t.Context()
		usage := func(q Query) error {
			for _, err := range b.Usage(ctx, q) {
				return err
			}
			return nil
		}
		days := func(q Query) error { return check.ErrorOf(b.Days(ctx, q)) }
		deliveries := func(limit string) error {
			return b.Deliveries(ctx, DeliveryQuery{Limit: limit}, func(Delivery) error { return nil })
		}
		now := time.Now()
		for name, ask := range map[string]func(Query) error{"Usage": usage, "Days": days} {
			check.Is(t, name, ask(Query{Limit: "paln"}), ErrUnknownLimit)
			check.Fails(t, name, ask(Query{Limit: "paln"}), `did you mean "plan"?`)
			check.OK(t, ask(Query{Limit: "plan"}))
			check.OK(t, ask(Query{}))
			check.Fails(t, name, ask(Query{From: now, To: now.Add(-1)}), "which must be later")
			check.Fails(t, name, ask(Query{From: now, To: now}), "which must be later")
		}
		check.Is(t, "Deliveries", deliveries("paln"), ErrUnknownLimit)
		check.OK(t, deliveries("plan"))
		check.OK(t, deliveries(""))
	})
}

// Plans of limits that no process has reach nobody. Limits of other processes are known, to tools too.
func TestNamesThatAreNoLimits(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		s := fresh()
		b, office, ctx := bookOn(t, l, byHand(s)), bookOn(t, l, Config{}), t.Context()
		pro := Plan{Limit: "paln", Name: "pro", Included: 10}
		check.Fails(t, "no limit at all", b.SetPlan(ctx, pro), "no process has one yet; make the limiter, or call PerTenant, before")
		limit := b.PerTenant(unkeyed(100), keyfuncs.Tenant("tenant"))
		check.Is(t, "a limit by another name", b.SetPlan(ctx, pro), ErrUnknownLimit)
		check.Fails(t, "a limit by another name", b.SetPlan(ctx, pro), `did you mean "plan"?`)
		pro.Limit = "plan"
		must.OK(t, b.SetPlan(ctx, pro)) // PerTenant is enough
		limiterOn(t, b.Store(), limit)
		mustFlushBook(t, b)

		for name, other := range map[string]*Book{"another process": office, "a tool": attachTo(t, l, s)} {
			pro.Included++
			must.OK(t, other.SetPlan(ctx, pro))
			must.OK(t, other.Assign(ctx, Assignment{Limit: "plan", Tenant: "tenant:acme", Plan: "pro"}))
			must.Get(other.Adjust(ctx, Adjustment{Operation: name, Limit: "plan", Tenant: "tenant:acme", Units: 1, Reason: "r"}))(t)
			must.Get(other.Statement(ctx, "plan", "tenant:acme", time.Now()))(t)
			_, err := other.Credit(ctx, Credit{Operation: "x", Limit: "plan", Tenant: "acme", Units: 5})
			check.Fails(t, name, err, `did you mean "tenant:acme"?`)
			check.Is(t, name+": an unknown limit", check.ErrorOf(other.Credit(ctx, Credit{Operation: "x", Limit: "x", Tenant: "tenant:acme", Units: 5})), ErrUnknownLimit)
		}
		tool := attachTo(t, l, s)
		if all := tool.Limits(); len(all) != 1 || all[0].Keys != "tenant" || !all[0].PerTenant {
			t.Errorf("limits: %+v", all)
		}
	})
}

// A hard limit below 1 is an error of what would make it so.
func TestHardLimitsBelowOne(t *testing.T) {
	eachLedger(t, func(t *testing.T, l ledger.Ledger) {
		b, ctx := booked(t, l), t.Context()
		less := func(operation string, units int64) error {
			_, err := b.Adjust(ctx, Adjustment{Operation: operation, Limit: "plan", Tenant: "tenant:acme", Units: -units, Reason: "r"})
			return err
		}
		check.Fails(t, "all of it", less("1", 100), "would make the hard limit 0 in the period from ")
		check.Fails(t, "all of it", less("1", 100), "the least is 1: 99 units fewer are possible; to deny all requests, block the tenant")
		must.OK(t, less("1", 60))
		must.OK(t, less("1", 60)) // a repeat
		check.Fails(t, "the rest", less("2", 40), "39 units fewer are possible")
		override := Override{Limit: "plan", Tenant: "tenant:acme", Included: 50}
		check.Fails(t, "an override below what was taken", b.Override(ctx, override), "would make the hard limit -10")
		must.OK(t, b.SetPlan(ctx, Plan{Limit: "plan", Name: "free", Included: 50}))
		check.Fails(t, "a plan below what was taken", b.Assign(ctx, Assignment{Limit: "plan", Tenant: "tenant:acme", Plan: "free"}), "would make the hard limit -10")
		must.Get(b.Credit(ctx, Credit{Operation: "3", Limit: "plan", Tenant: "tenant:acme", Units: 20}))(t)
		must.OK(t, b.Override(ctx, override))
		must.OK(t, less("4", 9))
		if a := mustAllow(t, b, time.Now()); a.Hard != 1 {
			t.Errorf("allowance %+v", a)
		}
	})
}
