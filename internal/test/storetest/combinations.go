package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// combinationTable is the part of the table about penalties of limits with OncePer and of
// concurrency limits.
var combinationTable = []tableTest{
	{"a repeated operation counts towards no block, and a block denies it", onceBlocked},
	{"a repeat that is forgotten during a block waits as a new request", onceForgottenInBlock},
	{"no wait helps a cost that never fits, blocked or not", neverFitsBlocked},
	{"an operation that is denied as a strike or by a block leaves no mark", strikesUnmarked},
	{"a shadow's block leaves no mark and keeps the one there is", shadowBlockMarks},
	{"a penalty finds its limit among keys with marks and without", penaltiesAmongMarks},
	{"a request that finds no slot is a strike, and a block outlasts free slots", slotsBlocked},
	{"slots are renewed and given back during a block", slotsDuringBlock},
	{"refunds and charges leave strikes as they are", refundsKeepStrikes},
}

// eachPenalized runs a test for each algorithm with n units per day, a penalty and OncePer.
func (r *rig) eachPenalized(n int64, run func(r *rig, rule *core.Rule)) {
	r.Helper()
	r.eachAs(n, 24*time.Hour, func(l core.Limit) core.Limit { return once(penalized(l)) }, run)
}

// wantOperationBlocked takes an operation, which must be blocked for the time left.
func (r *rig) wantOperationBlocked(c core.Check, left time.Duration) {
	r.Helper()
	got := r.takeAll(c)[0]
	if got.Allowed || got.Charged || got.Repeated || !got.Blocked || got.Remaining != 0 || got.RetryAfter != left || got.Window != left {
		r.Fatalf("%s: operation %q: got %s, want it blocked for %v", describe(c.Rule), c.Once, show(got), left)
	}
}

func onceBlocked(r *rig) {
	r.eachPenalized(2, func(r *rig, rule *core.Rule) {
		key := rule.Name
		done := operation(rule, key, "a")
		r.wantOnce(done, true, false, 1)
		r.wantOnce(operation(rule, key, "b"), true, false, 0)
		for range 5 { // the limit is exhausted
			r.wantOnce(done, true, true, 0)
		}
		r.wantDenied(rule, key, 2)
		r.wantOnce(done, true, true, 0)
		r.wantBlocked(rule, key, time.Minute)
		for range 5 {
			r.wantOperationBlocked(done, time.Minute)
		}
		free := done
		free.Cost = 0
		if got := r.takeAll(free)[0]; !got.Allowed || !got.Repeated || got.Blocked {
			r.Errorf("a repeat of cost 0 of a blocked key: %s", show(got))
		}
		results := make([]core.Result, 1)
		if err := r.Peek(context.Background(), []core.Check{done}, results); err != nil || !results[0].Blocked || results[0].Allowed || results[0].Repeated {
			r.Errorf("a peek of a repeat of a blocked key: %s, %v", show(results[0]), err)
		}
		r.Advance(time.Minute - time.Microsecond)
		r.wantOperationBlocked(done, time.Microsecond)
		r.Advance(time.Microsecond)
		r.wantOnce(done, true, true, 0) // the block is over
	})
}

// A blocked repeat whose mark ends during the block is a new operation when the block ends: it waits
// until the limit has room for it.
func onceForgottenInBlock(r *rig) {
	long := func(l core.Limit) core.Limit {
		return l.OncePer(keyfuncs.Header("Idempotency-Key"), 2*time.Minute).
			Penalty(core.Block{After: 1, Within: time.Hour, For: 10 * time.Minute})
	}
	r.eachAs(2, 24*time.Hour, long, func(r *rig, rule *core.Rule) {
		key := rule.Name
		done, again := operation(rule, key, "a"), operation(rule, key, "b")
		r.wantOnce(done, true, false, 1)
		r.wantOnce(again, true, false, 0)
		if got := r.take(rule, key, 1); !got.Blocked {
			r.Fatalf("%s, want a block", show(got))
		}
		for _, c := range []core.Check{done, again} {
			peeked := make([]core.Result, 1)
			must.OK(r, r.Peek(context.Background(), []core.Check{c}, peeked))
			got := r.takeAll(c)[0]
			if peeked[0] != got {
				r.Errorf("a peek says %s, a take %s", show(peeked[0]), show(got))
			}
			if full := r.take(rule, key, 1); !got.Blocked || got.RetryAfter != full.RetryAfter || got.RetryAfter <= 10*time.Minute {
				r.Fatalf("a repeat that is forgotten within the block: %s, want it to wait as a new request: %s", show(got), show(full))
			}
		}
		r.Advance(r.takeAll(done)[0].RetryAfter)
		if got := r.takeAll(done)[0]; !got.Charged {
			r.Errorf("denied after Retry-After: %s", show(got))
		}
	})
}

// No wait helps a request that costs more than the burst, blocked or not.
func neverFitsBlocked(r *rig) {
	r.eachPenalized(2, func(r *rig, rule *core.Rule) {
		if got := r.take(rule, rule.Name, 3); got.Allowed || got.Blocked || got.RetryAfter != 0 {
			r.Fatalf("cost 3 of 2: %s, want no Retry-After", show(got))
		}
		r.take(rule, rule.Name, 3)
		for range 2 {
			got := r.take(rule, rule.Name, 3)
			if !got.Blocked || got.RetryAfter != 0 || got.Window != time.Minute || got.ResetAfter < time.Minute {
				r.Fatalf("cost 3 of 2, blocked: %s, want no Retry-After and a window of 1m", show(got))
			}
		}
		if got := r.take(rule, rule.Name, 1); !got.Blocked || got.RetryAfter != time.Minute {
			r.Fatalf("cost 1 of 2, blocked: %s, want a Retry-After of 1m", show(got))
		}
	})
}

func strikesUnmarked(r *rig) {
	r.eachPenalized(2, func(r *rig, rule *core.Rule) {
		key := rule.Name
		charge := r.wantTake(rule, key, 2, true, 0)
		for range 2 {
			r.wantOnce(operation(rule, key, "a"), false, false, 0)
		}
		if got := r.takeAll(operation(rule, key, "a"))[0]; !got.Blocked {
			r.Fatalf("the third strike: %s", show(got))
		}
		r.refund(rule, key, 2, charge)
		r.wantOperationBlocked(operation(rule, key, "a"), time.Minute) // although a unit is left
		r.Advance(time.Minute)
		r.wantOnce(operation(rule, key, "a"), true, false, 1)
		r.wantOnce(operation(rule, key, "a"), true, true, 1)
	})
}

func shadowBlockMarks(r *rig) {
	rule := rule(r, once(penalized(core.PerDay(5))))
	of := func(operation string) core.Check {
		return core.Check{Key: []byte("k"), Rule: rule, Cost: 1, Shadow: true, Once: []byte(operation)}
	}
	r.wantOnce(of("a"), true, false, 4)
	must.OK(r, r.Block(context.Background(), []core.Check{of("a")}, time.Minute))
	r.wantOperationBlocked(of("a"), time.Minute)
	r.wantOperationBlocked(of("b"), time.Minute)
	r.Advance(time.Minute)
	r.wantOnce(of("a"), true, true, 4)
	r.wantOnce(of("b"), true, false, 3)
}

func penaltiesAmongMarks(r *rig) {
	// Marks come first in a group and shift the positions of its keys.
	tight := rule(r, once(penalized(core.PerDay(1))).Named("tight"))
	wide := rule(r, once(penalized(core.PerDay(50))).Named("wide"))
	plain := rule(r, core.PerDay(50).Named("plain"))
	n := int64(0)
	all := func() []core.Result {
		n++
		return r.takeAll(
			core.Check{Key: []byte("a"), Rule: plain, Cost: 1},
			operation(tight, "b", string(rune('0'+n))),
			operation(wide, "a", string(rune('0'+n))),
			operation(wide, "b", "same"),
			core.Check{Key: []byte("a"), Rule: tight, Cost: 1, Shadow: true},
		)
	}
	if got := all(); !got[0].Charged || !got[1].Charged || !got[2].Charged || !got[3].Charged || !got[4].Charged {
		r.Fatalf("the first request: %v", got)
	}
	for i := range 3 {
		got := all()
		if !got[0].Allowed || got[0].Charged || got[1].Allowed || !got[2].Allowed || got[2].Charged || !got[3].Repeated || got[4].Allowed {
			r.Fatalf("denied by one: %v", got)
		}
		if last := i == 2; got[1].Blocked != last || got[4].Blocked != last || got[2].Blocked || got[3].Blocked {
			r.Fatalf("strike %d: %v", i+1, got)
		}
	}
	if blocks := r.blocks(tight, wide); len(blocks) != 2 || blocks[0].Key != "a" || blocks[1].Key != "b" || blocks[0].Limit != "tight" || blocks[1].Limit != "tight" {
		r.Errorf("listed: %+v, want the two of the tight limit", blocks)
	}
	r.wantPeek(plain, "a", 49)
	r.wantPeek(wide, "a", 49)
	r.wantOnce(operation(wide, "a", "2"), true, false, 48) // it left no mark
}

func slotsBlocked(r *rig) {
	two := rule(r, penalized(core.Concurrent(2).Lease(lease)).Named("running"))
	held := r.wantTake(two, "k", 2, true, 0)
	r.wantDenied(two, "k", 2)
	r.wantBlocked(two, "k", time.Minute)
	if got := r.take(two, "k", 1); got.RetryAfter != time.Minute {
		r.Errorf("blocked: %s, want the block's end and no hint", show(got))
	}
	r.refund(two, "k", 2, held)
	r.wantBlocked(two, "k", time.Minute)
	r.wantTake(two, "other", 2, true, 0)
	r.Advance(time.Minute)
	r.wantTake(two, "k", 1, true, 1)

	// Slots and a rate of one key: a request that the rate denies holds no slot and is no strike.
	rate := rule(r, core.PerDay(1).Named("rate"))
	both := func() []core.Result {
		return r.takeAll(core.Check{Key: []byte("both"), Rule: rate, Cost: 1}, core.Check{Key: []byte("both"), Rule: two, Cost: 1})
	}
	both()
	for range 4 {
		if got := both(); got[0].Allowed || !got[1].Allowed || got[1].Charged || got[1].Blocked || got[1].Remaining != 1 {
			r.Fatalf("denied by the rate: %s %s", show(got[0]), show(got[1]))
		}
	}
}

func slotsDuringBlock(r *rig) {
	two := rule(r, penalized(core.Concurrent(2).Lease(lease)).Named("running"))
	held := r.wantTake(two, "k", 2, true, 0)
	r.wantDenied(two, "k", 2)
	r.wantBlocked(two, "k", time.Minute)
	for range 5 {
		r.Advance(lease / 2)
		if held = r.renew(two, 2, held); !held.Charged || held.Blocked || held.ResetAfter != lease {
			r.Fatalf("renewed while blocked: %s", show(held))
		}
	}
	left := time.Minute - 5*lease/2
	r.wantBlocked(two, "k", left)
	if got := r.refund(two, "k", 2, held); got.Remaining != 2 || got.Blocked {
		r.Errorf("given back while blocked: %s", show(got))
	}
	r.wantBlocked(two, "k", left)
	r.Advance(left)
	r.wantTake(two, "k", 2, true, 0)
}

func refundsKeepStrikes(r *rig) {
	for name, limit := range Algorithms(5, 24*time.Hour) {
		r.Run(name, func(t *testing.T) {
			r := &rig{T: t, Store: r.Store, Clock: r.Clock}
			limit := rule(t, once(penalized(limit)))
			charge := r.wantOnce(operation(limit, name, "a"), true, false, 4)
			rest := r.wantTake(limit, name, 4, true, 0)
			r.wantDenied(limit, name, 2)
			results := []core.Result{charge}
			if err := r.Refund(context.Background(), []core.Check{operation(limit, name, "a")}, results); err != nil || results[0].Remaining != 1 {
				r.Fatalf("refund: %s, %v", show(results[0]), err)
			}
			r.refund(limit, name, 4, rest)
			if err := r.Charge(context.Background(), []core.Check{{Key: []byte(name), Rule: limit, Cost: 5}}, results); err != nil || results[0].Blocked {
				r.Fatalf("charge: %s, %v", show(results[0]), err)
			}
			r.wantBlocked(limit, name, time.Minute) // the third denial
		})
	}
}
