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
	"github.com/weblimit/weblimit/internal/test/long"
)

// Fair runs what stores pass that have limits which clients divide: random sequences, whose results are those of the model,
// and others in which what users are promised is looked at by itself.
func Fair(t *testing.T, newStore Factory) {
	sequences := rounds(12, 500)
	runFair(t, newStore, sequences)
	runPromises(t, newStore, sequences)
}

func runFair(t *testing.T, newStore Factory, sequences uint64) {
	steps := long.Rounds(300, 600)
	for seed := range seeds(sequences) {
		t.Run(fmt.Sprintf("random sequence %d of limits that clients divide answers as the model does", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 3))
			s := &fairSequence{sequence: &sequence{rig: newRig(t, newStore), model: newModel(), rand: random, rules: map[string]*core.Rule{}, lower: map[string][]*core.Rule{}}}
			for _, name := range fairNames {
				s.change(name)
			}
			for range steps {
				s.step()
			}
		})
	}
}

// fairSequence is a random sequence of operations under limits, most of which clients divide.
type fairSequence struct {
	*sequence
	shares map[string]store.Share // by limit and client
}

var (
	fairNames   = []string{"all", "other", "plain"}
	fairKeys    = []string{"everyone", "tenant:7"}
	fairClients = []string{"alice", "bob", "carol", "dave", "erin"}
	fairUsers   = []string{"", "", "u1", "u2", "u3"}
)

func (s *fairSequence) step() {
	s.Helper()
	switch n := s.rand.IntN(100); {
	case n < 3:
		s.charge()
	case n < 58:
		s.decide(true)
	case n < 63:
		s.decide(false)
	case n < 72:
		s.giveBack()
	case n < 74:
		s.reset()
	case n < 75:
		s.changeBlocks(s.rand, s.all(), fairKeys)
	case n < 78:
		s.rescale(pick(s.rand, fairNames))
	case n < 79:
		s.change(pick(s.rand, fairNames))
	case n < 81:
		s.setBack()
	default:
		s.pass()
	}
}

func (s *fairSequence) all() (rules []*core.Rule) {
	for _, name := range fairNames {
		rules = append(rules, s.rules[name])
	}
	return rules
}

// change gives a limit other numbers.
func (s *fairSequence) change(name string) {
	s.Helper()
	quota := pick(s.rand, []int64{1, 2, 7, 10, 60, 97, 1000, 4999, 1_000_000_007, 1<<40 - 1, 1 << 40})
	n := store.Numbers{
		Algorithm: store.TokenBucket, Quota: quota, Divided: true,
		Window: pick(s.rand, []time.Duration{time.Millisecond, 13 * time.Millisecond, time.Second, time.Second, 5003 * time.Millisecond, time.Minute, time.Hour, 10 * 365 * 24 * time.Hour}),
	}
	switch s.rand.IntN(4) {
	case 0:
		n.Burst = max(quota/2, 1)
	case 1:
		n.Burst = quota * pick(s.rand, []int64{2, 10, 1024})
	}
	n.Whole = n.Burst
	if s.rand.IntN(2) == 0 {
		n.Guaranteed = s.rand.Int64N(max(min(quota, n.Burst), 1))
	}
	if s.rand.IntN(4) == 0 {
		n.HasDebt, n.Debt = true, pick(s.rand, []int64{0, 1, quota, 1 << 30, 1 << 41})
	}
	if s.rand.IntN(3) == 0 {
		n.Once, n.Repeats = pick(s.rand, []time.Duration{time.Second, time.Hour}), pick(s.rand, []int64{1, 3})
	}
	if s.rand.IntN(6) == 0 && n.Burst > 1 {
		n.Burst -= n.Burst / 4 // a class of requests that may not use all
	}
	if name == "plain" {
		n.Divided, n.Guaranteed = false, 0
		if s.rand.IntN(2) == 0 { // then a store may look at all checks twice
			n.Block = core.Block{After: 1 + s.rand.Int64N(3), Within: time.Minute, For: time.Second}
		}
	}
	r, err := store.NewRule(name, n)
	if err != nil {
		s.change(name)
		return
	}
	s.rules[name] = &r
	s.log("change %s to %s", name, describeFair(&r))
}

// rescale changes a quota as core.Limit.Scale does.
func (s *fairSequence) rescale(name string) {
	n := s.rules[name].Numbers
	factor := pick(s.rand, []int64{1, 3, 7, 12})
	n.Quota, n.Burst = max(n.Quota*factor/8, 1), max(n.Burst*factor/8, 1)
	n.Whole, n.Guaranteed, n.Debt, n.HasDebt = n.Burst, min(n.Guaranteed*factor/8, n.Burst-1), 0, false
	if r, err := store.NewRule(name, n); err == nil {
		s.rules[name] = &r
		s.log("scale %s to %s", name, describeFair(&r))
	}
}

func describeFair(r *core.Rule) string {
	return fmt.Sprintf("%s, whole %d, divided %v, guaranteed %d, once %v", describe(r), r.Whole, r.Divided, r.Guaranteed, r.Once)
}

// check returns a check of a limit, with a client if clients divide it, of some cost.
func (s *fairSequence) check(name, key string) core.Check {
	r := s.rules[name]
	c := core.Check{Key: []byte(key), Rule: r, Shadow: s.rand.IntN(8) == 0}
	c.Cost = pick(s.rand, []int64{1, 1, 1, 2, r.Quota / 7, r.Quota / 3, r.Burst / 2, r.Burst, r.Burst + 1, 0, 1 << 50})
	s.operate(&c)
	if r.Divided && s.rand.IntN(20) > 0 {
		n := s.share(r, pick(s.rand, fairClients))
		if user := pick(s.rand, fairUsers); user != "" {
			n.User = []byte(user)
		}
		c.Share = &n
	}
	return c
}

// share returns the share of a client, which changes now and then.
func (s *fairSequence) share(r *core.Rule, client string) store.Share {
	name := r.Name + "|" + client
	n, known := s.shares[name]
	if !known || s.rand.IntN(100) == 0 {
		n = store.Share{Key: []byte(client), Weight: pick(s.rand, []int64{1, 1, 1, 2, 7, store.MaxWeight})}
		if s.rand.IntN(2) == 0 {
			n.Minimum = s.rand.Int64N(r.Guaranteed + 1)
		}
		if s.rand.IntN(4) == 0 {
			n.Maximum = pick(s.rand, []int64{1, r.Quota, store.AllParts, 1 + s.rand.Int64N(r.Quota)})
		}
		if s.shares == nil {
			s.shares = map[string]store.Share{}
		}
		s.shares[name] = n
	}
	n.Minimum = min(n.Minimum, r.Guaranteed)
	return n
}

// checks returns one to three checks.
func (s *fairSequence) checks() (checks []core.Check) {
	for _, i := range s.rand.Perm(len(fairNames) * len(fairKeys))[:1+s.rand.IntN(3)] {
		checks = append(checks, s.check(fairNames[i/len(fairKeys)], fairKeys[i%len(fairKeys)]))
	}
	return checks
}

func (s *fairSequence) logAll(verb string, checks []core.Check) {
	for i := range checks {
		c := &checks[i]
		share := ""
		if n := c.Share; n != nil {
			share = fmt.Sprintf(" for %s/%s weight %d minimum %d maximum %d", n.Key, n.User, n.Weight, n.Minimum, n.Maximum)
		}
		s.log("%s %s %s cost %d shadow %v once %q%s", verb, c.Key, c.Rule.Name, c.Cost, c.Shadow, c.Once, share)
	}
}

func (s *fairSequence) decide(take bool) {
	s.Helper()
	s.decideAll(s.checks(), take)
}

func (s *fairSequence) decideAll(checks []core.Check, take bool) {
	s.Helper()
	got := make([]core.Result, len(checks))
	ask, verb := s.Peek, "peek"
	if take {
		ask, verb = s.Take, "take"
	}
	s.logAll(verb, checks)
	if err := ask(context.Background(), checks, got); err != nil {
		s.Fatalf("%s: %v\n%s", verb, err, s.trace)
	}
	s.compare(verb, checks, answersOf(checks, got), func(checks []core.Check) []core.Result { return s.model.take(checks, s.Micros(), take) })
	for _, r := range got {
		if r.RetryAfter > 0 {
			s.wait = r.RetryAfter
		}
	}
	if take && slices.ContainsFunc(got, func(r core.Result) bool { return r.Charged }) {
		s.charges = append(s.charges, charged{checks, slices.Clone(got)})
	}
}

func (s *fairSequence) charge() {
	s.Helper()
	checks := s.checks()
	s.logAll("charge", checks)
	s.chargeAll(checks)
}

// giveBack refunds a charge of before, or a part of it: then it can be refunded once more.
func (s *fairSequence) giveBack() {
	s.Helper()
	if len(s.charges) == 0 {
		return
	}
	i := s.rand.IntN(len(s.charges))
	c := s.charges[i]
	checks, results := slices.Clone(c.checks), slices.Clone(c.results)
	part := s.rand.IntN(3) == 0
	if !part {
		s.charges = slices.Delete(s.charges, i, i+1)
	}
	for j := range checks {
		k := &checks[j]
		s.update(k)
		if k.Share = s.known(k.Rule, k.Share); part {
			k.Cost, k.Once = k.Cost/2, nil
		}
	}
	s.logAll("refund", checks)
	s.refundAll(checks, results)
}

// known returns the share of an earlier call as it can be under the limit's numbers of now.
func (s *fairSequence) known(r *core.Rule, n *store.Share) *store.Share {
	if n == nil || !r.Divided {
		return nil
	}
	now := *n
	now.Minimum = min(now.Minimum, r.Guaranteed)
	return &now
}

func (s *fairSequence) reset() {
	s.Helper()
	c := s.check(pick(s.rand, fairNames), pick(s.rand, fairKeys))
	s.logAll("reset", []core.Check{c})
	if err := s.Reset(context.Background(), []core.Check{c}); err != nil {
		s.Fatalf("reset: %v\n%s", err, s.trace)
	}
	s.model.reset([]core.Check{c})
}
