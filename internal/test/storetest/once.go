package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// onceTable is the part of the table about OncePer.
var onceTable = []tableTest{
	{"an operation is charged once, and repeats pass when nothing is left", onceCharged},
	{"an operation is another one for another client, limit and operation key", onceApart},
	{"a denied operation leaves no mark, whichever limit denied it", onceDenied},
	{"an operation is charged again when its ttl is over, which repeats do not extend", onceExpires},
	{"a refund takes the mark of its own charge along, and no other", onceRefunded},
	{"a shadow check's operation is marked if it was charged", onceShadow},
	{"a check of an operation that costs nothing leaves no mark", onceFree},
	{"a reset forgets the operation it names", onceReset},
	{"an operation is known when the limit's numbers have changed", onceChanged},
	{"only so many repeats of an operation are free", onceRepeats},
	{"a repeat that is denied, or that costs nothing, is none", onceRepeatsDenied},
	{"so many repeats at once are free, and no more", onceRepeatsParallel},
	{"many repeats at once are charged once, and all pass", onceParallel},
}

const onceTTL = time.Hour

// once adds OncePer to a limit, with more repeats than the tests make.
func once(l core.Limit) core.Limit {
	return l.OncePer(keyfuncs.Header("Idempotency-Key"), onceTTL).Repeats(1000)
}

func operation(rule *core.Rule, key, once string) core.Check {
	return core.Check{Key: []byte(key), Rule: rule, Cost: 1, Once: []byte(once)}
}

// wantOnce takes an operation and checks the whole result.
func (r *rig) wantOnce(c core.Check, allowed, repeated bool, remaining int64) core.Result {
	r.Helper()
	got := r.takeAll(c)[0]
	want := core.Result{
		Allowed: allowed, Charged: allowed && !repeated, Repeated: repeated, Remaining: remaining,
		RetryAfter: got.RetryAfter, Window: got.Window, ResetAfter: got.ResetAfter, At: got.At,
	}
	if got != want || got.Allowed && got.RetryAfter != 0 {
		r.Fatalf("%s: operation %q: got %s, want %s", describe(c.Rule), c.Once, show(got), show(want))
	}
	return got
}

// eachOnce runs a test for each algorithm with n units per day and OncePer.
func (r *rig) eachOnce(n int64, run func(r *rig, rule *core.Rule)) {
	r.Helper()
	r.eachAs(n, 24*time.Hour, once, run)
}

func onceCharged(r *rig) {
	r.eachOnce(2, func(r *rig, rule *core.Rule) {
		first := r.wantOnce(operation(rule, "k", "a"), true, false, 1)
		for range 3 {
			r.wantOnce(operation(rule, "k", "a"), true, true, 1)
		}
		r.wantOnce(operation(rule, "k", "b"), true, false, 0)
		r.wantOnce(operation(rule, "k", "c"), false, false, 0)
		r.wantOnce(operation(rule, "k", "a"), true, true, 0)
		r.wantOnce(operation(rule, "k", "b"), true, true, 0)

		heavy := operation(rule, "k", "a")
		heavy.Cost = 3 // more than the burst
		r.wantOnce(heavy, true, true, 0)

		results := make([]core.Result, 1)
		must.OK(r, r.Peek(context.Background(), []core.Check{operation(rule, "k", "a")}, results))
		if got := results[0]; !got.Allowed || !got.Repeated || got.Charged {
			r.Errorf("peeking at a repeat: %s", show(got))
		}
		must.OK(r, r.Peek(context.Background(), []core.Check{operation(rule, "k", "c")}, results))
		if got := results[0]; got.Allowed || got.Repeated {
			r.Errorf("peeking at a new operation: %s", show(got))
		}
		if !first.Charged || first.Remaining != 1 {
			r.Errorf("the first: %s", show(first))
		}
	})
}

func onceApart(r *rig) {
	a, b := rule(r, once(core.PerHour(9).Named("a"))), rule(r, once(core.PerHour(9).Named("b")))
	r.wantOnce(operation(a, "alice", "op"), true, false, 8)
	r.wantOnce(operation(a, "bob", "op"), true, false, 8)
	r.wantOnce(operation(b, "alice", "op"), true, false, 8)
	r.wantOnce(operation(a, "alice", ""), true, false, 7)
	r.wantOnce(operation(a, "alice", "alice"), true, false, 6)
	r.wantOnce(operation(a, "alice", "op\x00"), true, false, 5)
	r.wantOnce(operation(a, "alice", "}{"), true, false, 4)
	for _, again := range []string{"op", "", "alice", "op\x00", "}{"} {
		r.wantOnce(operation(a, "alice", again), true, true, 4)
	}
	r.wantTake(a, "alice", 1, true, 3) // without an operation
	r.wantTake(a, "alice", 1, true, 2)
	results := r.takeAll(operation(a, "alice", "op"), operation(b, "alice", "new"), operation(a, "bob", "new"))
	if !results[0].Repeated || results[0].Remaining != 2 || !results[1].Charged || !results[2].Charged {
		r.Errorf("a repeat beside new operations: %s %s %s", show(results[0]), show(results[1]), show(results[2]))
	}
}

func onceDenied(r *rig) {
	wide, tight := rule(r, once(core.PerHour(9).Named("wide"))), rule(r, core.PerHour(1).Named("tight"))
	both := func() []core.Result {
		return r.takeAll(operation(wide, "k", "op"), core.Check{Key: []byte("all"), Rule: tight, Cost: 1})
	}
	r.wantTake(tight, "all", 1, true, 0)
	for range 2 {
		if got := both(); !got[0].Allowed || got[0].Charged || got[0].Repeated || got[0].Remaining != 9 || got[1].Allowed {
			r.Fatalf("denied by the other limit: %s %s", show(got[0]), show(got[1]))
		}
	}
	r.reset(tight, "all")
	if got := both(); !got[0].Charged || got[0].Remaining != 8 || !got[1].Charged {
		r.Fatalf("the first that is granted: %s %s", show(got[0]), show(got[1]))
	}
	if got := both(); got[0].Charged || !got[0].Repeated || got[1].Allowed {
		r.Fatalf("a repeat that the other limit denies: %s %s", show(got[0]), show(got[1]))
	}
}

func onceExpires(r *rig) {
	limit := rule(r, once(core.PerDay(5).FixedWindow()))
	r.Set(time.Date(2026, 5, 1, 1, 0, 0, 0, time.UTC))
	r.wantOnce(operation(limit, "k", "op"), true, false, 4)
	r.Advance(onceTTL / 2)
	r.wantOnce(operation(limit, "k", "op"), true, true, 4)
	r.Advance(onceTTL/2 - time.Microsecond)
	r.wantOnce(operation(limit, "k", "op"), true, true, 4)
	r.Advance(time.Microsecond)
	r.wantOnce(operation(limit, "k", "op"), true, false, 3)
}

func onceRefunded(r *rig) {
	r.eachOnce(9, func(r *rig, rule *core.Rule) {
		refund := func(result core.Result) core.Result {
			r.Helper()
			results := []core.Result{result}
			must.OK(r, r.Refund(context.Background(), []core.Check{operation(rule, "k", "op")}, results))
			return results[0]
		}
		first := r.wantOnce(operation(rule, "k", "op"), true, false, 8)
		r.Advance(time.Second)
		repeat := r.wantOnce(operation(rule, "k", "op"), true, true, 8)
		if got := refund(repeat); got.Remaining != 8 {
			r.Fatalf("a repeat was given back: %s", show(got))
		}
		r.wantOnce(operation(rule, "k", "op"), true, true, 8)
		if got := refund(first); got.Remaining != 9 {
			r.Fatalf("the first was not given back: %s", show(got))
		}
		r.Advance(time.Second)
		r.wantOnce(operation(rule, "k", "op"), true, false, 8)
		refund(first) // its charge was given back already; the mark belongs to a later one
		if got := r.takeAll(operation(rule, "k", "op"))[0]; !got.Repeated {
			r.Fatalf("a refund took another's mark: %s", show(got))
		}
	})
}

func onceShadow(r *rig) {
	tight := rule(r, once(core.PerHour(1).Named("tight")))
	check := func(op string) core.Result {
		c := operation(tight, "k", op)
		c.Shadow = true
		return r.takeAll(c)[0]
	}
	if got := check("a"); !got.Charged {
		r.Errorf("the first: %s", show(got))
	}
	if got := check("a"); !got.Allowed || !got.Repeated {
		r.Errorf("the first again: %s", show(got))
	}
	for range 2 {
		if got := check("b"); got.Allowed || got.Repeated {
			r.Errorf("one that does not fit: %s", show(got))
		}
	}
}

func onceFree(r *rig) {
	limit := rule(r, once(core.PerHour(5)))
	free := operation(limit, "k", "op")
	free.Cost = 0
	r.wantOnce(free, true, false, 5)
	r.wantOnce(operation(limit, "k", "op"), true, false, 4)
	r.wantOnce(free, true, true, 4)

	plain := rule(r, core.PerHour(5).Named("plain"))
	if err := r.Take(context.Background(), []core.Check{operation(plain, "k", "op")}, make([]core.Result, 1)); err == nil {
		r.Error("an operation under a limit without OncePer was taken")
	}
	many := make([]core.Check, store.MaxChecks/2+1)
	for i := range many {
		many[i] = operation(limit, fmt.Sprint("many", i), "op")
	}
	if err := r.Take(context.Background(), many, make([]core.Result, len(many))); err == nil {
		r.Error("more operations than a call can have were taken")
	}
	if err := r.Take(context.Background(), many[1:], make([]core.Result, len(many)-1)); err != nil {
		r.Errorf("%d operations: %v", len(many)-1, err)
	}
	r.wantOnce(operation(limit, "many7", "op"), true, true, 4)
}

func onceReset(r *rig) {
	limit := rule(r, once(core.PerHour(5)))
	r.wantOnce(operation(limit, "k", "a"), true, false, 4)
	r.wantOnce(operation(limit, "k", "b"), true, false, 3)
	must.OK(r, r.Reset(context.Background(), []core.Check{operation(limit, "k", "a")}))
	r.wantOnce(operation(limit, "k", "b"), true, true, 5)
	r.wantOnce(operation(limit, "k", "a"), true, false, 4)
}

func onceChanged(r *rig) {
	before := rule(r, once(core.PerHour(5).Named("changing")))
	r.wantOnce(operation(before, "k", "op"), true, false, 4)
	for name, limit := range Algorithms(3, time.Minute) {
		after := rule(r, once(limit.Named("changing")))
		if got := r.takeAll(operation(after, "k", "op"))[0]; !got.Repeated || got.Charged {
			r.Errorf("under a %s: %s", name, show(got))
		}
	}
}

func onceParallel(r *rig) {
	r.eachOnce(1, func(r *rig, rule *core.Rule) {
		const callers = 50
		rounds := long.Rounds[int64](4, 20)
		var charged, repeated atomic.Int64
		atOnce(r, r.Store, operation(rule, "parallel", "op"), callers, int(rounds), func(got answer) {
			switch {
			case got.Charged && !got.Repeated:
				charged.Add(1)
			case got.Allowed && got.Repeated && !got.Charged:
				repeated.Add(1)
			}
		})
		if charged.Load() != 1 || repeated.Load() != callers*rounds-1 {
			r.Errorf("of %d at once, %d were charged and %d passed as repeats", callers*rounds, charged.Load(), repeated.Load())
		}
	})
}

// Trap 55: ten thousand different requests with one operation key. The mark of an
// operation lets a bounded number of repeats pass. The next request is charged as a new
// operation, whose mark lets as many pass again.
func onceRepeats(r *rig) {
	for name, limit := range Algorithms(9, 24*time.Hour) {
		limit = limit.OncePer(keyfuncs.Header("Idempotency-Key"), onceTTL).Named("bounded")
		for repeats, limit := range map[int64]core.Limit{3: limit, 1: limit.Repeats(1), 20: limit.Repeats(20)} {
			rule, key := rule(r, limit), fmt.Sprint(name, repeats)
			for charges := int64(1); charges <= 3; charges++ {
				r.wantOnce(operation(rule, key, "op"), true, false, 9-charges)
				for range repeats {
					r.wantOnce(operation(rule, key, "op"), true, true, 9-charges)
				}
			}
			results := make([]core.Result, 1)
			must.OK(r, r.Peek(context.Background(), []core.Check{operation(rule, key, "op")}, results))
			if got := results[0]; got.Repeated || !got.Allowed {
				r.Errorf("peeking at one repeat too many: %s", show(got))
			}
		}
	}
}

func onceRepeatsDenied(r *rig) {
	limit := core.PerHour(5).OncePer(keyfuncs.Header("Idempotency-Key"), onceTTL).Repeats(2)
	counted, tight := rule(r, limit.Named("counted")), rule(r, core.PerHour(1).Named("tight"))
	op := operation(counted, "k", "op")
	r.wantOnce(op, true, false, 4)
	r.wantTake(tight, "k", 1, true, 0)
	for range 3 {
		if got := r.takeAll(op, core.Check{Key: []byte("k"), Rule: tight, Cost: 1}); !got[0].Repeated || got[0].Charged || got[1].Allowed {
			r.Fatalf("a repeat that another limit denies: %s %s", show(got[0]), show(got[1]))
		}
	}
	for range 3 {
		free := op
		free.Cost = 0
		r.wantOnce(free, true, true, 4)
		must.OK(r, r.Peek(context.Background(), []core.Check{op}, make([]core.Result, 1)))
	}
	r.wantOnce(op, true, true, 4)
	r.wantOnce(op, true, true, 4)
	r.wantOnce(op, true, false, 3)
}

func onceRepeatsParallel(r *rig) {
	const callers, rounds, repeats = 50, 20, 9 // a thousand requests, every tenth of which is charged
	rule := rule(r, core.PerHour(100).OncePer(keyfuncs.Header("Idempotency-Key"), onceTTL).Repeats(repeats).Named("bounded"))
	var charged, repeated atomic.Int64
	atOnce(r, r.Store, operation(rule, "parallel", "op"), callers, int(rounds), func(got answer) {
		if got.Charged {
			charged.Add(1)
		}
		if got.Repeated {
			repeated.Add(1)
		}
	})
	if charged.Load() != callers*rounds/(repeats+1) || repeated.Load() != callers*rounds-charged.Load() {
		r.Errorf("of %d at once, %d were charged and %d passed as repeats", callers*rounds, charged.Load(), repeated.Load())
	}
}
