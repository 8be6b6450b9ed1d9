package storetest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// ledgerTable is the part of the table about calendar limits whose use is kept in a book.
var ledgerTable = []tableTest{
	{"an unknown account admits nothing until it is restored", withAccounts(ledgerUnknown)},
	{"an account that has used nothing is known once it is restored", withAccounts(ledgerUnused)},
	{"a position rises with each change and with nothing else", withAccounts(ledgerPositions)},
	{"a restoration counts only after the generation it expects", withAccounts(ledgerGenerations)},
	{"a restoration of one period does not count in another", withAccounts(ledgerPeriods)},
	{"an account that is known in one period is known in the next", withAccounts(ledgerNextPeriod)},
	{"a clock set back by months makes accounts unknown", withAccounts(setBackLedger)},
	{"an unknown account keeps a whole request from having any effect", withAccounts(ledgerWhole)},
	{"an unknown account keeps a shadow's request from being charged, too", withAccounts(ledgerShadow)},
	{"of the alternatives of a request that another limit denies, the unknown account answers", withAccounts(ledgerOfAlternatives)},
	{"an operation is charged to an account once", withAccounts(ledgerOnce)},
	{"a charge brings an account to twice its quota and no further", withAccounts(ledgerCharge)},
	{"a refund lowers what an account has used in its period", withAccounts(ledgerRefunds)},
	{"what a calendar window was charged counts when its account is restored", withAccounts(ledgerAdopts)},
	{"a ledger read as another limit keeps what was used, and is unknown after that", withAccounts(ledgerConverted)},
	{"a reset makes an account unknown", withAccounts(ledgerReset)},
	{"the quota of an account may change", withAccounts(ledgerQuota)},
	{"two classes of requests share an account", withAccounts(ledgerClasses)},
	{"of many who restore an account at once, one does", withAccounts(ledgerRestoredOnce)},
	{"parallel callers get exactly the quota, each its own position", withAccounts(ledgerParallel)},
	{"an account is set during its call only", withAccounts(ledgerDuringCall)},
	{"accounts are restored each for itself", withAccounts(ledgerSeveral)},
	{"bad restorations are refused and change nothing", withAccounts(ledgerBad)},
}

// ledgerOfAlternatives has a store that asks key after key charge the client's, whose first alternative fits, before that of
// everyone denies.
func ledgerOfAlternatives(r *bookRig) {
	plan, day, all := plan(r, 10), rule(r, core.PerDay(5).Named("day")), rule(r, core.PerDay(1).Named("all"))
	for i := range 30 { // so that it knows which keys are shared
		r.take(day, fmt.Sprint("client", i), 1)
	}
	r.charge(all, "everyone", 1)
	for _, cost := range []int64{0, 1} {
		got := r.takeAll(
			core.Check{Key: []byte("everyone"), Rule: all, Cost: 1},
			core.Check{Key: []byte("client"), Rule: day, Cost: cost},
			core.Check{Key: []byte("client"), Rule: plan, Or: true},
		)
		if got[0].Allowed || got[1].Charged || !got[1].PassedOver || !got[2].Unknown || got[2].PassedOver {
			r.Errorf("cost %d, denied by the limit of everyone %s; the alternatives %s and %s, want the account, which is unknown", cost, got[0].show(), got[1].show(), got[2].show())
		}
	}
}

// ledgerRule returns the ledger of a calendar limit.
func ledgerRule(r testing.TB, limit core.Limit) *core.Rule {
	r.Helper()
	return must.Get(counting.LedgerOf(rule(r, limit)))(r)
}

// plan returns a ledger of n units per month.
func plan(r testing.TB, n int64) *core.Rule {
	return ledgerRule(r, core.PerMonth(n, time.UTC).Named("plan"))
}

func account(rule *core.Rule, key string, cost int64) core.Check {
	return core.Check{Key: []byte(key), Rule: rule, Cost: cost}
}

// position is that of a change in a generation.
func position(generation, change int64) int64 { return generation<<36 + change }

// answer is a result, and the account that came with it.
type answer struct {
	core.Result
	store.Account
}

func (a answer) show() string {
	return fmt.Sprintf("%s used=%d position=%d:%d", show(a.Result), a.Used, counting.Generation(a.Position), a.Position&(1<<36-1))
}

// untold is what an account holds before a call. No store tells it.
var untold = store.Account{Used: -1, Position: -1}

// fresh returns checks with accounts of their own, which nobody has told anything: those that have
// one.
func fresh(checks []core.Check) []core.Check {
	checks = slices.Clone(checks)
	for i := range checks {
		if checks[i].Account != nil {
			a := untold
			checks[i].Account = &a
		}
	}
	return checks
}

// answersOf returns what a call has told, without the history of a server, which is random.
func answersOf(checks []core.Check, results []core.Result) []answer {
	answers := make([]answer, len(checks))
	for i := range answers {
		answers[i] = answer{results[i], untold}
		if a := checks[i].Account; a != nil {
			answers[i].Account = *a
			answers[i].History = 0
		}
	}
	return answers
}

// bookRig is a rig that asks as a book does: with accounts.
type bookRig struct{ *rig }

func withAccounts(run func(*bookRig)) func(*rig) {
	return func(r *rig) { run(&bookRig{r}) }
}

// ask makes a call with accounts. results are those of an earlier call, for a refund.
func (r *bookRig) ask(what string, call func(context.Context, []core.Check, []core.Result) error, checks []core.Check, results ...core.Result) []answer {
	r.Helper()
	checks = slices.Clone(checks)
	for i := range checks {
		checks[i].Account = new(store.Account)
	}
	checks = fresh(checks)
	if results == nil {
		results = make([]core.Result, len(checks))
	}
	if err := call(context.Background(), checks, results); err != nil {
		r.Fatalf("%s: %v", what, err)
	}
	return answersOf(checks, results)
}

func (r *bookRig) takeAll(checks ...core.Check) []answer {
	r.Helper()
	return r.ask("take", r.Take, checks)
}

func (r *bookRig) take(rule *core.Rule, key string, cost int64) answer {
	r.Helper()
	return r.takeAll(account(rule, key, cost))[0]
}

func (r *bookRig) peek(rule *core.Rule, key string, cost int64) answer {
	r.Helper()
	return r.ask("peek", r.Peek, []core.Check{account(rule, key, cost)})[0]
}

func (r *bookRig) charge(rule *core.Rule, key string, cost int64) answer {
	r.Helper()
	return r.ask("charge", r.Charge, []core.Check{account(rule, key, cost)})[0]
}

func (r *bookRig) refund(rule *core.Rule, key string, cost int64, charged answer) answer {
	r.Helper()
	return r.ask("refund", r.Refund, []core.Check{account(rule, key, cost)}, charged.Result)[0]
}

// wantTake takes, and fails the test unless allowed and remaining are as given.
func (r *bookRig) wantTake(rule *core.Rule, key string, cost int64, allowed bool, remaining int64) answer {
	r.Helper()
	got := r.take(rule, key, cost)
	if got.Allowed != allowed || got.Charged != allowed || got.Remaining != remaining {
		r.Fatalf("%s: take %d: got %s, want allowed=%v remaining=%d", describe(rule), cost, got.show(), allowed, remaining)
	}
	return got
}

// restore restores one account, in the period of the clock.
func (r *bookRig) restore(rule *core.Rule, key string, from counting.Restoration) answer {
	r.Helper()
	if from.Ends == 0 {
		from.Ends = rule.PeriodEnd(r.Micros())
	}
	return r.restoreAll([]core.Check{account(rule, key, 0)}, []counting.Restoration{from})[0]
}

func (r *bookRig) restoreAll(checks []core.Check, from []counting.Restoration) []answer {
	r.Helper()
	from = slices.Clone(from)
	for i := range from {
		if i < len(checks) {
			from[i].History = HistoryOf(r.rig, r.Store, checks[i])
		}
	}
	return r.ask("restore", func(ctx context.Context, checks []core.Check, results []core.Result) error {
		return r.restorer().Restore(ctx, checks, from, results)
	}, checks)
}

// HistoryOf returns the history of the server that has the account of a check, for a restoration.
func HistoryOf(tb testing.TB, s core.Store, c core.Check) int64 {
	tb.Helper()
	if c.Rule == nil || c.Rule.Algorithm != store.Ledger {
		return 0
	}
	var a store.Account
	must.OK(tb, s.Peek(context.Background(), []core.Check{{Key: c.Key, Rule: c.Rule, Account: &a}}, make([]core.Result, 1)))
	return a.History
}

func (r *rig) restorer() counting.Restorer {
	r.Helper()
	restorer, ok := counting.RestorerOf(struct{ core.Store }{r.Store}) // as a wrapper has it
	if !ok {
		r.Fatal("the store is no counting.Restorer, or does not tell its registry")
	}
	return restorer
}

// wantAccount fails the test unless the result is of a known account.
func (r *bookRig) wantAccount(what string, got answer, used, position int64) answer {
	r.Helper()
	if got.Used != used || got.Position != position {
		r.Fatalf("%s: got %s, want used=%d position=%d:%d", what, got.show(), used, counting.Generation(position), position&(1<<36-1))
	}
	return got
}

// wantUnknown fails the test unless the result is of an unknown account.
func (r *bookRig) wantUnknown(what string, rule *core.Rule, got answer) answer {
	r.Helper()
	if !got.Unknown || got.Used != 0 || got.Position != 0 || got.Remaining != 0 || counting.Ends(&got.Result) != rule.PeriodEnd(r.Micros()) {
		r.Fatalf("%s: got %s, want an unknown account whose period ends at %d", what, got.show(), rule.PeriodEnd(r.Micros()))
	}
	return got
}

func ledgerUnknown(r *bookRig) {
	plan := plan(r, 10)
	for range 3 {
		if got := r.wantUnknown("take", plan, r.take(plan, "k", 1)); got.Allowed || got.Charged || got.RetryAfter <= 0 {
			r.Fatalf("take: %s", got.show())
		}
	}
	if got := r.wantUnknown("peek", plan, r.peek(plan, "k", 1)); got.Allowed {
		r.Fatalf("peek: %s", got.show())
	}
	if got := r.wantUnknown("a cost above the quota", plan, r.take(plan, "k", 11)); got.Allowed {
		r.Fatalf("a cost above the quota: %s", got.show())
	}
	if got := r.wantUnknown("a cost of nothing", plan, r.take(plan, "k", 0)); !got.Allowed || got.Charged {
		r.Fatalf("a cost of nothing: %s", got.show())
	}
	if got := r.wantUnknown("charge", plan, r.charge(plan, "k", 3)); got.Charged {
		r.Fatalf("charge: %s", got.show())
	}
	charged := answer{Result: core.Result{Charged: true, Allowed: true, Remaining: 4, ResetAfter: time.Hour, At: r.Micros()}}
	want := charged
	want.Unknown = true
	if got := r.refund(plan, "k", 2, charged); got != want {
		r.Fatalf("a refund gives %s, want it as it was, but unknown: %s", got.show(), want.show())
	}
	r.wantAccount("restored", r.restore(plan, "k", counting.Restoration{Used: 4, Generation: 1}), 4, position(1, 1))
	r.wantAccount("take", r.wantTake(plan, "k", 1, true, 5), 5, position(1, 2))
	r.wantAccount("refund", r.refund(plan, "k", 2, charged), 3, position(1, 3))
	r.wantUnknown("another key", plan, r.take(plan, "l", 1))
}

func ledgerUnused(r *bookRig) {
	plan := plan(r, 10)
	got := r.restore(plan, "k", counting.Restoration{Generation: 5})
	if !got.Charged || !got.Allowed || got.Remaining != 10 || counting.Ends(&got.Result) != plan.PeriodEnd(r.Micros()) {
		r.Fatalf("restored: %s", got.show())
	}
	r.wantAccount("restored", got, 0, position(5, 1))
	r.wantAccount("peek", r.peek(plan, "k", 1), 0, position(5, 1))
	charge := r.wantTake(plan, "k", 3, true, 7)
	r.wantAccount("refund of all", r.refund(plan, "k", 3, charge), 0, position(5, 3))
	r.wantAccount("take", r.wantTake(plan, "k", 10, true, 0), 10, position(5, 4))
}

func ledgerPositions(r *bookRig) {
	plan := plan(r, 10)
	r.restore(plan, "k", counting.Restoration{Used: 1, Generation: 1})
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
	if results[1].Account != untold {
		r.Errorf("another limit has a position: %s", results[1].show())
	}
	shadow := account(plan, "k", 8)
	shadow.Shadow = true
	r.wantAccount("a shadow that does not fit", r.takeAll(shadow)[0], 3, position(1, 4))
	shadow.Cost = 7
	r.wantAccount("a shadow that fits", r.takeAll(shadow)[0], 10, position(1, 5))
}

func ledgerGenerations(r *bookRig) {
	plan := plan(r, 100)
	try := func(from counting.Restoration, restored bool, used, position int64) {
		r.Helper()
		got := r.restore(plan, "k", from)
		if got.Charged != restored {
			r.Fatalf("%+v: got %s, want charged=%v", from, got.show(), restored)
		}
		if position == 0 {
			r.wantUnknown("restore", plan, got)
			return
		}
		r.wantAccount("restore", got, used, position)
	}
	try(counting.Restoration{Used: 5, Generation: 2, Expect: 1}, false, 0, 0)
	try(counting.Restoration{Used: 5, Generation: 2}, true, 5, position(2, 1))
	try(counting.Restoration{Used: 5, Generation: 2}, false, 5, position(2, 1)) // a repeat
	try(counting.Restoration{Used: 50, Generation: 3}, false, 5, position(2, 1))
	r.wantTake(plan, "k", 3, true, 92)
	try(counting.Restoration{Used: 50, Generation: 4, Expect: 3}, false, 8, position(2, 2))
	try(counting.Restoration{Used: 50, Generation: 4, Expect: 1}, false, 8, position(2, 2))
	try(counting.Restoration{Used: 20, Generation: 4, Expect: 2}, true, 20, position(4, 1)) // a fork that had used less
	r.wantTake(plan, "k", 1, true, 79)
	try(counting.Restoration{Used: 50, Generation: 5, Expect: 4, Position: position(4, 1)}, false, 21, position(4, 2)) // it was charged
	try(counting.Restoration{Used: 20, Generation: 5, Expect: 4, Position: position(4, 2)}, true, 20, position(5, 1))  // with what was charged until then
	try(counting.Restoration{Used: 10, Generation: counting.MaxGeneration, Expect: 5}, true, 20, position(counting.MaxGeneration, 1))
	try(counting.Restoration{Used: 10, Generation: counting.MaxGeneration, Expect: 5}, false, 20, position(counting.MaxGeneration, 1)) // a repeat
	r.wantAccount("take", r.wantTake(plan, "k", 80, true, 0), 100, position(counting.MaxGeneration, 2))
}

func ledgerPeriods(r *bookRig) {
	plan := plan(r, 10)
	r.Set(time.Date(2026, 3, 31, 23, 59, 59, 0, time.UTC))
	unknown := r.wantUnknown("in March", plan, r.take(plan, "k", 1))
	march := counting.Ends(&unknown.Result)
	other := r.restore(plan, "k", counting.Restoration{Used: 9, Generation: 1, Ends: march + 1})
	r.wantUnknown("a restoration of another period", plan, other)
	r.restore(plan, "k", counting.Restoration{Used: 9, Generation: 1, Ends: march})
	charge := r.wantTake(plan, "k", 1, true, 0)
	r.Advance(time.Second)
	r.reset(plan, "k")
	r.wantUnknown("in April", plan, r.take(plan, "k", 1))
	got := r.restore(plan, "k", counting.Restoration{Used: 9, Generation: 2, Ends: march})
	if r.wantUnknown("March, restored in April", plan, got); got.Charged {
		r.Fatalf("March was restored in April: %s", got.show())
	}
	if got := r.refund(plan, "k", 1, charge); got.Charged || got.Position != 0 {
		r.Fatalf("a refund of March in April: %s", got.show())
	}
	r.restore(plan, "k", counting.Restoration{Generation: 1})
	r.wantAccount("in April", r.wantTake(plan, "k", 4, true, 6), 4, position(1, 2))
	r.wantAccount("a refund of March in April", r.refund(plan, "k", 1, charge), 4, position(1, 2))
	r.Advance(-time.Minute) // back into March: April's window counts until its end
	back := r.wantAccount("clock set back", r.wantTake(plan, "k", 1, true, 5), 5, position(1, 3))
	if counting.Ends(&back.Result) == march {
		r.Error("clock set back: an account of April says it is one of March")
	}
	r.wantAccount("a refund of April before April", r.refund(plan, "k", 1, back), 4, position(1, 4))
	back = r.wantAccount("clock set back", r.wantTake(plan, "k", 1, true, 5), 5, position(1, 5))
	r.Advance(time.Minute)
	r.wantAccount("a refund in April of what was charged to it before", r.refund(plan, "k", 1, back), 4, position(1, 6))
	r.reset(plan, "k")
	if got := r.refund(plan, "k", 1, back); !got.Unknown {
		r.Errorf("a refund of April, which was forgotten: %s", got.show())
	}
}

// All accounts begin in the same instant, and those that the store has from the period before do so by themselves.
func ledgerNextPeriod(r *bookRig) {
	plan := plan(r, 10)
	daily := ledgerRule(r, core.PerCalendarDay(10, time.UTC).Named("daily"))
	april := time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
	prepare := func(key string) answer {
		r.Set(april.Add(-time.Second))
		r.restore(plan, key, counting.Restoration{Used: 3, Generation: 7})
		return r.wantTake(plan, key, 5, true, 2)
	}
	march := prepare("k")
	r.Set(april)
	r.wantAccount("a look at April", r.peek(plan, "k", 1), 0, position(1, 0))
	r.wantAccount("denied in April", r.take(plan, "k", 11), 0, position(1, 0))
	r.wantAccount("a refund of March in April", r.refund(plan, "k", 1, march), 0, position(1, 0))
	r.wantAccount("a charge of April", r.charge(plan, "k", 2), 2, position(1, 1))
	if got := r.wantAccount("in April", r.wantTake(plan, "k", 4, true, 4), 6, position(1, 2)); counting.Ends(&got.Result) != plan.PeriodEnd(april.UnixMicro()) {
		r.Errorf("an account of April: %s", got.show())
	}
	r.wantAccount("restored by a book that is late", r.restore(plan, "k", counting.Restoration{Used: 1, Generation: 2}), 6, position(1, 2))
	r.wantAccount("gone on by a book", r.restore(plan, "k", counting.Restoration{Used: 1, Generation: 2, Expect: 1}), 6, position(2, 1))

	prepare("late")
	r.Set(april.Add(6*time.Hour - time.Microsecond))
	r.wantAccount("hours later", r.wantTake(plan, "late", 1, true, 9), 1, position(1, 1))
	prepare("too late")
	r.Set(april.Add(6 * time.Hour))
	r.wantUnknown("too late", plan, r.take(plan, "too late", 1))
	prepare("missed")
	r.Set(april.AddDate(0, 1, 0))
	r.wantUnknown("two months later", plan, r.take(plan, "missed", 1))

	for key, write := range map[string]func(key string, march answer) answer{
		"a charge of nothing": func(key string, _ answer) answer { return r.charge(plan, key, 0) },
		"a refund of nothing": func(key string, march answer) answer { return r.refund(plan, key, 0, march) },
		"a refund of March":   func(key string, march answer) answer { return r.refund(plan, key, 1, march) },
		"a late restoration": func(key string, _ answer) answer {
			return r.restore(plan, key, counting.Restoration{Used: 1, Generation: 2})
		},
	} {
		march := prepare(key)
		r.Set(april)
		r.wantAccount(key, write(key, march), 0, position(1, 0))
		r.Set(april.Add(6 * time.Hour))
		r.wantAccount(key+" has begun April", r.wantTake(plan, key, 1, true, 9), 1, position(1, 1))
	}

	prepare("used up")
	r.wantTake(plan, "used up", 2, true, 0)
	r.wantTake(plan, "used up", 1, false, 0)
	r.Set(april)
	r.wantTake(plan, "used up", 10, true, 0)

	r.Set(april.Add(-time.Second))
	r.wantUnknown("never restored", plan, r.take(plan, "new", 1))
	r.restore(daily, "k", counting.Restoration{Generation: 1}) // beside another account of the key
	r.Set(april)
	r.wantUnknown("never restored", plan, r.take(plan, "new", 1))
	r.wantAccount("another day", r.wantTake(daily, "k", 1, true, 9), 1, position(1, 1))

	prepare("other periods")
	r.Set(april)
	elsewhere := ledgerRule(r, core.PerMonth(10, Zone("America/New_York")).Named("plan"))
	r.wantUnknown("in another time zone", elsewhere, r.take(elsewhere, "other periods", 1))

	prepare("back")
	r.Set(april)
	r.wantTake(plan, "back", 1, true, 9)
	r.Set(april.Add(-time.Second))
	r.wantAccount("the clock is set back", r.wantTake(plan, "back", 1, true, 8), 2, position(1, 2))
}

func ledgerWhole(r *bookRig) {
	op := keyfuncs.Header("Idempotency-Key")
	plan := ledgerRule(r, core.PerMonth(10, time.UTC).Named("plan").OncePer(op, time.Hour).Repeats(2))
	orders := rule(r, core.PerDay(5).Named("orders").OncePer(op, time.Hour).Repeats(2))
	login := rule(r, core.PerDay(1).Named("login").Penalty(core.Block{After: 2, Within: time.Hour, For: time.Hour}))
	checks := []core.Check{operation(plan, "k", "a"), operation(orders, "k", "a"), account(login, "k", 1), account(orders, "l", 1)}

	r.restore(plan, "k", counting.Restoration{Generation: 1})
	if got := r.takeAll(checks...); !got[0].Charged || !got[1].Charged || !got[2].Charged || !got[3].Charged {
		r.Fatalf("known: %s %s %s %s", got[0].show(), got[1].show(), got[2].show(), got[3].show())
	}
	r.reset(plan, "k") // the store forgets
	for range 5 {      // operation a has two free repeats, login blocks at the second denial
		got := r.takeAll(checks...)
		if got[0].Allowed || got[0].Repeated {
			r.Fatalf("a repeat of an operation of an unknown account: %s", got[0].show())
		}
		r.wantUnknown("among others", plan, got[0])
		for i, remaining := range []int64{0, 4, 0, 4} {
			if i > 0 && (got[i].Charged || got[i].Blocked || got[i].Remaining != remaining) {
				r.Fatalf("beside an unknown account: %d: %s", i, got[i].show())
			}
		}
	}
	r.restore(plan, "k", counting.Restoration{Used: 1, Generation: 2})
	for n := range 2 {
		got := r.takeAll(checks[:2]...)
		if !got[0].Repeated || !got[1].Repeated {
			r.Fatalf("repeat %d of the operation: %s %s", n+1, got[0].show(), got[1].show())
		}
		r.wantAccount("a repeat", got[0], 1, position(2, 1))
	}
	if got := r.takeAll(checks[2])[0]; got.Allowed || got.Blocked {
		r.Fatalf("the first strike: %s", got.show())
	}
	if got := r.takeAll(checks[2])[0]; !got.Blocked {
		r.Fatalf("the second strike: %s", got.show())
	}
}

func ledgerShadow(r *bookRig) {
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
				r.Fatalf("beside an unknown shadow: %s, %s", got[0].show(), got[1].show())
			}
		}
		r.restore(plan, "k", counting.Restoration{Generation: 1})
		if got := r.takeAll(shadow, account(hourly, key, 1)); !got[0].Charged || !got[1].Charged {
			r.Fatalf("beside a known shadow: %s, %s", got[0].show(), got[1].show())
		}
	}
}

func ledgerOnce(r *bookRig) {
	plan := ledgerRule(r, core.PerMonth(10, time.UTC).Named("plan").OncePer(keyfuncs.Header("Idempotency-Key"), time.Hour).Repeats(3))
	take := func(op string) answer { return r.takeAll(operation(plan, "k", op))[0] }
	for range 3 {
		r.wantUnknown("an operation", plan, take("a"))
	}
	r.restore(plan, "k", counting.Restoration{Generation: 1})
	first := r.wantAccount("an operation", take("a"), 1, position(1, 2))
	if !first.Charged {
		r.Fatalf("an operation that was tried on an unknown account: %s", first.show())
	}
	for range 3 {
		if got := r.wantAccount("a repeat", take("a"), 1, position(1, 2)); !got.Repeated {
			r.Fatalf("a repeat: %s", got.show())
		}
	}
	r.wantAccount("a repeat too many", take("a"), 2, position(1, 3))
	second := r.wantAccount("another", take("b"), 3, position(1, 4))

	refund := func() answer {
		return r.ask("refund", r.Refund, []core.Check{operation(plan, "k", "b")}, second.Result)[0]
	}
	r.reset(plan, "k")
	if got := refund(); !got.Charged || !got.Unknown || got.Position != 0 {
		r.Fatalf("a refund to an unknown account: %s", got.show())
	}
	r.restore(plan, "k", counting.Restoration{Used: 3, Generation: 2})
	if got := take("b"); !got.Repeated {
		r.Fatalf("after a refund to an unknown account, which did nothing: %s", got.show())
	}
	r.wantAccount("a refund", refund(), 2, position(2, 2))
	if got := take("b"); !got.Charged {
		r.Fatalf("after a refund: %s", got.show())
	}
}

func ledgerCharge(r *bookRig) {
	plan := plan(r, 10)
	r.restore(plan, "k", counting.Restoration{Generation: 1})
	if got := r.wantAccount("charge 12", r.charge(plan, "k", 12), 12, position(1, 2)); !got.Charged || got.Remaining != 0 {
		r.Fatalf("charge: %s", got.show())
	}
	r.wantAccount("charge 100", r.charge(plan, "k", 100), 20, position(1, 3))
	r.wantAccount("charge more", r.charge(plan, "k", 1), 20, position(1, 3))
	r.wantAccount("restored with more", r.restore(plan, "k", counting.Restoration{Used: 5000, Generation: 2, Expect: 1}), 5000, position(2, 1))
	r.wantAccount("charge still more", r.charge(plan, "k", 1), 5000, position(2, 1))
	r.wantAccount("take", r.wantTake(plan, "k", 1, false, 0), 5000, position(2, 1))
}

func ledgerRefunds(r *bookRig) {
	plan := plan(r, 10)
	r.restore(plan, "k", counting.Restoration{Used: 2, Generation: 1})
	charge := r.wantTake(plan, "k", 5, true, 3)
	r.wantAccount("a part", r.refund(plan, "k", 1, charge), 6, position(1, 3))
	if got := r.wantAccount("more than there is", r.refund(plan, "k", 1000, charge), 0, position(1, 4)); got.Charged || got.Remaining != 10 {
		r.Fatalf("refund: %s", got.show())
	}
	r.wantAccount("of nothing", r.refund(plan, "k", 1, charge), 0, position(1, 4))
}

func ledgerAdopts(r *bookRig) {
	calendar := rule(r, core.PerMonth(10, time.UTC).Named("plan"))
	plan := plan(r, 10)
	r.wantTake(calendar, "k", 6, true, 4)
	r.wantUnknown("after the calendar", plan, r.take(plan, "k", 1))
	r.wantAccount("restored with less", r.restore(plan, "k", counting.Restoration{Used: 5, Generation: 1}), 6, position(1, 1))
	r.wantTake(calendar, "l", 6, true, 4)
	r.wantAccount("restored with more", r.restore(plan, "l", counting.Restoration{Used: 8, Generation: 1}), 8, position(1, 1))
	r.wantAccount("take", r.wantTake(plan, "l", 2, true, 0), 10, position(1, 2))

	for name, limit := range Algorithms(100, time.Hour) {
		r.wantTake(rule(r, limit.Named("plan")), name, 7, true, 93)
		r.wantAccount(name, r.restore(plan, name, counting.Restoration{Generation: 1}), 7, position(1, 1))
	}
}

func ledgerConverted(r *bookRig) {
	calendar := rule(r, core.PerMonth(10, time.UTC).Named("plan"))
	plan := plan(r, 10)
	r.restore(plan, "k", counting.Restoration{Used: 3, Generation: 1})
	r.wantTake(plan, "k", 1, true, 6)
	if got := r.wantTake(calendar, "k", 2, true, 4); got.Account != untold {
		r.Errorf("a calendar window has a position: %s", got.show())
	}
	r.wantUnknown("after the calendar", plan, r.take(plan, "k", 1))
	r.wantTake(calendar, "k", 1, true, 3)
	r.wantAccount("restored", r.restore(plan, "k", counting.Restoration{Used: 4, Generation: 2}), 7, position(2, 1))

	berlin := ledgerRule(r, core.PerMonth(10, Zone("America/New_York")).Named("plan"))
	r.wantUnknown("other periods", berlin, r.take(berlin, "k", 1))
	r.wantAccount("other periods, restored", r.restore(berlin, "k", counting.Restoration{Used: 1, Generation: 1}), 7, position(1, 1))

	for name, limit := range Algorithms(100, time.Hour) {
		other := rule(r, limit.Named("plan"))
		r.restore(plan, name, counting.Restoration{Used: 9, Generation: 1})
		r.wantTake(other, name, 1, true, 90)
		r.wantUnknown(name, plan, r.peek(plan, name, 1))
	}
}

func ledgerReset(r *bookRig) {
	plan := plan(r, 10)
	r.restore(plan, "k", counting.Restoration{Used: 3, Generation: 1})
	r.reset(plan, "k")
	r.wantUnknown("after a reset", plan, r.take(plan, "k", 1))
	r.wantAccount("restored", r.restore(plan, "k", counting.Restoration{Generation: 2}), 0, position(2, 1))
}

func ledgerQuota(r *bookRig) {
	small, large := plan(r, 10), plan(r, 5_000_000_000)
	r.restore(small, "k", counting.Restoration{Used: 9, Generation: 1})
	r.wantTake(small, "k", 2, false, 1)
	r.wantAccount("more", r.wantTake(large, "k", 4_000_000_000, true, 999_999_991), 4_000_000_009, position(1, 2))
	r.wantAccount("less", r.wantTake(small, "k", 1, false, 0), 4_000_000_009, position(1, 2))
	r.wantAccount("more again", r.wantTake(large, "k", 1, true, 999_999_990), 4_000_000_010, position(1, 3))
	largest := plan(r, 1<<51)
	r.wantAccount("all there is", r.restore(largest, "k", counting.Restoration{Used: 1<<51 - 1, Generation: counting.MaxGeneration, Expect: 1}), 1<<51-1, position(counting.MaxGeneration, 1))
	r.wantAccount("the last unit", r.wantTake(largest, "k", 1, true, 0), 1<<51, position(counting.MaxGeneration, 2))
	r.wantAccount("charged beyond", r.charge(largest, "k", 1<<51), 1<<52, position(counting.MaxGeneration, 3))
}

func ledgerClasses(r *bookRig) {
	limit := core.PerMonth(10, time.UTC).Named("plan")
	lower := must.Get(LowerRule(limit.KeepFree(0.4, keyfuncs.Methods("POST"))))(r)
	few := must.Get(counting.LedgerOf(&lower))(r)
	all := plan(r, 10)
	r.restore(all, "k", counting.Restoration{Generation: 1})
	r.wantAccount("the lower class", r.wantTake(few, "k", 6, true, 0), 6, position(1, 2))
	r.wantAccount("the lower class", r.wantTake(few, "k", 1, false, 0), 6, position(1, 2))
	r.wantAccount("the upper class", r.wantTake(all, "k", 4, true, 0), 10, position(1, 3))
	r.wantAccount("charged in the lower class", r.charge(few, "k", 100), 20, position(1, 4))
}

func ledgerRestoredOnce(r *bookRig) {
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
				from := counting.Restoration{Used: 100 * round, Generation: processes*round + n + 1, Ends: ends}
				checks, results := fresh([]core.Check{{Key: []byte("k"), Rule: plan, Account: new(store.Account)}}), make([]core.Result, 1)
				from.History = HistoryOf(r, r.Store, checks[0])
				if err := r.restorer().Restore(context.Background(), checks, []counting.Restoration{from}, results); err != nil {
					r.Errorf("restore: %v", err)
					return
				}
				switch generation := counting.Generation(checks[0].Account.Position); {
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
		r.wantAccount("after all", got, 100*round+processes, position(counting.Generation(got.Position), 1+processes))
	}
}

func ledgerParallel(r *bookRig) {
	const cost, quota, base = 3, 500, 20
	plan := plan(r, quota)
	r.restore(plan, "k", counting.Restoration{Used: base, Generation: 7})
	var mu sync.Mutex
	var charged []answer
	check := account(plan, "k", cost)
	check.Account = new(store.Account)
	atOnce(r, r.Store, check, 64, 10, func(got answer) {
		mu.Lock()
		defer mu.Unlock()
		if got.Charged {
			charged = append(charged, got)
		} else if got.Allowed || got.Used != base+cost*((quota-base)/cost) {
			r.Errorf("denied: %s", got.show())
		}
	})
	if want := (quota - base) / cost; len(charged) != want {
		r.Errorf("%d requests of cost %d passed, want %d", len(charged), cost, want)
	}
	slices.SortFunc(charged, func(a, b answer) int { return cmp.Compare(a.Position, b.Position) })
	for i, got := range charged {
		r.wantAccount("in order of positions", got, base+cost*int64(i+1), position(7, int64(i)+2))
	}
}

// Callers give up at any moment, and may use the account for something else then.
func ledgerDuringCall(r *bookRig) {
	plan, hourly := plan(r, 1_000_000), rule(r, core.PerHour(1_000_000).Named("hourly"))
	for _, key := range []string{"k", "l"} {
		r.restore(plan, key, counting.Restoration{Generation: 1})
	}
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			k, l := untold, untold
			checks := []core.Check{account(plan, "k", 1), account(hourly, "k", 1), account(plan, "l", 1)}
			checks[0].Account, checks[2].Account = &k, &l
			for n := range 40 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(n*g)*20*time.Microsecond)
				results := make([]core.Result, len(checks))
				err := r.Take(ctx, checks, results)
				cancel()
				if err == nil && (k.Used <= 0 || k.Position < position(1, k.Used) || l.Used <= 0 || l.Position < position(1, l.Used)) {
					r.Errorf("charged: %+v and %+v", k, l)
				}
				for i := range results {
					if results[i].Charged { // maybe of a call that has failed
						k, l = untold, untold
						results[i].At = r.Micros()
						ctx, cancel := context.WithTimeout(context.Background(), time.Duration(n)*20*time.Microsecond)
						_ = r.Refund(ctx, checks[i:i+1], results[i:i+1])
						cancel()
					}
				}
				k, l = untold, untold
				time.Sleep(100 * time.Microsecond) // in which nothing may happen
				if k != untold || l != untold {
					r.Errorf("set after the call: %+v and %+v", k, l)
				}
			}
		})
	}
	all.Wait()
}

func ledgerSeveral(r *bookRig) {
	month, day := plan(r, 10), ledgerRule(r, core.PerCalendarDay(5, Zone("Europe/Berlin")).Named("day"))
	checks := []core.Check{account(month, "k", 1), account(day, "k", 1), account(month, "l", 1)}
	from := []counting.Restoration{
		{Used: 1, Generation: 1, Ends: month.PeriodEnd(r.Micros())},
		{Used: 2, Generation: 9, Expect: 4, Ends: day.PeriodEnd(r.Micros())},
		{Used: 3, Generation: 3, Ends: month.PeriodEnd(r.Micros())},
	}
	restore := func() []answer { return r.restoreAll(checks, from) }
	got := restore()
	r.wantAccount("first", got[0], 1, position(1, 1))
	r.wantUnknown("second", day, got[1])
	r.wantAccount("third", got[2], 3, position(3, 1))
	if got := r.takeAll(checks...); got[0].Charged || got[2].Charged {
		r.Fatalf("one of three is unknown: %s %s %s", got[0].show(), got[1].show(), got[2].show())
	}
	from[1].Expect = 0
	if got = restore(); got[0].Charged || !got[1].Charged || got[2].Charged {
		r.Fatalf("restored the second: %s %s %s", got[0].show(), got[1].show(), got[2].show())
	}
	got = r.takeAll(checks...)
	for i, used := range []int64{2, 3, 4} {
		// Where keys are apart, a denied request may have charged an account and given it back.
		if generation := from[i].Generation; !got[i].Charged || got[i].Used != used || counting.Generation(got[i].Position) != generation {
			r.Errorf("account %d: %s, want used=%d in generation %d", i, got[i].show(), used, generation)
		}
	}
}

func ledgerBad(r *bookRig) {
	plan := plan(r, 10)
	good := counting.Restoration{Generation: 1, Ends: plan.PeriodEnd(r.Micros())}
	bad := good
	bad.Used = -1
	elsewhere := counting.Restoration{Generation: 9, Expect: 2, Position: position(3, 1), Ends: good.Ends}
	for what, call := range map[string]struct {
		checks []core.Check
		from   []counting.Restoration
	}{
		"units below 0":                    {[]core.Check{account(plan, "k", 0), account(plan, "l", 0)}, []counting.Restoration{good, bad}},
		"a position of another generation": {[]core.Check{account(plan, "k", 0)}, []counting.Restoration{elsewhere}},
		"a restoration too few":            {[]core.Check{account(plan, "k", 0), account(plan, "l", 0)}, []counting.Restoration{good}},
		"an account twice":                 {[]core.Check{account(plan, "k", 0), account(plan, "k", 0)}, []counting.Restoration{good, good}},
		"a limit without account":          {[]core.Check{account(plan, "k", 0), account(rule(r, core.PerHour(1)), "k", 0)}, []counting.Restoration{good, good}},
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
	twin, err := counting.LedgerOf(&r)
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
	from := make([]counting.Restoration, len(checks))
	for i := range checks {
		c := &checks[i]
		checks[i].Once = nil
		b, _ := s.model.open(c.Rule, string(c.Key), s.Micros())
		from[i] = counting.Restoration{
			Used:       s.rand.Int64N(c.Rule.Burst + c.Rule.Burst/4 + 1),
			Generation: min(counting.Generation(b.known)+1+s.rand.Int64N(3), counting.MaxGeneration),
			Expect:     counting.Generation(b.known),
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
			if counting.Generation(b.known) > 0 {
				from[i].Position = b.known + 1
			}
		case 2:
			from[i].Used = 1 << 40
		}
		from[i].History = HistoryOf(s, s.Store, *c)
		s.log("restore %s %s (%s) to %+v", c.Key, c.Rule.Name, describe(c.Rule), from[i])
	}
	checks, got := fresh(checks), make([]core.Result, len(checks))
	if err := s.restorer().Restore(context.Background(), checks, from, got); err != nil {
		s.Fatalf("restore: %v\n%s", err, s.trace)
	}
	s.compare("restore", checks, answersOf(checks, got), func(checks []core.Check) []core.Result {
		return s.model.restore(checks, from, s.Micros())
	})
}

// catchUp moves the model's account on to the position of a store in which keys are apart. There
// a request that one key denies may have been charged to another and given back. So the store has
// written the account, which may have begun with that.
func (m *model) catchUp(c *core.Check, now int64, got answer, want *answer) {
	if c.Rule.Algorithm != store.Ledger || want.Position == 0 || got.Position <= want.Position ||
		counting.Generation(got.Position) != counting.Generation(want.Position) {
		return
	}
	b, _ := m.open(c.Rule, string(c.Key), now)
	b.known += got.Position - want.Position
	m.store(c, b)
	want.Position = got.Position
}
