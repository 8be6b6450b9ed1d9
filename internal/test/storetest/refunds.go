package storetest

import (
	"fmt"
	"time"

	"github.com/weblimit/weblimit/core"
)

func resets(r *rig) {
	r.each(5, time.Hour, func(r *rig, rule *core.Rule) {
		r.wantTake(rule, "a", 5, true, 0)
		r.wantTake(rule, "b", 4, true, 1)
		r.reset(rule, "a")
		r.reset(rule, "a")
		r.wantPeek(rule, "a", 5)
		r.wantPeek(rule, "b", 1)
	})
	a, b := rule(r, core.PerHour(5).Named("a")), rule(r, core.PerHour(5).Named("b"))
	r.wantTake(a, "k", 1, true, 4)
	r.wantTake(b, "k", 2, true, 3)
	r.reset(a, "k")
	r.wantPeek(a, "k", 5)
	r.wantPeek(b, "k", 3)
}

func refunds(r *rig) {
	r.each(10, time.Hour, func(r *rig, rule *core.Rule) {
		r.wantTake(rule, "f", 2, true, 8)
		charge := r.wantTake(rule, "f", 5, true, 3)
		back := r.refund(rule, "f", 5, charge)
		if back.Remaining != 8 || back.Charged {
			r.Fatalf("after the refund of 5: %s, want 8 remaining", show(back))
		}
		// Refund updates the result, so refunding it again gives nothing.
		if again := r.refund(rule, "f", 5, back); again.Remaining != 8 {
			r.Fatalf("a settled refund was given again: %s", show(again))
		}
		// Refunding a result twice never fills a bucket above its burst.
		r.refund(rule, "f", 5, charge)
		if got := r.peek(rule, "f", 1); got.Remaining > 10 {
			r.Fatalf("refunds filled the bucket above its burst: %s", show(got))
		}
		r.wantLeft("a refund of a bucket that is gone", r.refund(rule, "unknown", 5, charge), 10)
	})
}

func refundsTooLate(r *rig) {
	for _, limit := range []core.Limit{core.PerMinute(10).FixedWindow(), core.PerMinute(10).SlidingLog(), core.PerMinute(10)} {
		rule, key := rule(r, limit), fmt.Sprint(limit)
		charge := r.wantTake(rule, key, 6, true, 4)
		r.Advance(time.Minute)
		r.wantTake(rule, key, 6, true, 4)
		if got := r.refund(rule, key, 6, charge); got.Remaining != 4 {
			r.Errorf("%s: a charge of the last window was given back in this one: %s", describe(rule), show(got))
		}
	}
	// The previous window of a sliding window still counts by its overlap.
	sliding := rule(r, core.PerMinute(10).SlidingWindow().Named("sliding"))
	r.Set(time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC))
	charge := r.wantTake(sliding, "s", 6, true, 4)
	r.Advance(time.Minute)
	r.wantPeek(sliding, "s", 7)
	r.wantLeft("a refund into the last window", r.refund(sliding, "s", 6, charge), 10)
	late := r.wantTake(sliding, "s", 6, true, 4)
	r.Advance(90 * time.Second)
	r.wantTake(sliding, "s", 1, true, 9)
	r.wantLeft("a refund of two windows ago", r.refund(sliding, "s", 6, late), 9)
}

func refundsRegained(r *rig) {
	bucket := rule(r, core.PerSecond(10))
	charge := r.wantTake(bucket, "b", 10, true, 0)
	r.Advance(900 * time.Millisecond)
	r.wantTake(bucket, "b", 9, true, 0)
	// Nine units have come back by themselves. Giving back ten would let 19
	// through at once.
	r.wantLeft("refund of a charge that nine tenths were regained of", r.refund(bucket, "b", 10, charge), 1)
}

// Ten requests of 10 units each begin under a limit of 1000 a day, which becomes 10 a day. What was used
// beyond 10 is forgotten then. So if each of the requests gave back its units, clients would have 100.
func refundUnderOlderNumbers(r *rig) {
	r.Set(time.Date(2026, 6, 1, 10, 30, 0, 0, time.UTC))
	for from, limit := range Algorithms(1000, 24*time.Hour) {
		for to, changed := range Algorithms(10, 24*time.Hour) {
			before, after := rule(r, limit.Named("lowered")), rule(r, changed.Named("lowered"))
			key := from + " to " + to
			begun := make([]core.Result, 10)
			for i := range begun {
				begun[i] = r.take(before, key, 10)
			}
			r.wantTake(after, key, 1, false, 0)
			for i := range begun[:9] { // 10 units are used for good
				r.refund(before, key, 10, begun[i])
				if r.take(after, key, 1).Allowed {
					r.Errorf("%s: after %d refunds, more than the limit allows", key, i+1)
				}
			}
		}
	}
	// A refund under a lower limit leaves what was used under the higher one since.
	for from, limit := range Algorithms(10, 24*time.Hour) {
		for to, changed := range Algorithms(1000, 24*time.Hour) {
			before, after := rule(r, limit.Named("raised")), rule(r, changed.Named("raised"))
			key := from + " to " + to
			begun := r.take(before, key, 5)
			r.wantTake(after, key, 500, true, 495)
			r.refund(before, key, 5, begun)
			if left := r.peek(after, key, 0).Remaining; left < 495 || left > 500 {
				r.Errorf("%s: %d of 1000 are left after 500 were used", key, left)
			}
		}
	}
}
