package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/must"
)

// concurrencyTable is the part of the table about concurrency limits.
var concurrencyTable = []tableTest{
	{"a slot is taken until it is given back", slotsTaken},
	{"a denial for want of a slot hints at a second and promises nothing", slotsDenied},
	{"a slot that nobody gives back is free when its lease ends", slotsExpire},
	{"a slot that is renewed is held for as long as that goes on", slotsRenewed},
	{"giving back twice, or after the lease, frees no slot of another", slotsOfOthers},
	{"a renewal after the lease takes the slot again, beyond the limit if need be", slotsAgain},
	{"slots go by the time they were taken, however the clock was set", slotsClockBack},
	{"slots taken at one time are given back one by one", slotsOfOneTime},
	{"a request that a rate denies takes no slot", slotsAllOrNothing},
	{"a charge of slots is bounded by two limits", slotsCharged},
	{"a change of the lease applies to the slots that are held", slotsLeaseChanged},
	{"a reset frees all slots", slotsReset},
	{"a renewal passes over what was not charged, and over rates", slotsNotRenewed},
	{"parallel callers never hold more slots than there are", slotsParallel},
}

const lease = 10 * time.Second

func slots(r *rig, n int64) *core.Rule {
	r.Helper()
	return rule(r, core.Concurrent(n).Lease(lease).Named("running"))
}

// renew renews the slots that one charge to key k holds.
func (r *rig) renew(rule *core.Rule, cost int64, result core.Result) core.Result {
	r.Helper()
	results := []core.Result{result}
	if err := r.Renew(context.Background(), []core.Check{{Key: []byte("k"), Rule: rule, Cost: cost}}, results); err != nil {
		r.Fatalf("renew: %v", err)
	}
	return results[0]
}

func slotsTaken(r *rig) {
	three := slots(r, 3)
	a := r.wantTake(three, "k", 1, true, 2)
	if a.ResetAfter != lease || a.Window != time.Second || a.At != r.Micros() {
		r.Errorf("the first: %s at %d", show(a), a.At)
	}
	r.Advance(time.Second)
	b := r.wantTake(three, "k", 2, true, 0)
	r.wantTake(three, "k", 1, false, 0)
	r.wantTake(three, "other", 1, true, 2)
	r.Advance(time.Second)
	if got := r.refund(three, "k", 1, a); got.Remaining != 1 || got.Charged || got.ResetAfter != lease-time.Second {
		r.Errorf("after one was given back: %s", show(got))
	}
	r.wantTake(three, "k", 2, false, 1)
	c := r.wantTake(three, "k", 1, true, 0)
	r.refund(three, "k", 2, b)
	if got := r.refund(three, "k", 1, c); got.Remaining != 3 || got.ResetAfter != 0 {
		r.Errorf("after all were given back: %s", show(got))
	}
	r.wantTake(three, "k", 3, true, 0)
}

func slotsDenied(r *rig) {
	two := slots(r, 2)
	r.wantTake(two, "k", 1, true, 1)
	got := r.wantTake(two, "k", 2, false, 1)
	if got.RetryAfter != time.Second || got.Window != time.Second || got.ResetAfter != lease {
		r.Errorf("denied: %s", show(got))
	}
	if got = r.wantTake(two, "k", 3, false, 1); got.RetryAfter != 0 {
		r.Errorf("what can never fit was told to come back: %s", show(got))
	}
	r.wantTake(two, "k", 0, true, 1)
	r.wantPeek(two, "k", 1)
}

func slotsExpire(r *rig) {
	two := slots(r, 2)
	r.wantTake(two, "k", 1, true, 1)
	r.Advance(lease / 2)
	r.wantTake(two, "k", 1, true, 0)
	r.Advance(lease/2 - time.Microsecond)
	r.wantTake(two, "k", 1, false, 0)
	r.Advance(time.Microsecond)
	r.wantTake(two, "k", 1, true, 0)
	r.wantTake(two, "k", 1, false, 0)
	r.Advance(lease)
	r.wantPeek(two, "k", 2)
}

func slotsRenewed(r *rig) {
	two := slots(r, 2)
	held := r.wantTake(two, "k", 2, true, 0)
	for range 20 {
		r.Advance(lease / 3)
		if held = r.renew(two, 2, held); !held.Charged || !held.Allowed || held.Remaining != 0 || held.At != r.Micros() || held.ResetAfter != lease {
			r.Fatalf("renewed: %s at %d", show(held), held.At)
		}
		r.wantTake(two, "k", 1, false, 0)
	}
	r.wantLeft("given back after many renewals", r.refund(two, "k", 2, held), 2)
}

func slotsOfOthers(r *rig) {
	three := slots(r, 3)
	a := r.wantTake(three, "k", 1, true, 2)
	r.Advance(time.Second)
	r.wantTake(three, "k", 1, true, 1)
	for range 3 {
		r.wantLeft("one of two given back, maybe again", r.refund(three, "k", 1, a), 2)
	}
	r.Advance(lease - time.Second)
	r.wantTake(three, "k", 1, true, 1)
	r.wantLeft("given back when the lease was over", r.refund(three, "k", 1, a), 1)
	r.wantLeft("given back where nothing is held", r.refund(three, "nobody", 1, a), 3)
}

func slotsAgain(r *rig) {
	one := slots(r, 1)
	late := r.wantTake(one, "k", 1, true, 0)
	r.Advance(lease)
	other := r.wantTake(one, "k", 1, true, 0)
	r.Advance(time.Second)
	if late = r.renew(one, 1, late); !late.Charged || late.Remaining != 0 {
		r.Errorf("renewed beyond the limit: %s", show(late))
	}
	r.wantLeft("one of two slots of one given back", r.refund(one, "k", 1, other), 0)
	r.wantTake(one, "k", 1, false, 0)
	r.wantLeft("both given back", r.refund(one, "k", 1, late), 1)
}

func slotsClockBack(r *rig) {
	four := slots(r, 4)
	a := r.wantTake(four, "k", 1, true, 3)
	r.Advance(-5 * time.Second)
	b := r.wantTake(four, "k", 2, true, 1)
	c := r.wantTake(four, "k", 1, true, 0)
	r.wantLeft("taken behind the clock, and given back", r.refund(four, "k", 2, b), 2)
	r.Advance(6 * time.Second)
	d := r.wantTake(four, "k", 1, true, 1)
	c = r.renew(four, 1, c)
	if c.Remaining != 1 {
		r.Fatalf("taken behind the clock, and renewed: %s", show(c))
	}
	for i, held := range []core.Result{a, c, d} {
		if got := r.refund(four, "k", 1, held); got.Remaining != int64(i)+2 {
			r.Fatalf("slot %d of 3 given back: %s", i+1, show(got))
		}
	}
	// What is held behind the clock ends no later than by what the clock was.
	r.wantTake(four, "k", 1, true, 3)
	r.Advance(-time.Hour)
	r.wantTake(four, "k", 3, true, 0)
	r.Advance(time.Hour + lease)
	r.wantPeek(four, "k", 4)
}

func slotsOfOneTime(r *rig) {
	five := slots(r, 5)
	a := r.wantTake(five, "k", 1, true, 4)
	b := r.wantTake(five, "k", 2, true, 2)
	c := r.wantTake(five, "k", 2, true, 0)
	r.refund(five, "k", 1, a)
	r.wantPeek(five, "k", 1)
	r.Advance(time.Second)
	b = r.renew(five, 2, b)
	r.Advance(lease - time.Second)
	r.wantPeek(five, "k", 3) // c's lease has ended
	r.wantLeft("given back when the lease was over", r.refund(five, "k", 2, c), 3)
	r.wantLeft("the one that was renewed, given back", r.refund(five, "k", 2, b), 5)
}

func slotsAllOrNothing(r *rig) {
	two, rate := slots(r, 2), rule(r, core.PerHour(1).Named("rate"))
	both := func(key string) []core.Result {
		return r.takeAll(core.Check{Key: []byte(key), Rule: two, Cost: 1}, core.Check{Key: []byte(key), Rule: rate, Cost: 1})
	}
	if got := both("k"); !got[0].Charged || !got[1].Charged {
		r.Errorf("both fit: %s %s", show(got[0]), show(got[1]))
	}
	if got := both("k"); !got[0].Allowed || got[0].Charged || got[0].Remaining != 1 || got[1].Allowed {
		r.Errorf("the rate denies: %s %s", show(got[0]), show(got[1]))
	}
	r.wantTake(two, "full", 2, true, 0)
	if got := both("full"); got[0].Allowed || got[1].Charged || got[1].Remaining != 1 {
		r.Errorf("no slot is free: %s %s", show(got[0]), show(got[1]))
	}
	shadow := []core.Check{{Key: []byte("full"), Rule: two, Cost: 1, Shadow: true}, {Key: []byte("full"), Rule: rate, Cost: 1}}
	if got := r.takeAll(shadow...); got[0].Charged || !got[1].Charged {
		r.Errorf("no slot is free in shadow: %s %s", show(got[0]), show(got[1]))
	}
}

func slotsCharged(r *rig) {
	three := slots(r, 3)
	charge := func(cost int64) core.Result {
		results := make([]core.Result, 1)
		must.OK(r, r.Charge(context.Background(), []core.Check{{Key: []byte("k"), Rule: three, Cost: cost}}, results))
		return results[0]
	}
	a := charge(4)
	r.Advance(time.Second)
	b := charge(9)
	if !a.Charged || !b.Charged || b.Remaining != 0 {
		r.Errorf("charged: %s %s", show(a), show(b))
	}
	r.refund(three, "k", 4, a)
	r.wantPeek(three, "k", 1) // two of b's nine were counted
	r.refund(three, "k", 9, b)
	r.wantPeek(three, "k", 3)
}

func slotsLeaseChanged(r *rig) {
	long, short := rule(r, core.Concurrent(3).Lease(time.Minute).Named("running")), slots(r, 3)
	held := r.wantTake(long, "k", 2, true, 1)
	r.Advance(lease / 2)
	r.wantTake(short, "k", 1, true, 0)
	held = r.renew(short, 2, held)
	r.Advance(lease - time.Microsecond)
	r.wantPeek(long, "k", 0)
	r.wantLeft("given back under another lease", r.refund(long, "k", 2, held), 2)
}

func slotsReset(r *rig) {
	two := slots(r, 2)
	before := r.wantTake(two, "k", 2, true, 0)
	r.reset(two, "k")
	r.Advance(time.Second)
	r.wantTake(two, "k", 1, true, 1)
	r.wantLeft("what a reset had freed was given back", r.refund(two, "k", 2, before), 1)
}

func slotsNotRenewed(r *rig) {
	two, rate := slots(r, 2), rule(r, core.PerHour(9).Named("rate"))
	checks := []core.Check{{Key: []byte("k"), Rule: two, Cost: 1}, {Key: []byte("k"), Rule: rate, Cost: 1}, {Key: []byte("other"), Rule: two, Cost: 3, Shadow: true}}
	results := r.takeAll(checks...)
	before := append([]core.Result(nil), results...)
	r.Advance(time.Second)
	must.OK(r, r.Renew(context.Background(), checks, results))
	if results[0].At != r.Micros() || results[1] != before[1] || results[2] != before[2] {
		r.Errorf("renewed %v, from %v", results, before)
	}
	if err := r.Renew(context.Background(), checks[1:], results[1:]); err != nil {
		r.Errorf("nothing to renew: %v", err)
	}
	r.wantPeek(rate, "k", 8)
	r.wantPeek(two, "other", 2)
}

func slotsParallel(r *rig) {
	for _, cost := range []int64{1, 2} {
		seven := slots(r, 7)
		var held, excess, granted atomic.Int64
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				checks, results := []core.Check{{Key: fmt.Append(nil, "parallel", cost), Rule: seven, Cost: cost}}, make([]core.Result, 1)
				for range 30 {
					if err := r.Take(context.Background(), checks, results); err != nil {
						r.Errorf("take: %v", err)
						return
					}
					if !results[0].Charged {
						continue
					}
					granted.Add(1)
					if held.Add(cost) > seven.Quota {
						excess.Add(1)
					}
					held.Add(-cost)
					if err := r.Refund(context.Background(), checks, results); err != nil {
						r.Errorf("refund: %v", err)
						return
					}
				}
			})
		}
		all.Wait()
		if excess.Load() > 0 || granted.Load() == 0 {
			r.Errorf("%d of %d grants were beyond the slots there are", excess.Load(), granted.Load())
		}
		r.wantPeek(seven, fmt.Sprint("parallel", cost), 7)
	}
}
