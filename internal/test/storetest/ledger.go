package storetest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/keyfuncs"
)

// ledgerTable is the part of the table about calendar limits whose use is kept in a book.
var ledgerTable = []tableTest{
	{"an unknown account admits nothing until it is restored", ledgerUnknown},
	{"an account that has used nothing is known once it is restored", ledgerUnused},
	{"a position rises with each change and with nothing else", ledgerPositions},
	{"a restoration counts only after the generation it expects", ledgerGenerations},
	{"a restoration of one period does not count in another", ledgerPeriods},
	{"an unknown account keeps a whole request from having any effect", ledgerWhole},
	{"an unknown account keeps a shadow's request from being charged, too", ledgerShadow},
	{"an operation is charged to an account once", ledgerOnce},
	{"a charge brings an account to twice its quota and no further", ledgerCharge},
	{"a refund lowers what an account has used in its period", ledgerRefunds},
	{"what a calendar window was charged counts when its account is restored", ledgerAdopts},
	{"a ledger read as another limit keeps what was used, and is unknown after that", ledgerConverted},
	{"a reset makes an account unknown", ledgerReset},
	{"the quota of an account may change", ledgerQuota},
	{"two classes of requests share an account", ledgerClasses},
	{"of many who restore an account at once, one does", ledgerRestoredOnce},
	{"parallel callers get exactly the quota, each its own position", ledgerParallel},
	{"accounts are restored each for itself", ledgerSeveral},
	{"bad restorations are refused and change nothing", ledgerBad},
}

// ledgerRule returns the ledger of a calendar limit.
func ledgerRule(r *rig, limit core.Limit) *core.Rule {
	r.Helper()
	twin, err := rule(r, limit).Ledger()
	if err != nil {
		r.Fatal(err)
	}
	return twin
}

// plan returns a ledger of n units per month.
func plan(r *rig, n int64) *core.Rule { return ledgerRule(r, core.PerMonth(n, time.UTC).Named("plan")) }

func account(rule *core.Rule, key string, cost int64) core.Check {
	return core.Check{Key: []byte(key), Rule: rule, Cost: cost}
}

// position is that of a change in a generation.
func position(generation, change int64) int64 { return generation<<36 + change }

// restore restores one account, in the period of the clock.
func (r *rig) restore(rule *core.Rule, key string, from store.Restoration) core.Result {
	r.Helper()
	if from.Ends == 0 {
		from.Ends = rule.PeriodEnd(r.Micros())
	}
	results := make([]core.Result, 1)
	if err := r.restorer().Restore(context.Background(), []core.Check{account(rule, key, 0)}, []store.Restoration{from}, results); err != nil {
		r.Fatalf("restore: %v", err)
	}
	return results[0]
}

func (r *rig) restorer() store.Restorer {
	r.Helper()
	restorer, ok := store.RestorerOf(struct{ core.Store }{r.Store}) // as a wrapper has it
	if !ok {
		r.Fatal("the store is no store.Restorer, or does not tell its registry")
	}
	return restorer
}

// wantAccount fails the test unless the result is of a known account.
func (r *rig) wantAccount(what string, got core.Result, used, position int64) core.Result {
	r.Helper()
	if got.Used != used || got.Position != position {
		r.Fatalf("%s: got %s, want used=%d position=%d:%d", what, show(got), used, store.Generation(position), position&(1<<36-1))
	}
	return got
}

// wantUnknown fails the test unless the result is of an unknown account.
func (r *rig) wantUnknown(what string, rule *core.Rule, got core.Result) core.Result {
	r.Helper()
	if !rule.Unknown(&got) || got.Used != 0 || got.Remaining != 0 || got.Ends() != rule.PeriodEnd(r.Micros()) {
		r.Fatalf("%s: got %s, want an unknown account whose period ends at %d", what, show(got), rule.PeriodEnd(r.Micros()))
	}
	return got
}

func (r *rig) charge(rule *core.Rule, key string, cost int64) core.Result {
	r.Helper()
	results := make([]core.Result, 1)
	if err := r.Charge(context.Background(), []core.Check{account(rule, key, cost)}, results); err != nil {
		r.Fatalf("charge: %v", err)
	}
	return results[0]
}

func ledgerUnknown(r *rig) {
	plan := plan(r, 10)
	for range 3 {
		if got := r.wantUnknown("take", plan, r.take(plan, "k", 1)); got.Allowed || got.Charged || got.RetryAfter <= 0 {
			r.Fatalf("take: %s", show(got))
		}
	}
	if got := r.wantUnknown("peek", plan, r.peek(plan, "k", 1)); got.Allowed {
		r.Fatalf("peek: %s", show(got))
	}
	if got := r.wantUnknown("a cost above the quota", plan, r.take(plan, "k", 11)); got.Allowed {
		r.Fatalf("a cost above the quota: %s", show(got))
	}
	if got := r.wantUnknown("a cost of nothing", plan, r.take(plan, "k", 0)); !got.Allowed || got.Charged {
		r.Fatalf("a cost of nothing: %s", show(got))
	}
	if got := r.wantUnknown("charge", plan, r.charge(plan, "k", 3)); got.Charged {
		r.Fatalf("charge: %s", show(got))
	}
	charged := core.Result{Charged: true, Allowed: true, Remaining: 4, ResetAfter: time.Hour, At: r.Micros(), Used: 6, Position: position(1, 7)}
	want := charged
	want.Used, want.Position = 0, 0
	if got := r.refund(plan, "k", 2, charged); got != want {
		r.Fatalf("a refund gives %s, want it as it was but for what is used: %s", show(got), show(want))
	}
	r.wantAccount("restored", r.restore(plan, "k", store.Restoration{Used: 4, Generation: 1}), 4, position(1, 1))
	r.wantAccount("take", r.wantTake(plan, "k", 1, true, 5), 5, position(1, 2))
	r.wantAccount("refund", r.refund(plan, "k", 2, charged), 3, position(1, 3))
	r.wantUnknown("another key", plan, r.take(plan, "l", 1))
}

func ledgerUnused(r *rig) {
	plan := plan(r, 10)
	got := r.restore(plan, "k", store.Restoration{Generation: 5})
	if !got.Charged || !got.Allowed || got.Remaining != 10 || got.Ends() != plan.PeriodEnd(r.Micros()) {
		r.Fatalf("restored: %s", show(got))
	}
	r.wantAccount("restored", got, 0, position(5, 1))
	r.wantAccount("peek", r.peek(plan, "k", 1), 0, position(5, 1))
	charge := r.wantTake(plan, "k", 3, true, 7)
	r.wantAccount("refund of all", r.refund(plan, "k", 3, charge), 0, position(5, 3))
	r.wantAccount("take", r.wantTake(plan, "k", 10, true, 0), 10, position(5, 4))
}

func ledgerPositions(r *rig) {
	plan := plan(r, 10)
	r.restore(plan, "k", store.Restoration{Used: 1, Generation: 1})
	r.wantAccount("take 2", r.wantTake(plan, "k", 2, true, 7), 3, position(1, 2))
	r.wantAccount("peek", r.peek(plan, "k", 2), 3, position(1, 2))
	r.wantAccount("take nothing", r.take(plan, "k", 0), 3, position(1, 2))
	r.wantAccount("denied", r.wantTake(plan, "k", 8, false, 7), 3, position(1, 2))
	r.wantAccount("never possible", r.wantTake(plan, "k", 11, false, 7), 3, position(1, 2))
	r.wantAccount("charge nothing", r.charge(plan, "k", 0), 3, position(1, 2))
	charge := r.wantAccount("charge 4", r.charge(plan, "k", 4), 7, position(1, 3))
	r.wantAccount("refund nothing", r.refund(plan, "k", 0, charge), 7, position(1, 3))
	charge.Charged = true
	r.wantAccount("refund 4", r.refund(plan, "k", 4, charge), 3, position(1, 4))
	other := rule(r, core.PerHour(1).Named("other"))
	r.wantTake(other, "k", 1, true, 0)
	results := r.takeAll(account(plan, "k", 1), account(other, "k", 1))
	r.wantAccount("denied by another limit", results[0], 3, position(1, 4))
	if results[1].Used != 0 || results[1].Position != 0 {
		r.Errorf("another limit has a position: %s", show(results[1]))
	}
	shadow := account(plan, "k", 8)
	shadow.Shadow = true
	r.wantAccount("a shadow that does not fit", r.takeAll(shadow)[0], 3, position(1, 4))
	shadow.Cost = 7
	r.wantAccount("a shadow that fits", r.takeAll(shadow)[0], 10, position(1, 5))
}

func ledgerGenerations(r *rig) {
	plan := plan(r, 100)
	try := func(from store.Restoration, restored bool, used, position int64) {
		r.Helper()
		got := r.restore(plan, "k", from)
		if got.Charged != restored {
			r.Fatalf("%+v: got %s, want charged=%v", from, show(got), restored)
		}
		if position == 0 {
			r.wantUnknown("restore", plan, got)
			return
		}
		r.wantAccount("restore", got, used, position)
	}
	try(store.Restoration{Used: 5, Generation: 2, Expect: 1}, false, 0, 0)
	try(store.Restoration{Used: 5, Generation: 2}, true, 5, position(2, 1))
	try(store.Restoration{Used: 5, Generation: 2}, false, 5, position(2, 1)) // a repeat
	try(store.Restoration{Used: 50, Generation: 3}, false, 5, position(2, 1))
	r.wantTake(plan, "k", 3, true, 92)
	try(store.Restoration{Used: 50, Generation: 4, Expect: 3}, false, 8, position(2, 2))
	try(store.Restoration{Used: 50, Generation: 4, Expect: 1}, false, 8, position(2, 2))
	try(store.Restoration{Used: 20, Generation: 4, Expect: 2}, true, 20, position(4, 1)) // a fork that had used less
	r.wantTake(plan, "k", 1, true, 79)
	try(store.Restoration{Used: 50, Generation: 5, Expect: 4, Position: position(4, 1)}, false, 21, position(4, 2)) // it was charged
	try(store.Restoration{Used: 20, Generation: 5, Expect: 4, Position: position(4, 2)}, true, 21, position(5, 1))
	try(store.Restoration{Used: 10, Generation: store.MaxGeneration, Expect: 5}, true, 21, position(store.MaxGeneration, 1))
	r.wantAccount("take", r.wantTake(plan, "k", 79, true, 0), 100, position(store.MaxGeneration, 2))
}

func ledgerPeriods(r *rig) {
	plan := plan(r, 10)
	r.Set(time.Date(2026, 3, 31, 23, 59, 59, 0, time.UTC))
	unknown := r.wantUnknown("in March", plan, r.take(plan, "k", 1))
	march := unknown.Ends()
	other := r.restore(plan, "k", store.Restoration{Used: 9, Generation: 1, Ends: march + 1})
	r.wantUnknown("a restoration of another period", plan, other)
	r.restore(plan, "k", store.Restoration{Used: 9, Generation: 1, Ends: march})
	charge := r.wantTake(plan, "k", 1, true, 0)
	r.Advance(time.Second)
	r.wantUnknown("in April", plan, r.take(plan, "k", 1))
	got := r.restore(plan, "k", store.Restoration{Used: 9, Generation: 2, Ends: march})
	if r.wantUnknown("March, restored in April", plan, got); got.Charged {
		r.Fatalf("March was restored in April: %s", show(got))
	}
	if got := r.refund(plan, "k", 1, charge); got.Charged || got.Position != 0 {
		r.Fatalf("a refund of March in April: %s", show(got))
	}
	r.restore(plan, "k", store.Restoration{Generation: 1})
	r.wantAccount("in April", r.wantTake(plan, "k", 4, true, 6), 4, position(1, 2))
	r.wantAccount("a refund of March in April", r.refund(plan, "k", 1, charge), 4, position(1, 2))
	r.Advance(-time.Minute) // back into March: April's window counts until its end
	if got := r.wantAccount("clock set back", r.wantTake(plan, "k", 1, true, 5), 5, position(1, 3)); got.Ends() == march {
		r.Error("clock set back: an account of April says it is one of March")
	}
}

func ledgerWhole(r *rig) {
	op := keyfuncs.Header("Idempotency-Key")
	plan := ledgerRule(r, core.PerMonth(10, time.UTC).Named("plan").OncePer(op, time.Hour).Repeats(2))
	orders := rule(r, core.PerDay(5).Named("orders").OncePer(op, time.Hour).Repeats(2))
	login := rule(r, core.PerDay(1).Named("login").Penalty(core.Block{After: 2, Within: time.Hour, For: time.Hour}))
	checks := []core.Check{operation(plan, "k", "a"), operation(orders, "k", "a"), account(login, "k", 1), account(orders, "l", 1)}

	r.restore(plan, "k", store.Restoration{Generation: 1})
	if got := r.takeAll(checks...); !got[0].Charged || !got[1].Charged || !got[2].Charged || !got[3].Charged {
		r.Fatalf("known: %s %s %s %s", show(got[0]), show(got[1]), show(got[2]), show(got[3]))
	}
	r.reset(plan, "k") // the store forgets
	for range 5 {      // operation a has two free repeats, login blocks at the second denial
		got := r.takeAll(checks...)
		if got[0].Allowed || got[0].Repeated {
			r.Fatalf("a repeat of an operation of an unknown account: %s", show(got[0]))
		}
		r.wantUnknown("among others", plan, got[0])
		for i, remaining := range []int64{0, 4, 0, 4} {
			if i > 0 && (got[i].Charged || got[i].Blocked || got[i].Remaining != remaining) {
				r.Fatalf("beside an unknown account: %d: %s", i, show(got[i]))
			}
		}
	}
	r.restore(plan, "k", store.Restoration{Used: 1, Generation: 2})
	for n := range 2 {
		got := r.takeAll(checks[:2]...)
		if !got[0].Repeated || !got[1].Repeated {
			r.Fatalf("repeat %d of the operation: %s %s", n+1, show(got[0]), show(got[1]))
		}
		r.wantAccount("a repeat", got[0], 1, position(2, 1))
	}
	if got := r.takeAll(checks[2])[0]; got.Allowed || got.Blocked {
		r.Fatalf("the first strike: %s", show(got))
	}
	if got := r.takeAll(checks[2])[0]; !got.Blocked {
		r.Fatalf("the second strike: %s", show(got))
	}
}

func ledgerShadow(r *rig) {
	plan := plan(r, 10)
	hourly := rule(r, core.PerHour(10).Named("hourly"))
	for _, key := range []string{"k", "l"} { // in the account's value, and in another one
		shadow := account(plan, "k", 1)
		shadow.Shadow = true
		r.reset(plan, "k")
		r.reset(hourly, key)
		for range 2 {
			got := r.takeAll(shadow, account(hourly, key, 1))
			r.wantUnknown("a shadow", plan, got[0])
			if got[0].Allowed || got[1].Charged || got[1].Remaining != 10 {
				r.Fatalf("beside an unknown shadow: %s, %s", show(got[0]), show(got[1]))
			}
		}
		r.restore(plan, "k", store.Restoration{Generation: 1})
		if got := r.takeAll(shadow, account(hourly, key, 1)); !got[0].Charged || !got[1].Charged {
			r.Fatalf("beside a known shadow: %s, %s", show(got[0]), show(got[1]))
		}
	}
}

func ledgerOnce(r *rig) {
	plan := ledgerRule(r, core.PerMonth(10, time.UTC).Named("plan").OncePer(keyfuncs.Header("Idempotency-Key"), time.Hour).Repeats(3))
	take := func(op string) core.Result { return r.takeAll(operation(plan, "k", op))[0] }
	for range 3 {
		r.wantUnknown("an operation", plan, take("a"))
	}
	r.restore(plan, "k", store.Restoration{Generation: 1})
	first := r.wantAccount("an operation", take("a"), 1, position(1, 2))
	if !first.Charged {
		r.Fatalf("an operation that was tried on an unknown account: %s", show(first))
	}
	for range 3 {
		if got := r.wantAccount("a repeat", take("a"), 1, position(1, 2)); !got.Repeated {
			r.Fatalf("a repeat: %s", show(got))
		}
	}
	r.wantAccount("a repeat too many", take("a"), 2, position(1, 3))
	second := r.wantAccount("another", take("b"), 3, position(1, 4))

	refund := func() core.Result {
		results := []core.Result{second}
		if err := r.Refund(context.Background(), []core.Check{operation(plan, "k", "b")}, results); err != nil {
			r.Fatal(err)
		}
		return results[0]
	}
	r.reset(plan, "k")
	if got := refund(); !got.Charged || got.Position != 0 {
		r.Fatalf("a refund to an unknown account: %s", show(got))
	}
	r.restore(plan, "k", store.Restoration{Used: 3, Generation: 2})
	if got := take("b"); !got.Repeated {
		r.Fatalf("after a refund to an unknown account, which did nothing: %s", show(got))
	}
	r.wantAccount("a refund", refund(), 2, position(2, 2))
	if got := take("b"); !got.Charged {
		r.Fatalf("after a refund: %s", show(got))
	}
}

func ledgerCharge(r *rig) {
	plan := plan(r, 10)
	r.restore(plan, "k", store.Restoration{Generation: 1})
	if got := r.wantAccount("charge 12", r.charge(plan, "k", 12), 12, position(1, 2)); !got.Charged || got.Remaining != 0 {
		r.Fatalf("charge: %s", show(got))
	}
	r.wantAccount("charge 100", r.charge(plan, "k", 100), 20, position(1, 3))
	r.wantAccount("charge more", r.charge(plan, "k", 1), 20, position(1, 3))
	r.wantAccount("restored with more", r.restore(plan, "k", store.Restoration{Used: 5000, Generation: 2, Expect: 1}), 5000, position(2, 1))
	r.wantAccount("charge still more", r.charge(plan, "k", 1), 5000, position(2, 1))
	r.wantAccount("take", r.wantTake(plan, "k", 1, false, 0), 5000, position(2, 1))
}

func ledgerRefunds(r *rig) {
	plan := plan(r, 10)
	r.restore(plan, "k", store.Restoration{Used: 2, Generation: 1})
	charge := r.wantTake(plan, "k", 5, true, 3)
	r.wantAccount("a part", r.refund(plan, "k", 1, charge), 6, position(1, 3))
	if got := r.wantAccount("more than there is", r.refund(plan, "k", 1000, charge), 0, position(1, 4)); got.Charged || got.Remaining != 10 {
		r.Fatalf("refund: %s", show(got))
	}
	r.wantAccount("of nothing", r.refund(plan, "k", 1, charge), 0, position(1, 4))
}

func ledgerAdopts(r *rig) {
	calendar := rule(r, core.PerMonth(10, time.UTC).Named("plan"))
	plan := plan(r, 10)
	r.wantTake(calendar, "k", 6, true, 4)
	r.wantUnknown("after the calendar", plan, r.take(plan, "k", 1))
	r.wantAccount("restored with less", r.restore(plan, "k", store.Restoration{Used: 5, Generation: 1}), 6, position(1, 1))
	r.wantTake(calendar, "l", 6, true, 4)
	r.wantAccount("restored with more", r.restore(plan, "l", store.Restoration{Used: 8, Generation: 1}), 8, position(1, 1))
	r.wantAccount("take", r.wantTake(plan, "l", 2, true, 0), 10, position(1, 2))

	for name, limit := range Algorithms(100, time.Hour) {
		r.wantTake(rule(r, limit.Named("plan")), name, 7, true, 93)
		r.wantAccount(name, r.restore(plan, name, store.Restoration{Generation: 1}), 7, position(1, 1))
	}
}

func ledgerConverted(r *rig) {
	calendar := rule(r, core.PerMonth(10, time.UTC).Named("plan"))
	plan := plan(r, 10)
	r.restore(plan, "k", store.Restoration{Used: 3, Generation: 1})
	r.wantTake(plan, "k", 1, true, 6)
	if got := r.wantTake(calendar, "k", 2, true, 4); got.Used != 0 || got.Position != 0 {
		r.Errorf("a calendar window has a position: %s", show(got))
	}
	r.wantUnknown("after the calendar", plan, r.take(plan, "k", 1))
	r.wantTake(calendar, "k", 1, true, 3)
	r.wantAccount("restored", r.restore(plan, "k", store.Restoration{Used: 4, Generation: 2}), 7, position(2, 1))

	berlin := ledgerRule(r, core.PerMonth(10, Zone("America/New_York")).Named("plan"))
	r.wantUnknown("other periods", berlin, r.take(berlin, "k", 1))
	r.wantAccount("other periods, restored", r.restore(berlin, "k", store.Restoration{Used: 1, Generation: 1}), 7, position(1, 1))

	for name, limit := range Algorithms(100, time.Hour) {
		other := rule(r, limit.Named("plan"))
		r.restore(plan, name, store.Restoration{Used: 9, Generation: 1})
		r.wantTake(other, name, 1, true, 90)
		r.wantUnknown(name, plan, r.peek(plan, name, 1))
	}
}

func ledgerReset(r *rig) {
	plan := plan(r, 10)
	r.restore(plan, "k", store.Restoration{Used: 3, Generation: 1})
	r.reset(plan, "k")
	r.wantUnknown("after a reset", plan, r.take(plan, "k", 1))
	r.wantAccount("restored", r.restore(plan, "k", store.Restoration{Generation: 2}), 0, position(2, 1))
}

func ledgerQuota(r *rig) {
	small, large := plan(r, 10), plan(r, 5_000_000_000)
	r.restore(small, "k", store.Restoration{Used: 9, Generation: 1})
	r.wantTake(small, "k", 2, false, 1)
	r.wantAccount("more", r.wantTake(large, "k", 4_000_000_000, true, 999_999_991), 4_000_000_009, position(1, 2))
	r.wantAccount("less", r.wantTake(small, "k", 1, false, 0), 4_000_000_009, position(1, 2))
	r.wantAccount("more again", r.wantTake(large, "k", 1, true, 999_999_990), 4_000_000_010, position(1, 3))
	largest := plan(r, 1<<51)
	r.wantAccount("all there is", r.restore(largest, "k", store.Restoration{Used: 1<<51 - 1, Generation: store.MaxGeneration, Expect: 1}), 1<<51-1, position(store.MaxGeneration, 1))
	r.wantAccount("the last unit", r.wantTake(largest, "k", 1, true, 0), 1<<51, position(store.MaxGeneration, 2))
	r.wantAccount("charged beyond", r.charge(largest, "k", 1<<51), 1<<52, position(store.MaxGeneration, 3))
}

func ledgerClasses(r *rig) {
	limit := core.PerMonth(10, time.UTC).Named("plan")
	lower, err := LowerRule(limit.Reserve(0.4, keyfuncs.Methods("POST")))
	if err != nil {
		r.Fatal(err)
	}
	few, err := lower.Ledger()
	if err != nil {
		r.Fatal(err)
	}
	all := plan(r, 10)
	r.restore(all, "k", store.Restoration{Generation: 1})
	r.wantAccount("the lower class", r.wantTake(few, "k", 6, true, 0), 6, position(1, 2))
	r.wantAccount("the lower class", r.wantTake(few, "k", 1, false, 0), 6, position(1, 2))
	r.wantAccount("the upper class", r.wantTake(all, "k", 4, true, 0), 10, position(1, 3))
	r.wantAccount("charged in the lower class", r.charge(few, "k", 100), 20, position(1, 4))
}

func ledgerRestoredOnce(r *rig) {
	const processes = 32
	plan := plan(r, 1000)
	ends := plan.PeriodEnd(r.Micros())
	for round := range int64(5) {
		r.reset(plan, "k")
		var won atomic.Int64
		var all sync.WaitGroup
		for n := range int64(processes) {
			all.Go(func() {
				// Each has a generation of its own, as the ledger gives them out.
				from := store.Restoration{Used: 100 * round, Generation: processes*round + n + 1, Ends: ends}
				results := make([]core.Result, 1)
				if err := r.restorer().Restore(context.Background(), []core.Check{account(plan, "k", 0)}, []store.Restoration{from}, results); err != nil {
					r.Errorf("restore: %v", err)
					return
				}
				switch generation := store.Generation(results[0].Position); {
				case results[0].Charged && generation == from.Generation:
					won.Add(1)
				case results[0].Charged || generation == from.Generation:
					r.Errorf("restored=%v, generation %d of %d", results[0].Charged, from.Generation, generation)
				}
				if err := r.Take(context.Background(), []core.Check{account(plan, "k", 1)}, results); err != nil || !results[0].Charged {
					r.Errorf("take after restore: %s, %v", show(results[0]), err)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			r.Fatalf("%d of %d restorations counted, want 1", won.Load(), processes)
		}
		got := r.peek(plan, "k", 1)
		r.wantAccount("after all", got, 100*round+processes, position(store.Generation(got.Position), 1+processes))
	}
}

func ledgerParallel(r *rig) {
	const cost, quota, base = 3, 500, 20
	plan := plan(r, quota)
	r.restore(plan, "k", store.Restoration{Used: base, Generation: 7})
	var mu sync.Mutex
	var charged []core.Result
	atOnce(r, r.Store, account(plan, "k", cost), 64, 10, func(got core.Result) {
		mu.Lock()
		defer mu.Unlock()
		if got.Charged {
			charged = append(charged, got)
		} else if got.Allowed || got.Used != base+cost*((quota-base)/cost) {
			r.Errorf("denied: %s", show(got))
		}
	})
	if want := (quota - base) / cost; len(charged) != want {
		r.Errorf("%d requests of cost %d passed, want %d", len(charged), cost, want)
	}
	slices.SortFunc(charged, func(a, b core.Result) int { return int(a.Position - b.Position) })
	for i, got := range charged {
		r.wantAccount("in order of positions", got, base+cost*int64(i+1), position(7, int64(i)+2))
	}
}

func ledgerSeveral(r *rig) {
	month, day := plan(r, 10), ledgerRule(r, core.PerCalendarDay(5, Zone("Europe/Berlin")).Named("day"))
	checks := []core.Check{account(month, "k", 1), account(day, "k", 1), account(month, "l", 1)}
	from := []store.Restoration{
		{Used: 1, Generation: 1, Ends: month.PeriodEnd(r.Micros())},
		{Used: 2, Generation: 9, Expect: 4, Ends: day.PeriodEnd(r.Micros())},
		{Used: 3, Generation: 3, Ends: month.PeriodEnd(r.Micros())},
	}
	restore := func() []core.Result {
		results := make([]core.Result, len(checks))
		if err := r.restorer().Restore(context.Background(), checks, from, results); err != nil {
			r.Fatal(err)
		}
		return results
	}
	got := restore()
	r.wantAccount("first", got[0], 1, position(1, 1))
	r.wantUnknown("second", day, got[1])
	r.wantAccount("third", got[2], 3, position(3, 1))
	if got := r.takeAll(checks...); got[0].Charged || got[2].Charged {
		r.Fatalf("one of three is unknown: %s %s %s", show(got[0]), show(got[1]), show(got[2]))
	}
	from[1].Expect = 0
	if got = restore(); got[0].Charged || !got[1].Charged || got[2].Charged {
		r.Fatalf("restored the second: %s %s %s", show(got[0]), show(got[1]), show(got[2]))
	}
	got = r.takeAll(checks...)
	for i, used := range []int64{2, 3, 4} {
		// Where keys are apart, a denied request may have charged an account and given it back.
		if generation := from[i].Generation; !got[i].Charged || got[i].Used != used || store.Generation(got[i].Position) != generation {
			r.Errorf("account %d: %s, want used=%d in generation %d", i, show(got[i]), used, generation)
		}
	}
}

func ledgerBad(r *rig) {
	plan := plan(r, 10)
	good := store.Restoration{Generation: 1, Ends: plan.PeriodEnd(r.Micros())}
	bad := good
	bad.Used = -1
	elsewhere := store.Restoration{Generation: 9, Expect: 2, Position: position(3, 1), Ends: good.Ends}
	for what, call := range map[string]struct {
		checks []core.Check
		from   []store.Restoration
	}{
		"units below 0":                    {[]core.Check{account(plan, "k", 0), account(plan, "l", 0)}, []store.Restoration{good, bad}},
		"a position of another generation": {[]core.Check{account(plan, "k", 0)}, []store.Restoration{elsewhere}},
		"a restoration too few":            {[]core.Check{account(plan, "k", 0), account(plan, "l", 0)}, []store.Restoration{good}},
		"an account twice":                 {[]core.Check{account(plan, "k", 0), account(plan, "k", 0)}, []store.Restoration{good, good}},
		"a limit without account":          {[]core.Check{account(plan, "k", 0), account(rule(r, core.PerHour(1)), "k", 0)}, []store.Restoration{good, good}},
	} {
		if err := r.restorer().Restore(context.Background(), call.checks, call.from, make([]core.Result, len(call.checks))); err == nil {
			r.Errorf("%s: not refused", what)
		}
	}
	r.wantUnknown("after bad restorations", plan, r.take(plan, "k", 1))
	if err := r.restorer().Restore(context.Background(), nil, nil, nil); err != nil {
		r.Errorf("nothing to restore: %v", err)
	}
}

// inBook returns the ledger of a rule, if a book can keep it, and otherwise the rule.
func inBook(r core.Rule) *core.Rule {
	twin, err := r.Ledger()
	if err != nil {
		return &r
	}
	return twin
}

// restoreAccounts restores those checks whose limits are kept in books, mostly as a book would.
func (s *sequence) restoreAccounts(checks []core.Check) {
	s.Helper()
	checks = slices.DeleteFunc(checks, func(c core.Check) bool { return c.Rule.Algorithm != store.Ledger })
	if len(checks) == 0 {
		return
	}
	from := make([]store.Restoration, len(checks))
	for i := range checks {
		c := &checks[i]
		checks[i].Once = nil
		b, _ := s.model.open(c.Rule, string(c.Key), s.Micros())
		from[i] = store.Restoration{
			Used:       s.rand.Int64N(c.Rule.Burst + c.Rule.Burst/4 + 1),
			Generation: min(store.Generation(b.known)+1+s.rand.Int64N(3), store.MaxGeneration),
			Expect:     store.Generation(b.known),
			Ends:       b.end,
		}
		switch s.rand.IntN(10) {
		case 0:
			from[i].Expect = s.rand.Int64N(from[i].Generation)
		case 1:
			from[i].Ends++
		case 3:
			from[i].Position = b.known
		case 4:
			if store.Generation(b.known) > 0 {
				from[i].Position = b.known + 1
			}
		case 2:
			from[i].Used = 1 << 40
		}
		s.log("restore %s %s (%s) to %+v", c.Key, c.Rule.Name, describe(c.Rule), from[i])
	}
	got := make([]core.Result, len(checks))
	if err := s.restorer().Restore(context.Background(), checks, from, got); err != nil {
		s.Fatalf("restore: %v\n%s", err, s.trace)
	}
	s.compare("restore", checks, got, s.model.restore(checks, from, s.Micros()))
}

// catchUp moves the model's account on to the position of a store in which keys are apart. There
// a request that one key denies may have been charged to another and given back.
func (m *model) catchUp(c *core.Check, got core.Result, want *core.Result) {
	b := m.buckets[string(c.Key)+"|"+c.Rule.Name]
	if b == nil || b.rule.Algorithm != store.Ledger || want.Position == 0 || got.Position < want.Position ||
		store.Generation(got.Position) != store.Generation(want.Position) {
		return
	}
	b.known += got.Position - want.Position
	want.Position = got.Position
}
