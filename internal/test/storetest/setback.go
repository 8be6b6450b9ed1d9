package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// The functions of the table about clocks that are set back by more than a window, as after a failover
// to a host whose clock lags, or when a wrong clock is set right. Nothing that was written by the
// later clock binds for longer than if it was written by the earlier one.

// setBacks are how far: the clock of the host was hours, days or a year ahead.
var setBacks = []time.Duration{90 * time.Minute, 24 * time.Hour, 365 * 24 * time.Hour}

// A client that has used a part, or all, of its quota by the later clock waits for its quota only as
// long as if it had used it now, and each Retry-After that it is given is right.
func setBackFar(r *rig) {
	const n, window = 10, time.Minute
	r.each(n, window, func(r *rig, rule *core.Rule) {
		for _, back := range setBacks {
			for _, used := range []int64{1, 5, 10} {
				key := fmt.Sprint("ahead", back, used)
				r.wantTake(rule, key, used, true, n-used)
				r.Advance(-back)
				start := r.Micros()
				if got := r.take(rule, key, n+1-used); got.Allowed {
					r.Fatalf("%v back, %d used before: %d more were granted: %s", back, used, n+1-used, show(got))
				}
				for got := r.take(rule, key, 1); !got.Allowed; {
					if got.RetryAfter > 2*window {
						r.Fatalf("%v back: a client that had used %d of %d waits for %v", back, used, n, got.RetryAfter)
					}
					r.Advance(got.RetryAfter)
					if got = r.take(rule, key, 1); !got.Allowed {
						r.Fatalf("%v back, %d used before: denied again after Retry-After: %s", back, used, show(got))
					}
				}
				r.Set(time.UnixMicro(start).Add(2 * window))
				r.wantTake(rule, key, 1, true, r.peek(rule, key, 1).Remaining-1)
				r.Set(time.UnixMicro(start).Add(3*window + window/n))
				if got := r.peek(rule, key, n); got.Remaining != n && rule.Algorithm != store.SlidingWindow {
					r.Fatalf("%v back, three windows later: %s", back, show(got))
				}
				r.Advance(back)
			}
		}
	})
}

// A month that the clock was ahead of becomes the present one; the next month, over whose beginning a
// clock can be set back by seconds, keeps its own.
func setBackCalendar(r *rig) {
	month := rule(r, core.PerMonth(10, time.UTC).Named("month"))
	for _, c := range []struct {
		ahead, back string
		ends        string
	}{
		{"2026-07-20", "2026-03-14", "2026-04-01"},
		{"2027-03-14", "2026-03-14", "2026-04-01"},
		{"2026-05-01", "2026-04-30", "2026-06-01"},
	} {
		day := func(s string) time.Time {
			return must.Get(time.Parse(time.DateOnly, s))(r)
		}
		r.Set(day(c.ahead))
		r.wantTake(month, c.ahead, 7, true, 3)
		r.Set(day(c.back))
		got := r.take(month, c.ahead, 4)
		if got.Allowed || got.Remaining != 3 {
			r.Fatalf("from %s back to %s: %s, want the 7 units still used", c.ahead, c.back, show(got))
		}
		if ends := time.UnixMicro(r.Micros()).Add(got.RetryAfter); !ends.Equal(day(c.ends)) {
			r.Errorf("from %s back to %s: waits until %v, want %s", c.ahead, c.back, ends.UTC(), c.ends)
		}
		r.Advance(got.RetryAfter)
		r.wantTake(month, c.ahead, 10, true, 0)
	}
}

// An account of a later period is unknown: the book says what was used in the present one.
func setBackLedger(r *bookRig) {
	plan := plan(r, 10)
	for _, back := range []time.Duration{90 * 24 * time.Hour, 366 * 24 * time.Hour} {
		key := back.String()
		r.restore(plan, key, counting.Restoration{Used: 2, Generation: 5})
		r.wantAccount("ahead", r.wantTake(plan, key, 3, true, 5), 5, position(5, 2))
		r.Advance(-back)
		r.wantUnknown("set back", plan, r.take(plan, key, 1))
		r.restore(plan, key, counting.Restoration{Used: 4, Generation: 2})
		r.wantAccount("restored", r.wantTake(plan, key, 1, true, 5), 5, position(2, 2))
		r.Advance(back)
	}
}

// A block lasts as long as it was to last, whoever began it, and denials count no longer than they
// do. A block that was over may come back, for its own length.
func setBackBlocks(r *rig) {
	login := slow(r, "login")
	// block has one key blocked for a minute by denials, and another one by hand.
	block := func(struck, byHand string) {
		r.wantTake(login, struck, 2, true, 0)
		r.wantTake(login, byHand, 2, true, 0)
		for range 3 {
			r.take(login, struck, 1)
		}
		must.OK(r, r.Block(context.Background(), []core.Check{{Key: []byte(byHand), Rule: login}}, 20*time.Minute))
	}
	start := r.Micros()
	r.Set(time.UnixMicro(1 << 52)) // in the year 2112; twice as many microseconds are no integers in Lua
	block("struck", "by hand")
	unguarded := rule(r, core.PerMinute(10).Named("unguarded")) // by a limit without a penalty
	must.OK(r, r.Block(context.Background(), []core.Check{{Key: []byte("by hand"), Rule: unguarded}}, time.Minute))
	r.Advance(-time.Second + time.Microsecond)
	r.wantBlocked(login, "struck", time.Minute)
	r.wantBlocked(login, "by hand", 20*time.Minute)
	r.wantBlocked(unguarded, "by hand", time.Minute)
	r.Set(time.UnixMicro(start))
	for _, back := range setBacks {
		struck, byHand, counted := fmt.Sprint("struck", back), fmt.Sprint("by hand", back), fmt.Sprint("counted", back)
		block(struck, byHand)
		r.wantTake(login, counted, 2, true, 0)
		r.take(login, counted, 1)
		r.take(login, counted, 1)
		r.Advance(-back)
		r.wantBlocked(login, struck, time.Minute)
		r.wantBlocked(login, byHand, 20*time.Minute)
		r.Advance(time.Minute - time.Microsecond)
		r.wantBlocked(login, struck, time.Microsecond)
		r.Advance(time.Microsecond)
		if got := r.take(login, struck, 1); got.Blocked {
			r.Errorf("%v back: still blocked a minute later: %s", back, show(got))
		}
		r.Advance(19 * time.Minute)
		if got := r.take(login, byHand, 1); got.Blocked {
			r.Errorf("%v back: still blocked by hand 20 minutes later: %s", back, show(got))
		}
		if got := r.take(login, counted, 1); !got.Blocked {
			r.Errorf("%v back: two denials no longer count when they are seen: %s", back, show(got))
		}
		r.Advance(back - 20*time.Minute)
	}
	// Denials that are seen once by the earlier clock are over ten minutes later.
	r.wantTake(login, "window", 2, true, 0)
	r.take(login, "window", 1)
	r.Advance(-24 * time.Hour)
	r.take(login, "window", 1)
	r.Advance(10 * time.Minute)
	for range 2 {
		if got := r.take(login, "window", 1); got.Blocked {
			r.Errorf("denials of before count ten minutes later: %s", show(got))
		}
	}
}

// An operation of the later clock is known for one ttl from its first repeat on.
func setBackMarks(r *rig) {
	orders := rule(r, core.PerDay(10).OncePer(keyfuncs.Header("Idempotency-Key"), time.Hour).Repeats(1000).Named("orders"))
	for _, back := range setBacks {
		c := operation(orders, fmt.Sprint(back), "op")
		r.wantOnce(c, true, false, 9)
		r.Advance(-back)
		if got := r.takeAll(c)[0]; !got.Repeated {
			r.Fatalf("%v back: the operation is charged again: %s", back, show(got))
		}
		r.Advance(time.Hour - time.Microsecond)
		if got := r.takeAll(c)[0]; !got.Repeated {
			r.Errorf("%v back: the operation is charged again within its ttl: %s", back, show(got))
		}
		r.Advance(time.Microsecond)
		if got := r.takeAll(c)[0]; got.Repeated {
			r.Errorf("%v back: the operation is known for longer than its ttl: %s", back, show(got))
		}
		r.Advance(back - time.Hour)
	}
}

// A slot of a process that died is free after two leases at most, and one that is held stays so.
func setBackSlots(r *rig) {
	const lease = time.Minute
	slots := rule(r, core.Concurrent(2).Lease(lease).Named("slots"))
	for _, back := range append([]time.Duration{20 * time.Millisecond, 30 * time.Second}, setBacks...) {
		const key = "k"
		held := r.wantTake(slots, key, 1, true, 1)
		r.wantTake(slots, key, 1, true, 0) // by a process that dies
		r.Advance(-back)
		r.wantTake(slots, key, 1, false, 0)
		if back < lease {
			if got := r.refund(slots, key, 1, held); got.Remaining != 1 {
				r.Errorf("%v back: a slot could not be given back: %s", back, show(got))
			}
			held = r.wantTake(slots, key, 1, true, 0)
		}
		for range 6 { // of which the process that lives renews its own
			r.Advance(lease / 3)
			held = r.renew(slots, 1, held)
		}
		if got := r.peek(slots, key, 1); got.Remaining != 1 {
			r.Errorf("%v back, two leases later: %s, want one slot free", back, show(got))
		}
		r.reset(slots, key)
		r.Advance(back)
	}
}
