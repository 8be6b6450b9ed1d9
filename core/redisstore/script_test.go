package redisstore

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore/internal/script"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
)

// The script has a short path for a call of one group of one key, and the groups of a
// larger call share keys and what is parsed. The answers must be the same.
func TestGroupsAreDecidedTogetherAsOneByOne(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	for seed := range long.Rounds[uint64](2, 50) {
		together, oneByOne := redistest.Prefix(t), redistest.Prefix(t)+"alone:"
		random := rand.New(rand.NewPCG(seed, 2))
		rules := scriptRules(random)
		now := int64(1_790_000_000_000_000)
		before := now
		for round := range 60 {
			if random.IntN(8) == 0 {
				rules[random.IntN(len(rules))] = scriptRules(random)[0] // under a name that another rule may have, too
			}
			var a, b []*job
			var asked [][]core.Check
			for range 1 + random.IntN(100) {
				op := operation(random.IntN(6)) + take
				checks := scriptChecks(random, rules)
				pa, pb := newJob(op, 0), newJob(op, 0)
				charged := now - random.Int64N(2*scriptStep.Microseconds())
				if random.IntN(2) == 0 {
					charged = before
				}
				for i := range checks {
					if checks[i].Once != nil && op != charge && op != renew {
						pa.addMark(i, &checks[i], charged)
						pb.addMark(i, &checks[i], charged)
					}
				}
				for i := range checks {
					pa.add(i, &checks[i], charged)
					pb.add(i, &checks[i], charged)
				}
				pa.seal(together)
				pb.seal(oneByOne)
				pa.mergeable = false // or it would be merged with equal jobs, and decided before others
				a, b, asked = append(a, pa), append(b, pb), append(asked, checks)
			}
			runBatch(t, client, now, a...)
			for _, p := range b {
				runBatch(t, client, now, p)
			}
			for i := range a {
				got, want := make([]core.Result, len(asked[i])), make([]core.Result, len(asked[i]))
				if a[i].Op != reset {
					must.OK(t, errors.Join(a[i].readAnswer(asked[i], got), b[i].readAnswer(asked[i], want)))
				}
				for j := range got {
					if got[j] != want[j] {
						t.Fatalf("seed %d, round %d, group %d of %d, operation %d, %+v:\ntogether   %+v\none by one %+v", seed, round, i+1, len(a), a[i].Op, asked[i][j].Rule, got[j], want[j])
					}
				}
			}
			for key := range scriptTags {
				name := "{" + scriptTags[key] + "}"
				got, want := valuesOf(t, client, together, name), valuesOf(t, client, oneByOne, name)
				if got != want {
					t.Fatalf("seed %d, round %d, key %s:\ntogether   %q\none by one %q", seed, round, name, got, want)
				}
			}
			before = now
			now += random.Int64N(3 * scriptStep.Microseconds())
		}
	}
}

// A bad value must neither fail the other groups of its call nor charge them twice.
func TestABadValueFailsItsGroupOnly(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t).Client(t), redistest.Prefix(t)
	redistest.Prepare(t, client, func(p redis.Pipeliner) {
		p.LPush(t.Context(), prefix+"{list}", "x")
		p.Set(t.Context(), prefix+"{string}", "someone else's", 0)
		p.Set(t.Context(), prefix+"{short}", "\x01\x00", 0)
	})
	for _, bad := range []string{"list", "string", "short"} {
		rule := mustRule(core.PerHour(10).Named("hourly"))
		other := mustRule(core.PerHour(20).FixedWindow().Named("other"))
		var ps []*job
		for _, keys := range [][]string{{bad + "1"}, {bad}, {bad + "2", bad}, {bad + "1", bad + "2"}} {
			p := newJob(take, 0)
			for i := range keys {
				p.add(2*i, &core.Check{Key: []byte(keys[i]), Rule: &rule, Cost: 1}, 0)
				p.add(2*i+1, &core.Check{Key: []byte(keys[i]), Rule: &other, Cost: 1}, 0)
			}
			p.seal(prefix)
			ps = append(ps, p)
		}
		f := newBatch()
		f.jobs = ps
		f.run(t.Context(), client, 0)
		for i, p := range ps {
			if failed := i == 1 || i == 2; failed != (p.err != nil) || failed && !isAboutKey(classOf(p.err)) {
				t.Errorf("a %s, group %d: error %v", bad, i+1, p.err)
			}
		}
		for key, want := range map[string]int64{bad + "1": 8, bad + "2": 9} {
			checks, results := []core.Check{{Key: []byte(key), Rule: &rule}}, make([]core.Result, 1)
			if err := New(client, Config{Prefix: prefix}).Peek(t.Context(), checks, results); err != nil || results[0].Remaining != want {
				t.Errorf("beside a %s: %d of %s remain, want %d: %v", bad, results[0].Remaining, key, want, err)
			}
		}
	}
}

// valuesOf returns the value of a client key, and its marks.
func valuesOf(t *testing.T, client *redis.Client, prefix, name string) string {
	t.Helper()
	values := client.Get(t.Context(), prefix+name).Val()
	for _, rule := range scriptNames {
		r := mustRule(core.PerHour(1).Named(rule))
		for _, once := range scriptOnces {
			check := core.Check{Key: []byte(name[1 : len(name)-1]), Rule: &r, Once: []byte(once)}
			if value := client.Get(t.Context(), string(script.AppendMarkKey(nil, prefix, &check))).Val(); value != "" {
				values += " " + rule + "/" + once + ": " + value
			}
		}
	}
	return values
}

func runBatch(t *testing.T, client *redis.Client, now int64, ps ...*job) {
	t.Helper()
	f := newBatch()
	f.jobs = append(f.jobs, ps...)
	f.run(t.Context(), client, now)
	for _, p := range ps {
		if p.err != nil {
			t.Fatal(p.err)
		}
	}
	f.release()
}

var (
	scriptTags  = []string{"user:alice", "ip:192.0.2.7", "all"}
	scriptNames = []string{"n", "nn", "nnn", "nnnn"}
	scriptOnces = []string{"op-1", "op-2"}
)

// scriptStep is a second of the clock that these tests set. It is long by that of Redis, whose keys expire by its own: they
// must not while a test's processes are stopped.
const scriptStep = 100 * time.Second

// scriptRules returns rules of limits, some of which share a name with other numbers.
func scriptRules(random *rand.Rand) []core.Rule {
	var rules []core.Rule
	for range 5 {
		limit := core.Per([]int64{1, 3, 60, 97, 1000, 70_001}[random.IntN(6)], []time.Duration{scriptStep, 3 * scriptStep / 2, 36 * scriptStep}[random.IntN(3)])
		switch random.IntN(6) {
		case 0:
			limit = limit.FixedWindow()
		case 1:
			limit = limit.SlidingWindow().Jitter()
		case 2:
			limit = core.Per(7, scriptStep).SlidingLog()
		case 3:
			limit = core.Per([]int64{1 << 31, 3_000_000_000, 5_000_000_000}[random.IntN(3)], time.Hour).FixedWindow()
		case 4:
			limit = core.Concurrent([]int64{1, 3, 60}[random.IntN(3)]).Lease(2 * scriptStep)
		case 5:
			limit = limit.OncePer(keyfuncs.Header("Idempotency-Key"), 2*scriptStep)
		}
		if random.IntN(3) == 0 {
			limit = limit.Penalty(core.Block{After: 1 + random.Int64N(3), Within: scriptStep, For: scriptStep / 2, Max: 2 * scriptStep})
		}
		rules = append(rules, mustRule(limit.Named(scriptNames[random.IntN(len(scriptNames))])))
	}
	return rules
}

func scriptChecks(random *rand.Rand, rules []core.Rule) []core.Check {
	var checks []core.Check
	for range 1 + random.IntN(5) {
		c := core.Check{Key: []byte(scriptTags[random.IntN(len(scriptTags))]), Rule: &rules[random.IntN(len(rules))], Cost: random.Int64N(4), Shadow: random.IntN(6) == 0}
		if c.Rule.Once > 0 && random.IntN(4) > 0 {
			c.Once = []byte(scriptOnces[random.IntN(len(scriptOnces))])
		}
		if counting.ValidChecks(append(checks, c), make([]core.Result, len(checks)+1)) == nil {
			checks = append(checks, c)
		}
	}
	return checks
}
