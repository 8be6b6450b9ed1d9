package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/race"
	"github.com/weblimit/weblimit/keyfuncs"
)

// runRandom compares random sequences of operations with the model, result by result. A
// failure prints the seed and the last steps. The environment variable SEEDS sets the
// number of sequences.
func runRandom(t *testing.T, newStore Factory, sequences uint64, apart bool) {
	steps := long.Rounds(300, 600)
	for seed := range seeds(sequences) {
		t.Run(fmt.Sprintf("random sequence %d answers as the model does", seed), func(t *testing.T) {
			t.Parallel()
			s := &sequence{rig: newRig(t, newStore), model: newModel(), rand: rand.New(rand.NewPCG(seed, 1)), blocking: rand.New(rand.NewPCG(seed, 2)), rules: map[string]*core.Rule{}, lower: map[string][]*core.Rule{}, apart: apart, books: !apart || seed%2 == 0}
			for range steps {
				s.step()
			}
		})
	}
}

// seeds returns how many sequences to run: usual, a hundred times as many in a long run, or what SEEDS says.
func seeds(usual uint64) uint64 {
	if more, err := strconv.ParseUint(os.Getenv("SEEDS"), 10, 32); err == nil {
		return more
	}
	return long.Rounds(usual, 100*usual)
}

// rounds returns how many sequences are usual. Under the race detector, a short run has a third of them: each has one caller, so
// that there is little to be found, and takes ten times as long. `make test` runs all of them without it, too: those of Redis and
// PostgreSQL by internal/newest, and those in memory by what internal/test/run calls sequences.
func rounds(short, atLength uint64) uint64 {
	if race.Enabled && short > 3 {
		short = (short + 2) / 3
	}
	return long.Rounds(short, atLength)
}

type sequence struct {
	*rig
	model    *model
	blocking *rand.Rand // of blocks under any limit
	rand     *rand.Rand
	rules    map[string]*core.Rule   // the current numbers of each name
	lower    map[string][]*core.Rule // the classes below the highest of each limit that has some
	charges  []charged
	trace    []string
	wait     time.Duration // RetryAfter of the last denial
	apart    bool          // concurrent callers may see half of a charge to several keys
	books    bool          // calendar limits are kept in books
}

type charged struct {
	checks  []core.Check
	results []core.Result
}

var (
	keys  = []string{"user:alice", "ip:192.0.2.7", "all"}
	names = []string{"burst", "daily", "login"}
	onces = []string{"op-1", "op-2", ""}
	waits = []time.Duration{time.Microsecond, 1500 * time.Millisecond, 10 * time.Second, time.Hour}
)

// step applies one random operation to store and model.
func (s *sequence) step() {
	s.Helper()
	switch n := s.rand.IntN(100); {
	case n < 3:
		s.decideTogether()
	case n < 6:
		s.charge()
	case n < 50:
		s.decide(true)
	case n < 60:
		s.decide(false)
	case n < 68:
		s.giveBack()
	case n < 70:
		s.renew()
	case n < 73:
		check := core.Check{Key: []byte(pick(s.rand, keys)), Rule: s.rule(pick(s.rand, names)), Cost: s.rand.Int64N(3)}
		s.operate(&check)
		s.log("reset %s %s", check.Key, check.Rule.Name)
		if err := s.Reset(context.Background(), []core.Check{check}); err != nil {
			s.Fatalf("reset: %v\n%s", err, s.trace)
		}
		s.model.reset([]core.Check{check})
	case n < 76:
		s.blockOrLift()
	case n < 79:
		s.restoreAccounts(s.checks())
	case n < 85:
		name := pick(s.rand, names)
		s.rules[name] = s.randomRule(name)
		s.log("change %s to %s", name, describe(s.rules[name]))
	case n < 87:
		s.setBack()
	default:
		s.pass()
	}
}

func (s *sequence) log(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf("%d: %s", s.Micros(), fmt.Sprintf(format, args...)))
	if len(s.trace) > 25 {
		s.trace = s.trace[1:]
	}
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func (s *sequence) rule(name string) *core.Rule {
	if s.rules[name] == nil {
		s.rules[name] = s.randomRule(name)
	}
	if lower := s.lower[name]; lower != nil && s.rand.IntN(2) == 0 {
		return pick(s.rand, lower)
	}
	return s.rules[name]
}

func (s *sequence) randomRule(name string) *core.Rule {
	s.Helper()
	quota := pick(s.rand, []int64{1, 2, 3, 5, 7, 10, 60, 97, 1000, 4999, 3_000_000_000})
	window := pick(s.rand, []time.Duration{time.Millisecond, time.Second, 1500 * time.Millisecond, time.Minute, time.Hour, 24 * time.Hour, 31 * 24 * time.Hour})
	limit := core.Per(quota, window).Named(name)
	switch s.rand.IntN(12) {
	case 0:
		if s.rand.IntN(3) == 0 {
			limit = core.Per(pick(s.rand, []int64{300_000_007, 123_457, 86_399}), window).Named(name)
		}
	case 1:
		limit = limit.Burst(pick(s.rand, []int64{1, 3, 20, 5000}))
	case 2:
		if limit = limit.FixedWindow(); quota%2 == 1 {
			limit = limit.FromFirstUse()
		}
	case 3:
		limit = limit.SlidingWindow()
	case 4:
		limit = limit.SlidingWindow().Jitter()
	case 5:
		limit = limit.SlidingLog()
	case 6, 7:
		limit = pick(s.rand, modelCalendars)(quota).Named(name)
	case 8, 9:
		limit = core.Concurrent(quota).Lease(window).Named(name)
	case 10:
		limit = limit.LeakyBucket(pick(s.rand, waits))
	case 11:
		limit = limit.Burst(pick(s.rand, []int64{2, 50, 5000})).Wait(pick(s.rand, waits))
	}
	limit = owing(limit, quota)
	if s.rand.IntN(3) == 0 {
		limit = limit.OncePer(keyfuncs.Header("Idempotency-Key"), pick(s.rand, []time.Duration{time.Second, 1500 * time.Millisecond, time.Hour, 31 * 24 * time.Hour}))
		switch {
		case s.apart: // a repeat counts although another slot denies it
			limit = limit.Repeats(1000)
		case s.rand.IntN(2) == 0:
			limit = limit.Repeats(pick(s.rand, []int64{1, 2, 1000}))
		}
	}
	// A book takes no limits with penalties. And where keys are apart, a denial may count although
	// the account at another key is unknown: so it is either books or penalties there.
	if penalty := s.rand.IntN(3) == 0; penalty && (!s.apart || !s.books) {
		limit = limit.Penalty(s.randomBlock())
	}
	keep := func(r core.Rule) *core.Rule { return &r }
	if s.books && s.rand.IntN(3) > 0 {
		keep = inBook
	}
	r, err := limit.Rule()
	if err != nil {
		return s.randomRule(name) // some combinations are too large and are refused
	}
	delete(s.lower, name)
	if s.rand.IntN(3) == 0 {
		lower, err := LowerRules(limit, pick(s.rand, [][]float64{{0.1}, {0.5}, {0.9}, {0.2, 0.3}, {0.1, 0.1, 0.1, 0.6}})...)
		if err == nil { // a limit of one has nothing left to keep free
			for i := range lower {
				s.lower[name] = append(s.lower[name], keep(lower[i]))
			}
		}
	}
	return keep(r)
}

// owing chooses the debt of a limit by its quota: that of some is none, of others far above the burst, so that their records
// are wider, and most have the default.
func owing(limit core.Limit, quota int64) core.Limit {
	debts := map[int64]int64{1: 0, 2: 7, 5: 1, 10: 1 << 33, 60: 0, 97: 1000, 3_000_000_000: 1 << 40}
	debt, chosen := debts[quota]
	if !chosen {
		return limit
	}
	for _, debt := range []int64{debt, 40_000} { // a log's is bounded
		if _, err := limit.Debt(debt).Rule(); err == nil {
			return limit.Debt(debt)
		}
	}
	return limit
}

// checks returns one to four different checks.
func (s *sequence) checks() []core.Check {
	var checks []core.Check
	for _, i := range s.rand.Perm(len(keys) * len(names))[:1+s.rand.IntN(4)] {
		rule := s.rule(names[i%len(names)])
		cost := pick(s.rand, []int64{1, 1, 1, 2, 3, rule.Burst / 2, rule.Burst, rule.Burst + 1, 0})
		check := core.Check{Key: []byte(keys[i/len(names)]), Rule: rule, Cost: cost, Shadow: s.rand.IntN(8) == 0}
		s.operate(&check)
		if s.apart || s.rand.IntN(4) > 0 { // a store must not depend on it
			check.Account = new(store.Account)
		}
		checks = append(checks, check)
	}
	s.choose(checks)
	return fresh(checks)
}

// choose makes some of the checks alternatives. Where keys are apart, those of one key: others are asked in turn.
func (s *sequence) choose(checks []core.Check) {
	for i := 1; i < len(checks); i++ {
		c, before := &checks[i], &checks[i-1]
		if c.Rule.Penalized() || before.Rule.Penalized() || s.apart && !bytes.Equal(c.Key, before.Key) || s.rand.IntN(3) > 0 {
			continue
		}
		c.Or, c.Shadow = true, before.Shadow
	}
}

// operate gives most checks of a limit with OncePer an operation.
func (s *sequence) operate(c *core.Check) {
	if c.Rule.Once > 0 && s.rand.IntN(4) > 0 {
		c.Once = []byte(pick(s.rand, onces))
	}
}

func (s *sequence) decide(take bool) {
	s.Helper()
	checks := s.checks()
	got := make([]core.Result, len(checks))
	ask, verb := s.Peek, "peek"
	if take {
		ask, verb = s.Take, "take"
	}
	for _, c := range checks {
		s.log("%s %s %s (%s) cost %d shadow %v or %v once %q", verb, c.Key, c.Rule.Name, describe(c.Rule), c.Cost, c.Shadow, c.Or, c.Once)
	}
	if err := ask(context.Background(), checks, got); err != nil {
		s.Fatalf("%s: %v\n%s", verb, err, s.trace)
	}
	s.compare(verb, checks, answersOf(checks, got), func(checks []core.Check) []core.Result { return s.model.take(checks, s.Micros(), take) })
	for _, r := range got {
		if r.RetryAfter > 0 {
			s.wait = r.RetryAfter
		}
	}
	if s.rand.IntN(4) > 0 { // as a book does
		var unknown []core.Check
		for i, c := range checks {
			if got[i].Unknown {
				unknown = append(unknown, c)
			}
		}
		s.restoreAccounts(unknown)
	}
	if take && slices.ContainsFunc(got, func(r core.Result) bool { return r.Charged }) {
		s.charges = append(s.charges, charged{checks, append([]core.Result(nil), got...)})
	}
}

// decideTogether has many callers ask the same at once. Time stands still, so together
// they get the results that the model gives one after the other, in any order.
func (s *sequence) decideTogether() {
	s.Helper()
	const callers = 12
	checks := s.checks()
	if s.apart {
		checks = slices.DeleteFunc(checks, func(c core.Check) bool { return !bytes.Equal(c.Key, checks[0].Key) })
	}
	for _, c := range checks {
		s.log("%d times at once: take %s %s (%s) cost %d shadow %v or %v once %q", callers, c.Key, c.Rule.Name, describe(c.Rule), c.Cost, c.Shadow, c.Or, c.Once)
	}
	got := make([][]answer, callers)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			checks, results := fresh(checks), make([]core.Result, len(checks))
			errs[i] = s.Take(context.Background(), checks, results)
			got[i] = answersOf(checks, results)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		s.Fatalf("take: %v\n%s", err, s.trace)
	}
	for range callers {
		checks := fresh(checks)
		want := answersOf(checks, s.model.take(checks, s.Micros(), true))
		i := slices.IndexFunc(got, func(answers []answer) bool { return slices.Equal(answers, want) })
		if i < 0 { // no caller got this result; show one that was not expected
			s.same("take at once", checks, got[0], want)
		}
		got = slices.Delete(got, i, i+1)
	}
}

func (s *sequence) charge() {
	s.Helper()
	checks := s.checks()
	for _, c := range checks {
		s.log("charge %s %s (%s) cost %d", c.Key, c.Rule.Name, describe(c.Rule), c.Cost)
	}
	s.chargeAll(checks)
}

// chargeAll charges checks, in store and model.
func (s *sequence) chargeAll(checks []core.Check) {
	s.Helper()
	got := make([]core.Result, len(checks))
	if err := s.Charge(context.Background(), checks, got); err != nil {
		s.Fatalf("charge: %v\n%s", err, s.trace)
	}
	s.compare("charge", checks, answersOf(checks, got), func(checks []core.Check) []core.Result { return s.model.charge(checks, s.Micros()) })
}

func (s *sequence) giveBack() {
	s.Helper()
	if len(s.charges) == 0 {
		return
	}
	i := s.rand.IntN(len(s.charges))
	c := s.charges[i]
	s.charges = append(s.charges[:i], s.charges[i+1:]...)
	for j := range c.checks {
		s.update(&c.checks[j])
		s.log("refund %s %s cost %d of %d once %q", c.checks[j].Key, c.checks[j].Rule.Name, c.checks[j].Cost, c.results[j].At, c.checks[j].Once)
	}
	s.refundAll(fresh(c.checks), c.results)
}

// refundAll gives back what checks were charged, in store and model.
func (s *sequence) refundAll(checks []core.Check, results []core.Result) {
	s.Helper()
	before := slices.Clone(results)
	if err := s.Refund(context.Background(), checks, results); err != nil {
		s.Fatalf("refund: %v\n%s", err, s.trace)
	}
	s.compare("refund", checks, answersOf(checks, results), func(checks []core.Check) []core.Result {
		return s.model.refund(checks, before, s.Micros())
	})
}

// update gives the check of an earlier call the limit's current rule.
func (s *sequence) update(c *core.Check) {
	if c.Rule = s.rule(c.Rule.Name); c.Rule.Once == 0 {
		c.Once = nil
	}
}

func (s *sequence) renew() {
	s.Helper()
	if len(s.charges) == 0 {
		return
	}
	c := &s.charges[s.rand.IntN(len(s.charges))]
	for j := range c.checks {
		s.update(&c.checks[j])
		s.log("renew %s %s (%s) cost %d of %d", c.checks[j].Key, c.checks[j].Rule.Name, describe(c.checks[j].Rule), c.checks[j].Cost, c.results[j].At)
	}
	before := slices.Clone(c.results)
	c.checks = fresh(c.checks)
	if err := s.Renew(context.Background(), c.checks, c.results); err != nil {
		s.Fatalf("renew: %v\n%s", err, s.trace)
	}
	s.compare("renew", c.checks, answersOf(c.checks, c.results), func(checks []core.Check) []core.Result {
		return s.model.renew(checks, before, s.Micros())
	})
}

// compare compares what the store has answered with what the model does.
func (s *sequence) compare(verb string, checks []core.Check, got []answer, model func([]core.Check) []core.Result) {
	s.Helper()
	checks = fresh(checks)
	s.same(verb, checks, got, answersOf(checks, model(checks)))
}

func (s *sequence) same(verb string, checks []core.Check, got, want []answer) {
	s.Helper()
	for i := range got {
		if s.apart {
			s.model.catchUp(&checks[i], s.Micros(), got[i], &want[i])
		}
		if got[i] != want[i] {
			for _, line := range s.trace {
				s.Log(line)
			}
			s.Fatalf("%s %d of %d: %s, cost %d, key %s\n got %s at %d\nwant %s at %d", verb, i+1, len(checks), describe(checks[i].Rule), checks[i].Cost, checks[i].Key,
				got[i].show(), got[i].At, want[i].show(), want[i].At)
		}
	}
}

// lastMicros is the end of a sequence's time, in the year 2184. Waits can take centuries,
// and Redis does not represent times above 2^53 microseconds exactly.
const lastMicros = 3 << 51

// firstMicros is how far back a clock is set at most, to the year 2001.
const firstMicros = 1_000_000_000_000_000

// setBack sets the clock back, as that of a server can be after a failover: by a little, or by years.
func (s *sequence) setBack() {
	s.Helper()
	s.forget()
	d := time.Duration(s.rand.Int64N(int64(2 * span(s.rule(pick(s.rand, names))))))
	switch s.rand.IntN(4) {
	case 0:
		d = time.Duration(s.rand.Int64N(int64(time.Second)))
	case 1:
		d = time.Duration(s.rand.Int64N(int64(3 * 365 * 24 * time.Hour)))
	}
	d = min(d.Truncate(time.Microsecond), time.Duration(s.Micros()-firstMicros)*time.Microsecond)
	s.Advance(-d)
	s.log("set back by %v", d)
	if s.apart {
		s.forget() // marks that are ahead now, too: a repeat brings them back, even if another slot denies it
	}
}

// forget resets what is over, under whatever numbers it was counted.
func (s *sequence) forget() {
	s.Helper()
	all := core.PerHour(1).OncePer(keyfuncs.Header("Idempotency-Key"), time.Hour).Penalty(core.Block{After: 1, Within: time.Hour, For: time.Hour})
	for _, key := range keys {
		for _, name := range names {
			limit := core.Check{Key: []byte(key), Rule: rule(s, all.Named(name))}
			checks := []core.Check{}
			if s.model.isStale(name, key, s.Micros()) {
				checks = append(checks, limit)
			}
			for _, once := range onces {
				limit.Once = []byte(once)
				if mark, ok := s.model.marks[markKey(&limit)]; ok && (mark.until <= s.Micros() || s.apart && mark.at > s.Micros()) {
					checks = append(checks, limit)
				}
			}
			for _, check := range checks {
				s.log("forget %s %s once %q", key, name, check.Once)
				s.model.reset([]core.Check{check})
				delete(s.model.buckets, key+"|"+name)
				s.erase(check)
			}
		}
	}
}

// erase has a store drop what is stored of a limit, even if it is over. A reset alone leaves that.
func (s *sequence) erase(check core.Check) {
	s.Helper()
	check.Cost = 1
	checks := []core.Check{check}
	for _, err := range []error{
		s.Reset(context.Background(), checks), s.Take(context.Background(), checks, make([]core.Result, 1)), s.Reset(context.Background(), checks),
	} {
		if err != nil {
			s.Fatalf("erase: %v\n%s", err, s.trace)
		}
	}
}

// pass moves the clock, often to a time at which a rule changes its answer.
func (s *sequence) pass() {
	d := time.Duration(0)
	switch s.rand.IntN(6) {
	case 0:
		d = s.wait
	case 1:
		d = max(s.wait-time.Microsecond, 0)
	case 2:
		d = time.Duration(s.rand.Int64N(1000)) * time.Microsecond
	case 3:
		d = time.Duration(s.rand.Int64N(int64(2 * time.Second))).Truncate(time.Microsecond)
	case 4:
		w := span(s.rule(pick(s.rand, names)))
		d = time.Duration(s.rand.Int64N(int64(2 * w))).Truncate(time.Microsecond)
	case 5:
		d = span(s.rule(pick(s.rand, names)))
	}
	if s.Micros()+d.Microseconds() > lastMicros {
		d = 0
	}
	s.Advance(d)
	s.log("%v later", d)
}
