package storetest

import (
	"context"
	"time"

	"github.com/weblimit/weblimit/core"
)

// fromUse is a limit whose windows begin with first use: ten in five hours.
func fromUse() core.Limit { return core.Per(10, 5*time.Hour).FromFirstUse().Named("from-use") }

// wantReset fails the test unless a window ends as given.
func (r *rig) wantReset(what string, got core.Result, want time.Duration) {
	r.Helper()
	if got.ResetAfter != want {
		r.Errorf("%s: reset after %v, want %v: %s", what, got.ResetAfter, want, show(got))
	}
}

func fromUseBegins(r *rig) {
	limit := rule(r, fromUse())
	for _, pause := range []time.Duration{0, time.Microsecond, 3*time.Hour + time.Second, 100 * 24 * time.Hour} {
		r.Advance(pause)
		r.wantReset("nothing used, and asked", r.peek(limit, "k", 1), 5*time.Hour)
		r.wantReset("a cost of nothing", r.take(limit, "k", 0), 5*time.Hour)
		r.wantReset("a cost that never fits", r.take(limit, "k", 11), 5*time.Hour)
		r.Advance(time.Hour) // which is none of the window
		r.wantReset("first use", r.wantTake(limit, "k", 4, true, 6), 5*time.Hour)
		r.Advance(4 * time.Hour)
		r.wantReset("more use", r.wantTake(limit, "k", 6, true, 0), time.Hour)
		r.Advance(time.Hour - time.Microsecond)
		if got := r.wantTake(limit, "k", 1, false, 0); got.RetryAfter != time.Microsecond {
			r.Errorf("at the window's end: retry after %v, want 1µs", got.RetryAfter)
		}
		r.Advance(time.Microsecond)
		r.wantReset("over, and asked", r.peek(limit, "k", 1), 5*time.Hour)
		r.wantReset("the next window", r.wantTake(limit, "k", 1, true, 9), 5*time.Hour)
		r.Advance(5 * time.Hour)
	}
}

// A request that another limit denies uses nothing.
func fromUseDenied(r *rig) {
	limit, full := rule(r, fromUse()), rule(r, core.PerDay(1).Named("full"))
	r.wantTake(full, "k", 1, true, 0)
	both := func() []core.Result {
		return r.takeAll(core.Check{Key: []byte("k"), Rule: limit, Cost: 1}, core.Check{Key: []byte("k"), Rule: full, Cost: 1})
	}
	r.wantReset("denied by another", both()[0], 5*time.Hour)
	r.Advance(2 * time.Hour)
	r.wantReset("denied by another again", both()[0], 5*time.Hour)
	r.wantReset("first use", r.wantTake(limit, "k", 1, true, 9), 5*time.Hour)
}

func fromUseRefunds(r *rig) {
	limit := rule(r, fromUse())
	first := r.wantTake(limit, "k", 2, true, 8)
	r.Advance(time.Hour)
	second := r.wantTake(limit, "k", 3, true, 5)
	r.wantLeft("the first given back", r.refund(limit, "k", 2, first), 7)
	r.wantReset("the window of what is left", r.peek(limit, "k", 1), 4*time.Hour)
	r.wantLeft("all given back", r.refund(limit, "k", 3, second), 10)
	r.Advance(time.Hour)
	third := r.wantTake(limit, "k", 1, true, 9)
	r.wantReset("a window that was given back is forgotten", third, 5*time.Hour)
	r.wantLeft("what is given back twice is none of a later window", r.refund(limit, "k", 3, second), 9)

	r.Advance(5 * time.Hour)
	r.wantTake(limit, "k", 4, true, 6)
	r.wantLeft("of the window before nothing is given back", r.refund(limit, "k", 1, third), 6)
}

// What is charged late, when the window of its request is over, begins one.
func fromUseLate(r *rig) {
	limit := rule(r, fromUse())
	r.wantTake(limit, "k", 1, true, 9)
	r.Advance(5*time.Hour + time.Minute)
	results := make([]core.Result, 1)
	if err := r.Charge(context.Background(), []core.Check{{Key: []byte("k"), Rule: limit, Cost: 3}}, results); err != nil {
		r.Fatal(err)
	}
	r.wantReset("a late charge", results[0], 5*time.Hour)
	r.Advance(time.Hour)
	r.wantReset("use after it", r.wantTake(limit, "k", 1, true, 6), 4*time.Hour)
}

// Windows that have begun end when they were to end, whoever asks: two releases at once agree on them.
func fromUseChanged(r *rig) {
	from, aligned := rule(r, fromUse()), rule(r, core.Per(10, 5*time.Hour).FixedWindow().Named("from-use"))
	r.wantTake(from, "k", 4, true, 6)
	r.Advance(2 * time.Hour)
	r.wantReset("of the clock now", r.wantTake(aligned, "k", 4, true, 2), 3*time.Hour)
	r.wantReset("with first use again", r.wantTake(from, "k", 2, true, 0), 3*time.Hour)
	r.Advance(3 * time.Hour)
	begun := r.wantTake(aligned, "k", 10, true, 0)
	if begun.ResetAfter >= 5*time.Hour {
		r.Fatalf("a window of the clock: %s", show(begun))
	}
	r.Advance(begun.ResetAfter - time.Microsecond)
	r.wantReset("a window that the clock has begun", r.wantTake(from, "k", 1, false, 0), time.Microsecond)
	r.Advance(time.Microsecond)
	r.wantReset("the next one", r.wantTake(from, "k", 1, true, 9), 5*time.Hour)

	bucket := rule(r, core.PerDay(10).Named("from-use"))
	r.Advance(time.Hour)
	r.wantTake(bucket, "k", 1, true, 8)
	r.Advance(time.Minute)
	if got := r.take(from, "k", 1); !got.Charged || got.ResetAfter != 5*time.Hour {
		r.Errorf("what other numbers have counted begins a window: %s", show(got))
	}
}

// A clock that is set back moves the end of the window to a window from then on at most, and mints nothing.
func fromUseSetBack(r *rig) {
	limit := rule(r, fromUse())
	r.wantTake(limit, "k", 10, true, 0)
	r.Advance(-time.Hour)
	if got := r.wantTake(limit, "k", 1, false, 0); got.RetryAfter != 5*time.Hour {
		r.Errorf("an hour back: retry after %v, want 5h", got.RetryAfter)
	}
	r.Advance(2 * time.Hour)
	if got := r.wantTake(limit, "k", 1, false, 0); got.RetryAfter != 3*time.Hour {
		r.Errorf("two hours later: retry after %v, want 3h: a denial prolongs nothing", got.RetryAfter)
	}
}
