package storetest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
)

type tableTest struct {
	name string
	run  func(*rig)
}

// table is what a store promises. Most cases are named after bugs of other limiters.
var table = []tableTest{
	{"ten pass and the eleventh is denied, whenever it is", frozenClock},
	{"waiting exactly RetryAfter succeeds and a microsecond less does not", exactWait},
	{"hammering while denied extends nothing", hammering},
	{"a denial charges no limit of the request", allOrNothing},
	{"limits of one key count apart", limitsApart},
	{"keys count apart, however alike", keysApart},
	{"a cost above the burst never fits and drains nothing", neverFits},
	{"a cost of nothing is a pure peek", freePeek},
	{"peeking charges nothing", peeking},
	{"bad checks are refused and charge nothing", badChecks},
	{"a shadow check is charged if it fits and stops nobody if not", shadow},
	{"a reset forgets one limit of one key", resets},
	{"a refund gives back what was taken, once, while it counts", refunds},
	{"a refund after its window rolled gives nothing", refundsTooLate},
	{"a refund gives back no more than the bucket has not regained", refundsRegained},
	{"what was used stays used when the limit changes", limitChanged},
	{"what was used stays used when the quota passes 2^31", widthChanged},
	{"a refund under older numbers mints nothing", refundUnderOlderNumbers},
	{"asking under lower numbers forgets nothing of what was used under higher ones", askedUnderOthers},
	{"a charge under lower numbers forgets nothing of what was used under higher ones", chargedUnderOthers},
	{"numbers with shorter windows make nobody wait for the end of longer ones", shorterWindows},
	{"two versions of a limit at once neither mint nor lose units", twoVersions},
	{"fixed windows are aligned to the epoch", aligned},
	{"jitter moves each key's windows", jitter},
	{"a charge goes as far as the debt, and the next request waits it off", debtsChosen},
	{"what was charged stays charged when the debt changes", debtsChanged},
	{"a window begins with first use, and its end is not prolonged", fromUseBegins},
	{"a denied request begins no window", fromUseDenied},
	{"a refund belongs to the window that began with first use, and may end it", fromUseRefunds},
	{"a late charge begins a window", fromUseLate},
	{"windows that have begun end as they were to end when a limit begins with first use", fromUseChanged},
	{"a clock set back keeps a window that began with first use for a window at most", fromUseSetBack},
	{"calendar windows begin when the zone's days and months do", calendarEdges},
	{"a refund belongs to its month", calendarRefunds},
	{"what was used stays used between a calendar window and others", calendarChanged},
	{"two classes of requests share one bucket", classes},
	{"of several classes each takes what is idle, and nothing that is kept for one above", classesInOrder},
	{"two classes of a large quota share one bucket", classesOfMany},
	{"a change of the limit in the lower class forgets nothing", classesChanged},
	{"an attacker at the edge gets no more than the bound", edgeAttack},
	{"a clock set back mints nothing and locks nobody out longer", clockBack},
	{"a clock set back by hours makes nobody wait for longer than two windows", setBackFar},
	{"a clock set back by months keeps a calendar window no longer than to the next one's end", setBackCalendar},
	{"a clock set back makes no block and no denial last longer", setBackBlocks},
	{"a clock set back makes no operation known for longer", setBackMarks},
	{"a clock set back holds no slot for longer than two leases", setBackSlots},
	{"odd rates do not drift", noDrift},
	{"remaining stays within zero and the burst", remainingBounds},
	{"extreme numbers are counted exactly", extremes},
	{"a request whose turn has come does not wait", turnComes},
	{"a request waits for its turn to the microsecond", turnsExact},
	{"parallel callers get exactly the quota", parallel},
	{"parallel callers of several limits get all or nothing", parallelSeveral},
	{"blocks get longer, up to the longest, and are forgiven in the end", escalation},
	{"denials count for a time that begins with the first", strikesWithin},
	{"other limits' denials, peeks and costs of nothing are no reason to block", noStrikes},
	{"a block denies the whole request, and charges and extends nothing", blocksAll},
	{"limits of one key block each for itself", blocksEach},
	{"a shadow's blocks are reported and deny nobody", shadowBlocks},
	{"blocks are set, lifted and reset", liftAndSet},
	{"a call sets and lifts as many blocks as it may have", blockMany},
	{"a client is blocked under any limit", blockAnybody},
	{"a repeat of a blocked client can be made again when the block ends", blockRepeats},
	{"refunds and charges leave blocks as they are", refundsKeepBlocks},
	{"parallel callers are denied exactly as often as a block takes", parallelPenalty},
}

func runTable(t *testing.T, newStore Factory) {
	runTests(t, newStore, slices.Concat(table, onceTable, concurrencyTable, combinationTable, ledgerTable))
}

func runTests(t *testing.T, newStore Factory, tests []tableTest) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(newRig(t, newStore))
		})
	}
}

// each runs a test for each algorithm with n units per window.
func (r *rig) each(n int64, window time.Duration, run func(r *rig, rule *core.Rule)) {
	r.Helper()
	r.eachAs(n, window, func(l core.Limit) core.Limit { return l }, run)
}

// eachAs is each with limits that are changed first.
func (r *rig) eachAs(n int64, window time.Duration, change func(core.Limit) core.Limit, run func(r *rig, rule *core.Rule)) {
	r.Helper()
	for name, limit := range Algorithms(n, window) {
		r.Run(name, func(t *testing.T) {
			same := *r
			same.T = t
			run(&same, rule(t, change(limit)))
		})
	}
}

func frozenClock(r *rig) {
	// The first two instants are where a float64 or float32 epoch lost a unit.
	for i, at := range []string{"2025-07-04T21:24:16Z", "2034-01-05T18:48:32Z", "2048-02-29T23:59:59Z"} {
		now := must.Get(time.Parse(time.RFC3339, at))(r)
		r.Set(now)
		for name, limit := range Algorithms(10, time.Second) {
			rule, key := rule(r, limit), fmt.Sprint(name, i)
			for n := int64(1); n <= 10; n++ {
				r.wantTake(rule, key, 1, true, 10-n)
			}
			r.wantTake(rule, key, 1, false, 0)
		}
	}
}

func exactWait(r *rig) {
	r.each(7, 90*time.Second, func(r *rig, rule *core.Rule) {
		for _, cost := range []int64{1, 3, 7} {
			key := fmt.Sprint("exact", cost)
			for range 40 {
				got := r.take(rule, key, cost)
				if got.Allowed {
					continue
				}
				if got.RetryAfter <= 0 {
					r.Fatalf("cost %d: denied without a wait: %s", cost, show(got))
				}
				r.Advance(got.RetryAfter - time.Microsecond)
				if early := r.take(rule, key, cost); early.Allowed {
					r.Fatalf("cost %d: a microsecond before %v it was allowed already", cost, got.RetryAfter)
				}
				r.Advance(time.Microsecond)
				if late := r.take(rule, key, cost); !late.Allowed {
					r.Fatalf("cost %d: after %v it was still denied: %s", cost, got.RetryAfter, show(late))
				}
			}
		}
	})
}

func hammering(r *rig) {
	r.each(3, time.Minute, func(r *rig, rule *core.Rule) {
		for range 3 {
			r.take(rule, "hammer", 1)
		}
		first := r.take(rule, "hammer", 1)
		step := (first.RetryAfter / 100).Truncate(time.Microsecond)
		passed := time.Duration(0)
		for ; passed < first.RetryAfter; passed += step {
			got := r.take(rule, "hammer", 1)
			if got.Allowed || got.RetryAfter != first.RetryAfter-passed {
				r.Fatalf("after %v of hammering: %s, want to wait for %v", passed, show(got), first.RetryAfter-passed)
			}
			r.Advance(step)
		}
		if got := r.take(rule, "hammer", 1); !got.Allowed {
			r.Fatalf("hammering extended the denial: %s", show(got))
		}
	})
}

func allOrNothing(r *rig) {
	a, b := rule(r, core.PerMinute(10).Named("a")), rule(r, core.PerHour(100).FixedWindow().Named("b"))
	c := rule(r, core.PerDay(2).SlidingLog().Named("c"))
	check := func() []core.Result {
		return r.takeAll(
			core.Check{Key: []byte("user:1"), Rule: a, Cost: 1},
			core.Check{Key: []byte("user:1"), Rule: b, Cost: 2},
			core.Check{Key: []byte("all"), Rule: c, Cost: 1})
	}
	check()
	check()
	results := check()
	if !results[0].Allowed || !results[1].Allowed || results[2].Allowed {
		r.Fatalf("only the third limit should deny: %s %s %s", show(results[0]), show(results[1]), show(results[2]))
	}
	for i, want := range []int64{8, 96, 0} {
		if results[i].Charged || results[i].Remaining != want {
			r.Errorf("limit %d of a denied request: %s, want %d remaining and nothing charged", i+1, show(results[i]), want)
		}
	}
	r.wantPeek(a, "user:1", 8)
	r.wantPeek(b, "user:1", 96)
}

func limitsApart(r *rig) {
	var rules []*core.Rule
	for _, limit := range Algorithms(10, time.Hour) {
		rules = append(rules, rule(r, limit))
	}
	for i, rule := range rules {
		for n := range i + 1 {
			r.wantTake(rule, "one", 1, true, int64(9-n))
		}
	}
	for i, rule := range rules {
		r.wantPeek(rule, "one", int64(9-i))
	}
}

func keysApart(r *rig) {
	limit := rule(r, core.PerHour(5))
	keys := []string{"a", "A", "", " ", "a ", "a:b", "ab:", "{a}", "a}", "}{", "a\x00", "a\x00b", "\xff\xfe", "é", strings.Repeat("k", 10_000), strings.Repeat("k", 9_999)}
	for _, key := range keys {
		r.wantTake(limit, key, 2, true, 3)
	}
	for _, key := range keys {
		r.wantPeek(limit, key, 3)
	}
}

func neverFits(r *rig) {
	r.each(10, time.Minute, func(r *rig, rule *core.Rule) {
		for _, cost := range []int64{11, 1 << 40, math.MaxInt64} {
			got := r.wantTake(rule, "never", cost, false, 10)
			if got.RetryAfter != 0 {
				r.Errorf("cost %d of 10 was told to come back in %v", cost, got.RetryAfter)
			}
		}
		r.wantTake(rule, "never", 10, true, 0)
		r.wantTake(rule, "never", 11, false, 0)
	})
}

func freePeek(r *rig) {
	r.each(2, time.Minute, func(r *rig, rule *core.Rule) {
		r.wantTake(rule, "free", 0, true, 2)
		r.wantTake(rule, "free", 2, true, 0)
		r.wantTake(rule, "free", 0, true, 0)
		r.wantTake(rule, "free", 1, false, 0)
	})
}

func peeking(r *rig) {
	r.each(5, time.Minute, func(r *rig, rule *core.Rule) {
		r.wantTake(rule, "peek", 2, true, 3)
		for range 3 {
			r.wantPeek(rule, "peek", 3)
		}
		if got := r.peek(rule, "peek", 4); got.Allowed || got.RetryAfter <= 0 {
			r.Errorf("peeking at a cost that does not fit: %s", show(got))
		}
		r.wantTake(rule, "peek", 3, true, 0)
	})
}

func badChecks(r *rig) {
	limit := rule(r, core.PerHour(5))
	good := core.Check{Key: []byte("k"), Rule: limit, Cost: 1}
	for name, checks := range map[string][]core.Check{
		"a negative cost":             {good, {Key: []byte("other"), Rule: limit, Cost: -1}},
		"the smallest integer":        {{Key: []byte("k"), Rule: limit, Cost: math.MinInt64}},
		"no rule":                     {good, {Key: []byte("other"), Cost: 1}},
		"a key and limit named twice": {good, good},
	} {
		results := make([]core.Result, len(checks))
		if err := r.Take(context.Background(), checks, results); err == nil || !strings.HasPrefix(err.Error(), "weblimit: ") {
			r.Errorf("%s: got error %v", name, err)
		}
		if err := r.Peek(context.Background(), checks, results); err == nil {
			r.Errorf("%s: peeked", name)
		}
	}
	many := make([]core.Check, store.MaxChecks+1)
	for i := range many {
		many[i] = core.Check{Key: fmt.Append(nil, i), Rule: limit, Cost: 1}
	}
	if err := r.Take(context.Background(), many, make([]core.Result, len(many))); err == nil {
		r.Error("more checks than a call can have were taken")
	}
	if err := r.Take(context.Background(), many[1:], make([]core.Result, len(many)-1)); err != nil {
		r.Errorf("%d checks: %v", store.MaxChecks, err)
	}
	if err := r.Take(context.Background(), []core.Check{good}, nil); err == nil {
		r.Error("a check without room for its result was taken")
	}
	if err := r.Reset(context.Background(), []core.Check{{Key: []byte("k")}}); err == nil {
		r.Error("a check without a rule was reset")
	}
	if err := r.Take(context.Background(), nil, nil); err != nil {
		r.Errorf("no checks at all: %v", err)
	}
	r.wantPeek(limit, "k", 5)
}

func shadow(r *rig) {
	tight, wide := rule(r, core.PerHour(1).Named("tight")), rule(r, core.PerHour(5).Named("wide"))
	both := func(key string) []core.Result {
		return r.takeAll(
			core.Check{Key: []byte(key), Rule: tight, Cost: 1, Shadow: true},
			core.Check{Key: []byte(key), Rule: wide, Cost: 1})
	}
	if got := both("s"); !got[0].Charged || !got[1].Charged {
		r.Errorf("while both fit: %s %s", show(got[0]), show(got[1]))
	}
	if got := both("s"); got[0].Allowed || got[0].Charged || got[0].RetryAfter <= 0 || !got[1].Charged || got[1].Remaining != 3 {
		r.Errorf("when only the shadow is exceeded: %s %s", show(got[0]), show(got[1]))
	}
	r.takeAll(core.Check{Key: []byte("t"), Rule: wide, Cost: 5})
	if got := both("t"); got[0].Charged || got[1].Charged {
		r.Errorf("a shadow was charged for a denied request: %s %s", show(got[0]), show(got[1]))
	}
}

func limitChanged(r *rig) {
	changes := map[string]struct {
		quota     int64
		window    time.Duration
		remaining int64 // after 60 of 100 were used
	}{
		"unchanged":        {100, time.Hour, 40},
		"raised":           {200, time.Hour, 140},
		"raised a lot":     {5000, time.Hour, 4940},
		"cut":              {70, time.Hour, 10},
		"cut below":        {10, time.Hour, 0},
		"made per day":     {100, 24 * time.Hour, 40},
		"made per minute":  {100, time.Minute, 40},
		"raised past 2^31": {3_000_000_000, time.Hour, 2_999_999_940},
	}
	for from, limit := range Algorithms(100, time.Hour) {
		for change, c := range changes {
			for to, changed := range Algorithms(c.quota, c.window) {
				if _, err := changed.Rule(); err != nil {
					continue // a log of billions is refused
				}
				before, after := rule(r, limit.Named("changing")), rule(r, changed.Named("changing"))
				key := fmt.Sprintf("%s %s, a %s", from, change, to)
				r.wantTake(before, key, 60, true, 40)
				r.wantTake(after, key, 0, true, c.remaining)
				denied := r.take(after, key, c.remaining+1)
				if denied.Allowed {
					r.Errorf("%s: more than the remaining %d was let through", key, c.remaining)
				}
				// RetryAfter under the new numbers is right.
				if c.remaining < after.Burst {
					r.Advance(denied.RetryAfter)
					if late := r.take(after, key, c.remaining+1); !late.Allowed || denied.RetryAfter > 24*time.Hour {
						r.Errorf("%s: after %v: %s", key, denied.RetryAfter, show(late))
					}
					r.Advance(-denied.RetryAfter)
				}
			}
		}
	}
}

func twoVersions(r *rig) {
	const burst = 100
	steps := long.Rounds[int64](1000, 4000) // a hundred a second
	old := rule(r, core.Per(7, time.Second).Burst(burst).Named("rolling"))
	updated := rule(r, core.Per(11, time.Second).Burst(burst).Named("rolling"))
	admitted := int64(0)
	for i := range steps {
		version := old
		if i%2 == 1 {
			version = updated
		}
		if r.take(version, "k", 1).Allowed {
			admitted++
		}
		r.Advance(10 * time.Millisecond)
	}
	// So many seconds at 7 to 11 a second on top of the burst.
	if least, most := burst+7*steps/100, burst+11*steps/100; admitted < least-1 || admitted > most+1 {
		r.Errorf("two versions at once admitted %d, want between %d and %d", admitted, least, most)
	}
}

func aligned(r *rig) {
	limit := rule(r, core.PerMinute(3).FixedWindow())
	r.Set(time.Date(2026, 6, 1, 12, 0, 59, 999_000_000, time.UTC))
	if got := r.wantTake(limit, "k", 3, true, 0); got.ResetAfter != time.Millisecond {
		r.Errorf("a minute's window ends in %v, want 1ms", got.ResetAfter)
	}
	if got := r.wantTake(limit, "k", 1, false, 0); got.RetryAfter != time.Millisecond {
		r.Errorf("retry after %v, want 1ms: not the whole window", got.RetryAfter)
	}
	r.Advance(time.Millisecond)
	if got := r.wantTake(limit, "k", 3, true, 0); got.ResetAfter != time.Minute {
		r.Errorf("the next window ends in %v, want 1m", got.ResetAfter)
	}
}

func jitter(r *rig) {
	limit := rule(r, core.PerDay(3).FixedWindow().Jitter())
	ends := map[time.Duration]int{}
	for i := range 64 {
		key := fmt.Sprintf("user:%d", i)
		got := r.wantTake(limit, key, 1, true, 2)
		if again := r.peek(limit, key, 1); again.ResetAfter != got.ResetAfter || got.ResetAfter <= 0 || got.ResetAfter > 24*time.Hour {
			r.Errorf("%s: the window ends in %v, then in %v", key, got.ResetAfter, again.ResetAfter)
		}
		ends[got.ResetAfter.Truncate(time.Hour)]++
	}
	if len(ends) < 15 { // of 24 hours, 64 keys leave few empty
		r.Errorf("the windows of 64 keys end within %d hours of the day, want them spread", len(ends))
	}
}

// edgeAttack has a client that knows the algorithm take all it can after being idle. It
// checks every stretch of time as long as a window.
func edgeAttack(r *rig) {
	bounds := map[store.Algorithm]int64{store.TokenBucket: 20, store.FixedWindow: 20, store.SlidingWindow: 20, store.SlidingLog: 10}
	r.each(10, time.Second, func(r *rig, rule *core.Rule) {
		r.Set(time.Date(2026, 5, 5, 5, 5, 5, 950_000_000, time.UTC)) // just before an edge
		var admitted []int64                                         // times in microseconds
		for range 400 {
			for r.take(rule, "edge", 1).Allowed {
				admitted = append(admitted, r.Micros())
			}
			r.Advance(10 * time.Millisecond)
		}
		most := int64(0)
		for i := range admitted {
			last, _ := slices.BinarySearch(admitted, admitted[i]+time.Second.Microseconds())
			most = max(most, int64(last-i))
		}
		if most > bounds[rule.Algorithm] {
			r.Errorf("%d of 10/s passed within one second, the documented bound is %d", most, bounds[rule.Algorithm])
		}
		if total := len(admitted); total < 35 || total > 60 {
			r.Errorf("%d passed in four seconds of 10/s", total)
		}
	})
}

func clockBack(r *rig) {
	r.each(10, 10*time.Second, func(r *rig, rule *core.Rule) {
		for _, back := range []time.Duration{5 * time.Second, time.Minute, 30 * 24 * time.Hour} {
			key := fmt.Sprint("back", back)
			r.wantTake(rule, key, 10, true, 0)
			denied := r.take(rule, key, 1)
			r.Advance(-back)
			if got := r.take(rule, key, 1); got.Allowed || got.Remaining != 0 {
				r.Fatalf("%v back: minted units: %s", back, show(got))
			}
			// When the clock is back where it was, no client waits longer than before.
			r.Advance(back + denied.RetryAfter)
			if got := r.take(rule, key, 1); !got.Allowed {
				r.Fatalf("%v back and forth: still denied after %v: %s", back, denied.RetryAfter, show(got))
			}
			// A key first seen while the clock is behind is not locked out either.
			r.Advance(-back)
			r.wantTake(rule, key+"new", 10, true, 0)
			r.Advance(back)
		}
	})
}

// noDrift takes each unit as soon as it is available and compares the time that many units
// took with the rate.
func noDrift(r *rig) {
	for name, c := range map[string]struct {
		limit  core.Limit
		cost   int64
		grants int64
	}{
		"7 per second":           {core.PerSecond(7).Burst(2), 1, long.Rounds[int64](200, 2000)},
		"1 per 31 days":          {core.Per(1, 31*24*time.Hour), 1, 100},
		"300,000,007 per second": {core.PerSecond(300_000_007).Burst(2_000_000), 999_983, long.Rounds[int64](200, 2000)},
		"86,399 per day":         {core.PerDay(86_399).Burst(2), 1, long.Rounds[int64](200, 2000)},
	} {
		rule := rule(r, c.limit.Named("drift"))
		r.take(rule, name, rule.Burst) // begin with an empty bucket
		start := r.Micros()
		for granted := int64(0); granted < c.grants; {
			got := r.take(rule, name, c.cost)
			if got.Allowed {
				granted++
				continue
			}
			r.Advance(got.RetryAfter)
		}
		took := float64(r.Micros() - start)
		units := float64(c.grants * c.cost)
		want := units / float64(rule.Quota) * float64(rule.Window.Microseconds())
		// The first request waits for the bucket to fill with one cost, and a wait
		// is rounded up by less than a tick, which the next one regains.
		if off := (took - want) / want; math.Abs(off) > 1e-6 && math.Abs(took-want) > 2*float64(rule.Integers.Tick) {
			r.Errorf("%s: %v units took %vµs instead of %vµs, off by %.2g", name, units, took, want, off)
		}
	}
}

func remainingBounds(r *rig) {
	for _, limit := range []core.Limit{core.PerMinute(10).Burst(25), core.PerMinute(10).Burst(2), core.PerMinute(10).SlidingWindow(), core.PerMinute(10).SlidingLog()} {
		rule, key := rule(r, limit), fmt.Sprint(limit)
		for range 60 {
			if got := r.take(rule, key, 1); got.Remaining < 0 || got.Remaining > rule.Burst {
				r.Fatalf("%s: %s", describe(rule), show(got))
			}
			r.Advance(time.Second)
		}
		r.Advance(time.Hour)
		r.wantPeek(rule, key, rule.Burst)
	}
}

func extremes(r *rig) {
	for name, limit := range map[string]core.Limit{
		"2^51 per second":                 core.PerSecond(1 << 51),
		"2^51 per fixed day":              core.PerDay(1 << 51).FixedWindow(),
		"a prime per day":                 core.PerDay(999_999_937),
		"a million per second, no burst":  core.PerSecond(1_000_000).Burst(1),
		"one per century":                 core.Per(1, 100*365*24*time.Hour),
		"a sliding window of 800 million": core.Per(800_000_000, 30*24*time.Hour).SlidingWindow(),
		"a millisecond":                   core.Per(1, time.Millisecond),
		"a millisecond's sliding window":  core.Per(3, time.Millisecond).SlidingWindow(),
		"the longest log":                 core.Per(5000, time.Hour).SlidingLog(),
		"a window of odd microseconds":    core.Per(13, 1_234_567*time.Microsecond),
		"burst of a million units of one": core.PerHour(1).Burst(800_000),
	} {
		rule := rule(r, limit)
		r.wantTake(rule, name, rule.Burst, true, 0)
		denied := r.wantTake(rule, name, 1, false, 0)
		r.Advance(denied.RetryAfter)
		if got := r.take(rule, name, 1); !got.Allowed {
			r.Errorf("%s: after %v: %s", name, denied.RetryAfter, show(got))
		}
		r.Advance(-denied.RetryAfter)
	}
}
