package storetest

import (
	"context"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/must"
)

// Redis keeps counts in wider fields from a quota of 2^31 on. In both windows that a record
// counts, what was used stays used when that changes, either way.
func widthChanged(r *rig) {
	const few, many = 100, 3_000_000_000
	for name, limit := range map[string]func(n int64) core.Limit{
		"fixed":    func(n int64) core.Limit { return core.Per(n, 500*time.Millisecond).FixedWindow() },
		"sliding":  func(n int64) core.Limit { return core.Per(n, 500*time.Millisecond).SlidingWindow() },
		"calendar": modelCalendars[4],
	} {
		over := name + " over" // charged more than 4 bytes hold
		charge := func(cost int64) {
			checks := []core.Check{{Key: []byte(over), Rule: rule(r, limit(many).Named("wider")), Cost: cost}}
			must.OK(r, r.Charge(context.Background(), checks, make([]core.Result, 1)))
		}
		charge(1<<32 + 10)
		narrow, wide := rule(r, limit(few).Named("wider")), rule(r, limit(many).Named("wider"))
		if narrow.Integers.Tick != wide.Integers.Tick {
			r.Fatalf("%s: not only the width changes", name)
		}
		raised, cut := name+" raised", name+" cut"
		r.wantTake(narrow, raised, 60, true, 40)
		r.wantTake(wide, cut, 2_600_000_000, true, 400_000_000)
		sliding := narrow.Algorithm == store.SlidingWindow
		if sliding { // on to the next window, in which all of the one before counts
			ends := r.peek(narrow, raised, 0).ResetAfter - narrow.Window
			r.Advance(ends)
			r.wantPeek(narrow, raised, 40)
			r.wantPeek(wide, cut, 400_000_000)
			charge(1) // so that the record has both windows
		}
		r.wantTake(narrow, over, 1, false, 0)
		r.wantTake(wide, over, 1, false, 0)
		r.wantTake(wide, raised, 10, true, many-70)
		r.wantTake(narrow, raised, 1, true, 29)
		r.wantTake(narrow, raised, 30, false, 29)
		r.wantTake(narrow, cut, 1, false, 0)
		r.wantTake(wide, cut, 1, true, 399_999_999)
		if sliding { // half of the one before counts, and what both rules took in this one
			r.Advance(narrow.Window / 2)
			r.wantPeek(narrow, raised, few-30-11)
			r.wantPeek(wide, raised, many-30-11)
			r.wantPeek(wide, cut, many-1_300_000_000-1)
		}
	}
}
