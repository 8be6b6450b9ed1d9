package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/must"
)

// The functions of the table about two versions of a limit at once: processes with the old and the new
// numbers in a rolling update, or tiers and scales of one limit.

// eachVersion runs a test for each pair of algorithms, with a higher and a lower version of a limit.
func (r *rig) eachVersion(high, low int64, window time.Duration, run func(r *rig, key string, high, low *core.Rule)) {
	r.Helper()
	for from, higher := range Algorithms(high, 24*time.Hour) {
		for to, lower := range Algorithms(low, window) {
			r.Run(from+" and "+to, func(t *testing.T) {
				same := *r
				same.T = t
				run(&same, from+" and "+to, rule(t, higher.Named("version")), rule(t, lower.Named("version")))
			})
		}
	}
}

// A client alternates between processes with 1000 and with 10 a day. Each of its requests that the lower
// number denies would be its chance to have the higher one forgotten.
func askedUnderOthers(r *rig) {
	r.Set(time.Date(2026, 6, 1, 10, 30, 0, 0, time.UTC))
	r.eachVersion(1000, 10, 24*time.Hour, func(r *rig, key string, high, low *core.Rule) {
		for used := int64(100); used <= 1000; used += 100 {
			r.wantTake(high, key, 100, true, 1000-used)
			for _, cost := range []int64{1, 0, 11} {
				if got := r.take(low, key, cost); got.Allowed != (cost == 0) || got.Remaining != 0 {
					r.Fatalf("cost %d of 10 after %d were used: %s", cost, used, show(got))
				}
				if taken, peeked := r.take(low, key, cost), r.peek(low, key, cost); taken.RetryAfter != peeked.RetryAfter || taken.Window != peeked.Window {
					r.Errorf("cost %d: a take says %s, a peek %s", cost, show(taken), show(peeked))
				}
			}
			shadow := core.Check{Key: []byte(key), Rule: low, Cost: 1, Shadow: true}
			if got := r.takeAll(shadow)[0]; got.Charged {
				r.Fatalf("a shadow: %s", show(got))
			}
			r.wantLeft("the higher version, asked after the lower one", r.peek(high, key, 0), 1000-used)
		}
		for _, cost := range []int64{1, 10} { // the wait is right, and no longer than two windows
			denied := r.take(low, key, cost)
			if denied.RetryAfter <= 0 || denied.RetryAfter > 48*time.Hour {
				r.Fatalf("cost %d: %s", cost, show(denied))
			}
			r.Advance(denied.RetryAfter)
			if got := r.peek(low, key, cost); !got.Allowed {
				r.Errorf("cost %d: denied again after %v: %s", cost, denied.RetryAfter, show(got))
			}
			r.Advance(-denied.RetryAfter)
		}
		// A unit less than holds the client back under the lower numbers is converted as ever.
		r.reset(high, key)
		r.wantTake(high, key, 10, true, 990)
		r.wantTake(low, key, 1, false, 0)
		r.wantPeek(high, key, 990)
	})
}

func chargedUnderOthers(r *rig) {
	r.Set(time.Date(2026, 6, 1, 10, 30, 0, 0, time.UTC))
	r.eachVersion(1000, 200, 24*time.Hour, func(r *rig, key string, high, low *core.Rule) {
		charge := func(cost, left int64) {
			r.Helper()
			must.OK(r, r.Charge(context.Background(), []core.Check{{Key: []byte(key), Rule: low, Cost: cost}}, make([]core.Result, 1)))
			r.wantLeft("after the charge", r.peek(high, key, 0), left)
		}
		r.wantTake(high, key, 300, true, 700)
		charge(0, 700)
		charge(50, 650)
		charge(100, 600) // a client can come to owe two bursts, and no more
		r.wantTake(high, key, 300, true, 300)
		charge(50, 300)
		r.wantTake(low, key, 1, false, 0)
		r.wantLeft("after all", r.peek(high, key, 0), 300)
	})
}

// The limit was a thousand a day, and is ten a second now. A client that had used hundreds of the day's
// units waits for a second.
func shorterWindows(r *rig) {
	r.Set(time.Date(2026, 6, 1, 10, 30, 0, 0, time.UTC))
	r.eachVersion(1000, 10, time.Second, func(r *rig, key string, high, low *core.Rule) {
		r.wantTake(high, key, 700, true, 300)
		denied := r.wantTake(low, key, 1, false, 0)
		if denied.RetryAfter <= 0 || denied.RetryAfter > 2*time.Second {
			r.Fatalf("after 700 of the longer window: %s", show(denied))
		}
		r.Advance(denied.RetryAfter)
		if got := r.take(low, key, 1); !got.Charged {
			r.Errorf("denied again after %v: %s", denied.RetryAfter, show(got))
		}
		r.Advance(-denied.RetryAfter)
	})
}
