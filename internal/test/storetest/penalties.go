package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/must"
)

// The functions of the table about penalties.

// penalized is a limit of two an hour that blocks for a minute at the third of
// three denials within ten minutes, for two the next time, and for four at most.
func penalized(l core.Limit) core.Limit {
	return l.Penalty(core.Block{After: 3, Within: 10 * time.Minute, For: time.Minute, Max: 4 * time.Minute})
}

// slow is such a limit that regains nothing during a test.
func slow(t testing.TB, name string) *core.Rule {
	t.Helper()
	return rule(t, penalized(core.Per(2, 1000*24*time.Hour)).Named(name))
}

func (r *rig) wantBlocked(rule *core.Rule, key string, left time.Duration) {
	r.Helper()
	// By the limit alone, the client would wait longer than by any block.
	got := r.take(rule, key, 1)
	if got.Allowed || got.Charged || !got.Blocked || got.Remaining != 0 || got.RetryAfter < left || got.Window != got.RetryAfter {
		r.Fatalf("got %s blocked=%v, want it blocked for %v", show(got), got.Blocked, left)
	}
	if held := r.blockOf(rule, key); held != left {
		r.Fatalf("blocked for %v, want %v", held, left)
	}
}

// blockOf returns how long the key is still blocked according to Blocks.
func (r *rig) blockOf(rule *core.Rule, key string) time.Duration {
	r.Helper()
	for _, b := range r.blocks(rule) {
		if b.Key == key {
			return time.Duration(b.Until.UnixMicro()-r.Micros()) * time.Microsecond
		}
	}
	return 0
}

func (r *rig) blocks(rules ...*core.Rule) []store.Blocked {
	r.Helper()
	var all []store.Blocked
	for b, err := range r.Blocks(context.Background(), rules) {
		if err != nil {
			r.Fatalf("blocks: %v", err)
		}
		all = append(all, b)
	}
	return sortBlocked(all)
}

func (r *rig) wantDenied(rule *core.Rule, key string, times int) {
	r.Helper()
	for range times {
		if got := r.take(rule, key, 1); got.Allowed || got.Blocked {
			r.Fatalf("got %s blocked=%v, want a denial and no block", show(got), got.Blocked)
		}
	}
}

func escalation(r *rig) {
	limit := slow(r, "slow")
	r.wantTake(limit, "k", 2, true, 0)
	for i, length := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 4 * time.Minute, 4 * time.Minute} {
		r.wantDenied(limit, "k", 2)
		r.wantBlocked(limit, "k", length)
		r.Advance(length / 2)
		r.wantBlocked(limit, "k", length-length/2) // denials do not extend it
		r.Advance(length - length/2 - time.Microsecond)
		r.wantBlocked(limit, "k", time.Microsecond)
		if all := r.blocks(limit); len(all) != 1 || all[0].Limit != "slow" || all[0].Level != int64(i+1) {
			r.Fatalf("listed: %+v, want one block of level %d", all, i+1)
		}
		r.Advance(time.Microsecond)
	}
	// Once Max has passed after the end of a block, the next block is a first one again.
	r.Advance(4*time.Minute - time.Microsecond)
	r.wantDenied(limit, "k", 2)
	r.Advance(time.Microsecond)
	r.wantBlocked(limit, "k", time.Minute)
}

func strikesWithin(r *rig) {
	limit := slow(r, "slow")
	r.wantTake(limit, "k", 2, true, 0)
	r.wantDenied(limit, "k", 1)
	r.Advance(9 * time.Minute)
	r.wantDenied(limit, "k", 1)
	r.Advance(time.Minute) // counted from the first denial
	r.wantDenied(limit, "k", 2)
	r.wantBlocked(limit, "k", time.Minute)
}

func noStrikes(r *rig) {
	limit, other := slow(r, "slow"), rule(r, core.PerDay(1).Named("other"))
	both := func(cost int64) []core.Result {
		return r.takeAll(core.Check{Key: []byte("k"), Rule: limit, Cost: cost}, core.Check{Key: []byte("k"), Rule: other, Cost: 1})
	}
	both(1)
	for range 5 {
		if got := both(1); got[0].Blocked || !got[0].Allowed || got[1].Allowed {
			r.Fatalf("denied by the other limit: %s %s", show(got[0]), show(got[1]))
		}
	}
	r.wantTake(limit, "k", 1, true, 0)
	for range 5 {
		if got := r.peek(limit, "k", 1); got.Allowed || got.Blocked {
			r.Fatalf("peek: %s blocked=%v", show(got), got.Blocked)
		}
		if got := r.take(limit, "k", 0); !got.Allowed || got.Blocked {
			r.Fatalf("cost 0: %s blocked=%v", show(got), got.Blocked)
		}
	}
	r.wantDenied(limit, "k", 2)
	r.wantBlocked(limit, "k", time.Minute)
	if got := r.peek(limit, "k", 1); !got.Blocked || got.Allowed {
		r.Errorf("peek of a blocked key: %s", show(got))
	}
	if got := r.take(limit, "k", 0); !got.Allowed || got.Blocked {
		r.Errorf("cost 0 of a blocked key: %s blocked=%v", show(got), got.Blocked)
	}
}

func blocksAll(r *rig) {
	r.each(5, time.Hour, func(r *rig, plain *core.Rule) {
		limit := rule(r, penalized(core.PerSecond(2)).Named("guarded"))
		key := plain.Name
		r.wantTake(limit, key, 2, true, 0)
		r.wantDenied(limit, key, 2)
		r.wantBlocked(limit, key, time.Minute)
		r.Advance(30 * time.Second) // by now the limit has units left
		check := core.Check{Key: []byte(key), Rule: limit, Cost: 1}
		for range 3 {
			got := r.takeAll(check, core.Check{Key: []byte(key), Rule: plain, Cost: 1})
			if !got[0].Blocked || got[0].RetryAfter != 30*time.Second || got[1].Charged || !got[1].Allowed || got[1].Remaining != 5 {
				r.Fatalf("a blocked request of two limits: %s %s", show(got[0]), show(got[1]))
			}
		}
		r.Advance(30 * time.Second)
		if got := r.takeAll(check, core.Check{Key: []byte(key), Rule: plain, Cost: 1}); !got[0].Charged || !got[1].Charged || got[0].Remaining != 1 {
			r.Fatalf("after the block: %s %s", show(got[0]), show(got[1]))
		}
	})
}

func blocksEach(r *rig) {
	// If both limits of a key are exceeded, both count a strike, whatever else denies.
	a, b := slow(r, "a"), slow(r, "b")
	both := func() []core.Result {
		return r.takeAll(core.Check{Key: []byte("k"), Rule: a, Cost: 1}, core.Check{Key: []byte("k"), Rule: b, Cost: 1})
	}
	both()
	both()
	both()
	r.wantDenied(a, "k", 1)
	if got := both(); !got[0].Blocked || got[1].Blocked {
		r.Fatalf("blocked by a=%v b=%v, want a alone", got[0].Blocked, got[1].Blocked)
	}
	if got := both(); !got[0].Blocked || !got[1].Blocked {
		r.Fatalf("blocked by a=%v b=%v, want both", got[0].Blocked, got[1].Blocked)
	}
	if all := r.blocks(a, b); len(all) != 2 {
		r.Errorf("listed: %+v, want two", all)
	}
	if all := r.blocks(b); len(all) != 1 || all[0].Limit != "b" {
		r.Errorf("listed of b: %+v", all)
	}
}

func shadowBlocks(r *rig) {
	tight, wide := rule(r, penalized(core.PerSecond(1)).Named("tight")), rule(r, core.PerHour(50).Named("wide"))
	both := func() []core.Result {
		return r.takeAll(core.Check{Key: []byte("k"), Rule: tight, Cost: 1, Shadow: true}, core.Check{Key: []byte("k"), Rule: wide, Cost: 1})
	}
	for i := range 4 {
		if got := both(); !got[1].Charged || got[0].Blocked != (i == 3) {
			r.Fatalf("request %d: shadow blocked=%v, the other %s", i+1, got[0].Blocked, show(got[1]))
		}
	}
	r.Advance(30 * time.Second)
	if got := both(); !got[0].Blocked || got[0].Charged || !got[1].Charged {
		r.Errorf("while the shadow blocks: %s %s", show(got[0]), show(got[1]))
	}
	r.Advance(30 * time.Second)
	if got := both(); got[0].Blocked || !got[0].Charged {
		r.Errorf("after the shadow's block: %s", show(got[0]))
	}
}

// blockMany has as many checks in a call as any call may have, however many records of a store each of them takes.
func blockMany(r *rig) {
	checks, rules := make([]core.Check, store.MaxChecks), make([]*core.Rule, store.MaxChecks)
	for i := range checks {
		limit := core.PerSecond(1).Named(fmt.Sprint("limit", i))
		if i%2 == 0 {
			limit = penalized(limit)
		}
		rules[i] = rule(r, limit)
		checks[i] = core.Check{Key: []byte("k"), Rule: rules[i]}
	}
	must.OK(r, r.Block(context.Background(), checks, time.Hour))
	if all := r.blocks(rules...); len(all) != len(checks) {
		r.Errorf("%d of %d blocks are listed", len(all), len(checks))
	}
	must.OK(r, r.Unblock(context.Background(), checks))
	if all := r.blocks(rules...); len(all) != 0 {
		r.Errorf("%d blocks are listed after all were lifted", len(all))
	}
}

func liftAndSet(r *rig) {
	for name, plain := range Algorithms(5, time.Hour) {
		limit, key := rule(r, penalized(plain)), name
		check := core.Check{Key: []byte(key), Rule: limit}
		must.OK(r, r.Block(context.Background(), []core.Check{check}, 3*time.Hour))
		r.wantBlocked(limit, key, 3*time.Hour)
		must.OK(r, r.Block(context.Background(), []core.Check{check}, time.Second))
		r.wantBlocked(limit, key, time.Second)
		if all := r.blocks(limit); len(all) != 1 || all[0].Level != 0 {
			r.Errorf("listed: %+v, want a block of level 0", all)
		}
		r.wantTake(limit, key+"'s other", 4, true, 1)
		for range 2 { // lifting without a block is no error
			must.OK(r, r.Unblock(context.Background(), []core.Check{check}))
		}
		if all := r.blocks(limit); len(all) != 0 {
			r.Errorf("listed after all was lifted: %+v", all)
		}
		r.wantTake(limit, key, 5, true, 0) // nothing was charged or lost
		r.wantDenied(limit, key, 2)
		r.wantBlocked(limit, key, time.Minute)
		r.reset(limit, key)
		r.wantTake(limit, key, 5, true, 0)
		r.wantDenied(limit, key, 2)
		must.OK(r, r.Unblock(context.Background(), []core.Check{check}))
		r.wantDenied(limit, key, 2) // denials are forgotten, used units are not
		r.wantBlocked(limit, key, time.Minute)
	}
	for _, checks := range [][]core.Check{{{Key: []byte("k")}}} {
		if r.Block(context.Background(), checks, time.Second) == nil || r.Unblock(context.Background(), checks) == nil {
			r.Errorf("a block without a rule: no error")
		}
	}
	for _, d := range []time.Duration{0, -1, time.Nanosecond, 11 * 365 * 24 * time.Hour} {
		if r.Block(context.Background(), []core.Check{{Key: []byte("k"), Rule: slow(r, "slow")}}, d) == nil {
			r.Errorf("a block for %v: no error", d)
		}
	}
}

// blockAnybody blocks under limits without a penalty.
func blockAnybody(r *rig) {
	for name, plain := range Algorithms(5, time.Hour) {
		limit, key := rule(r, plain), name
		check := core.Check{Key: []byte(key), Rule: limit}
		used := r.wantTake(limit, key, 2, true, 3)
		must.OK(r, r.Block(context.Background(), []core.Check{check}, 3*time.Hour))
		r.wantBlocked(limit, key, 3*time.Hour)
		must.OK(r, r.Block(context.Background(), []core.Check{check}, time.Minute))
		r.wantBlocked(limit, key, time.Minute)
		if got := r.peek(limit, key, 1); got.Allowed || !got.Blocked || got.RetryAfter < time.Minute {
			r.Errorf("%s: peek of a blocked key: %s", name, show(got))
		}
		if got := r.take(limit, key, 0); !got.Allowed || got.Blocked || got.Remaining != 3 {
			r.Errorf("%s: cost 0 of a blocked key: %s blocked=%v", name, show(got), got.Blocked)
		}
		other := rule(r, core.PerDay(7).Named("other"))
		got := r.takeAll(core.Check{Key: []byte(key), Rule: other, Cost: 1}, core.Check{Key: []byte(key), Rule: limit, Cost: 1})
		if got[0].Charged || !got[0].Allowed || got[0].Remaining != 7 || !got[1].Blocked {
			r.Errorf("%s: a blocked request of two limits: %s %s", name, show(got[0]), show(got[1]))
		}
		r.wantTake(limit, key+"'s other", 4, true, 1)
		if got := r.refund(limit, key, 1, used); got.Remaining != 4 { // what was used is still known
			r.Errorf("%s: refund while blocked: %s", name, show(got))
		}
		r.wantBlocked(limit, key, time.Minute)
		if all := r.blocks(limit); len(all) != 1 || all[0].Level != 0 || all[0].Limit != limit.Name {
			r.Errorf("listed: %+v, want a block of level 0", all)
		}
		for range 2 {
			must.OK(r, r.Unblock(context.Background(), []core.Check{check}))
		}
		if all := r.blocks(limit); len(all) != 0 {
			r.Errorf("listed after all was lifted: %+v", all)
		}
		r.wantTake(limit, key, 4, true, 0)
		must.OK(r, r.Block(context.Background(), []core.Check{check}, time.Minute))
		r.reset(limit, key)
		r.wantTake(limit, key, 5, true, 0)
		must.OK(r, r.Block(context.Background(), []core.Check{check}, time.Second))
		r.wantBlocked(limit, key, time.Second)
		r.Advance(time.Second)
		if got := r.take(limit, key, 1); got.Blocked {
			r.Errorf("%s: after its end the block is in force: %s", name, show(got))
		}
	}
}

// A repeat would be free, so that it can be made again when the block ends, whatever it costs.
func blockRepeats(r *rig) {
	r.eachOnce(5, func(r *rig, rule *core.Rule) {
		check := operation(rule, "k", "op")
		r.wantOnce(check, true, false, 4)
		must.OK(r, r.Block(context.Background(), []core.Check{check}, time.Minute))
		check.Cost = 6 // more than the burst
		if got := r.takeAll(check)[0]; !got.Blocked || got.Repeated || got.RetryAfter != time.Minute {
			r.Errorf("%s: a repeat of a blocked client: %s, want to be made again in a minute", describe(rule), show(got))
		}
		check.Once = []byte("another")
		if got := r.takeAll(check)[0]; !got.Blocked || got.RetryAfter != 0 {
			r.Errorf("%s: an operation of a blocked client that never fits: %s", describe(rule), show(got))
		}
	})
}

func refundsKeepBlocks(r *rig) {
	limit := slow(r, "slow")
	charge := r.wantTake(limit, "k", 2, true, 0)
	r.wantDenied(limit, "k", 2)
	r.wantBlocked(limit, "k", time.Minute)
	if got := r.refund(limit, "k", 2, charge); got.Remaining != 2 || got.Blocked {
		r.Errorf("refund while blocked: %s", show(got))
	}
	r.wantBlocked(limit, "k", time.Minute)
	results := make([]core.Result, 1)
	if err := r.Charge(context.Background(), []core.Check{{Key: []byte("k"), Rule: limit, Cost: 5}}, results); err != nil || !results[0].Charged {
		r.Errorf("charge while blocked: %s, %v", show(results[0]), err)
	}
	r.wantBlocked(limit, "k", time.Minute)
}

func parallelPenalty(r *rig) {
	limit := rule(r, core.Per(20, 1000*24*time.Hour).Penalty(core.Block{After: 30, Within: time.Hour, For: time.Hour}))
	got := HammerBlocks(r, r.Store, limit, "k", 32, 8)
	if got != [3]int64{20, 29, 32*8 - 49} {
		r.Errorf("admitted, denied, blocked: %v, want 20, 29 and the rest", got)
	}
}

// HammerBlocks takes one unit from many goroutines at once, each rounds times. It returns
// how many calls were admitted, denied without a block, and blocked.
func HammerBlocks(t testing.TB, store core.Store, rule *core.Rule, key string, goroutines, rounds int) (counts [3]int64) {
	t.Helper()
	each := make(chan [3]int64)
	for range goroutines {
		go func() {
			var n [3]int64
			checks, results := []core.Check{{Key: []byte(key), Rule: rule, Cost: 1}}, make([]core.Result, 1)
			for range rounds {
				if err := store.Take(context.Background(), checks, results); err != nil {
					t.Errorf("take: %v", err)
					break
				}
				switch {
				case results[0].Allowed:
					n[0]++
				case results[0].Blocked:
					n[2]++
				default:
					n[1]++
				}
			}
			each <- n
		}()
	}
	for range goroutines {
		for i, n := range <-each {
			counts[i] += n
		}
	}
	return counts
}

// blockOrLift has store and model set, lift or list blocks.
func (s *sequence) blockOrLift() {
	s.Helper()
	var rules, penalized []*core.Rule
	for _, name := range names {
		r := s.rule(name)
		if rules = append(rules, r); r.Penalized() {
			penalized = append(penalized, r)
		}
	}
	if len(penalized) > 0 {
		s.changeBlocks(s.rand, penalized, keys)
	}
	s.changeBlocks(s.blocking, rules, keys) // also under limits without a penalty
}

func (s *sequence) changeBlocks(random *rand.Rand, rules []*core.Rule, keys []string) {
	s.Helper()
	b := s.Store
	c := core.Check{Key: []byte(pick(random, keys)), Rule: pick(random, rules)}
	switch random.IntN(4) {
	case 0:
		d := pick(random, []time.Duration{time.Microsecond, time.Second, time.Hour})
		s.log("block %s %s for %v", c.Key, c.Rule.Name, d)
		if err := b.Block(context.Background(), []core.Check{c}, d); err != nil {
			s.Fatalf("block: %v\n%s", err, s.trace)
		}
		s.model.block(&c, s.Micros(), d)
	case 1:
		s.log("unblock %s %s", c.Key, c.Rule.Name)
		if err := b.Unblock(context.Background(), []core.Check{c}); err != nil {
			s.Fatalf("unblock: %v\n%s", err, s.trace)
		}
		s.model.lift(&c)
	default:
		got, want := s.blocks(rules...), s.model.blocks(rules, s.Micros())
		if !slices.Equal(got, want) {
			s.Fatalf("blocks: got %+v, want %+v\n%s", got, want, s.trace)
		}
	}
}

// randomBlock returns a Block short enough to end within a sequence.
func (s *sequence) randomBlock() core.Block {
	times := []time.Duration{time.Millisecond, time.Second, 90 * time.Second, time.Hour}
	b := core.Block{
		After: pick(s.rand, []int64{1, 2, 3, 5}), Within: pick(s.rand, times), For: pick(s.rand, times),
		Factor: pick(s.rand, []int64{0, 1, 2, 3, 1000}),
	}
	b.Max = pick(s.rand, []time.Duration{0, b.For, 3 * b.For, 100 * b.For})
	return b
}
