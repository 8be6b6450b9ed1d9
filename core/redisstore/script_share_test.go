package redisstore

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// Groups of a call share what they divide, and one that is decided at once counts as any other: so the answers and values are
// the same if each has a call of its own, and if it has a free check more, with which it is not decided at once.
func TestSharesAreDecidedTogetherAsOneByOne(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	for seed := range long.Rounds[uint64](3, 100) {
		random := rand.New(rand.NewPCG(seed, 5))
		prefixes := []string{redistest.Prefix(t) + "together:", redistest.Prefix(t) + "alone:", redistest.Prefix(t) + "slow:"}
		rules := shareRules(t, random)
		free := mustRule(core.PerHour(1).Named("free"))
		now := int64(1_790_000_000_000_000)
		before := now
		for round := range 60 {
			var jobs [3][]*job
			var asked [][]core.Check
			for range 1 + random.IntN(30) {
				check := shareCheck(random, rules)
				op := take
				if n := random.IntN(20); n < 5 {
					op = []operation{peek, charge, refund, reset, take}[n]
				}
				charged := core.Result{Charged: true, At: before, Standing: store.Standing(random.IntN(5))}
				if check.Share == nil || op == reset {
					charged.Standing = store.Undivided
				}
				checks := []core.Check{check, {Key: check.Key, Rule: &free}}
				for i := range jobs {
					j := newJob(op, 0)
					for k := range checks[:1+i/2] {
						j.add(k, &checks[k], before)
					}
					if check.Share != nil {
						j.addShare(&checks[0], &charged)
					}
					j.seal(prefixes[i])
					j.mergeable = false
					jobs[i] = append(jobs[i], j)
				}
				asked = append(asked, checks)
			}
			runBatch(t, client, now, jobs[0]...)
			for i := range asked {
				runBatch(t, client, now, jobs[1][i])
				runBatch(t, client, now, jobs[2][i])
			}
			for i := range asked {
				want := answersTo(t, jobs[0][i], asked[i][:1])
				for k := range jobs[1:] {
					if got := answersTo(t, jobs[k+1][i], asked[i][:k+1]); got != want {
						t.Fatalf("seed %d, round %d, group %d of %d, operation %d, %+v:\n%-10s %+v\n%-10s %+v", seed, round, i+1, len(asked), jobs[0][i].Op, asked[i][0].Rule, "together", want, prefixes[k+1], got)
					}
				}
			}
			want := allValues(t, client, prefixes[0])
			for _, prefix := range prefixes[1:] {
				if got := allValues(t, client, prefix); got != want {
					t.Fatalf("seed %d, round %d:\n%-10s %s\n%-10s %s", seed, round, "together", want, prefix, got)
				}
			}
			before = now
			now += random.Int64N(scriptStep.Microseconds())
		}
	}
}

// answersTo returns the first result of a job.
func answersTo(t *testing.T, j *job, checks []core.Check) core.Result {
	t.Helper()
	results := make([]core.Result, len(checks))
	if j.Op != reset {
		must.OK(t, j.readAnswer(checks, results))
	}
	return results[0]
}

// allValues returns all keys behind a prefix with what they hold.
func allValues(t *testing.T, client *redis.Client, prefix string) string {
	t.Helper()
	values := map[string]string{}
	keys := client.Scan(t.Context(), 0, prefix+"*", 1000).Iterator()
	for keys.Next(t.Context()) {
		values[strings.TrimPrefix(keys.Val(), prefix)] = client.Get(t.Context(), keys.Val()).Val()
	}
	must.OK(t, keys.Err())
	text := ""
	for _, key := range slices.Sorted(maps.Keys(values)) {
		text += fmt.Sprintf("\n%s: %q", key, values[key])
	}
	return text
}

func shareRules(t *testing.T, random *rand.Rand) (rules []core.Rule) {
	for _, name := range []string{"a", "b"} {
		quota := []int64{7, 64, 1000, 1 << 40}[random.IntN(4)]
		n := store.Numbers{Algorithm: store.TokenBucket, Quota: quota, Window: scriptStep, Divided: true}
		if random.IntN(2) == 0 {
			n.Guaranteed = quota / 4
		}
		rules = append(rules, must.Get(store.NewRule(name, n))(t))
	}
	return rules
}

func shareCheck(random *rand.Rand, rules []core.Rule) core.Check {
	r := &rules[random.IntN(len(rules))]
	c := core.Check{Key: []byte("all"), Rule: r, Cost: []int64{1, 1, r.Quota / 5, r.Quota / 2, r.Quota}[random.IntN(5)], Shadow: random.IntN(8) == 0}
	n := &store.Share{Key: []byte{byte('a' + random.IntN(4))}, Weight: 1 + random.Int64N(2)}
	switch random.IntN(8) {
	case 0:
		n.User = []byte{byte('a' + random.IntN(3))}
	case 1:
		n.Minimum = r.Guaranteed / 2
	case 2:
		n.Maximum = r.Quota / 2
	}
	if random.IntN(20) > 0 {
		c.Share = n
	}
	return c
}

// A bad value of a share fails its group as that of a bucket does, and no other one.
func TestABadShareFailsItsGroupOnly(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	rule := must.Get(store.NewRule("all", store.Numbers{Algorithm: store.TokenBucket, Quota: 100, Window: scriptStep, Divided: true}))(t)
	job := func(prefix, name string) *job {
		check := core.Check{Key: []byte("all"), Rule: &rule, Cost: 1, Share: &store.Share{Key: []byte(name), Weight: 1}}
		j := newJob(take, 0)
		j.add(0, &check, 0)
		j.addShare(&check, nil)
		j.seal(prefix)
		return j
	}
	for _, bad := range []string{"someone else's", "", "\x02", "\x02\xb0", "\x02\xb1", strings.Repeat("\x02", 51), strings.Repeat("x", 66)} {
		for key := 1; key < 3; key++ {
			prefix := redistest.Prefix(t)
			runBatch(t, client, 1_790_000_000_000_000, job(prefix, "bob"), job(prefix, "alice"))
			mine, theirs := job(prefix, "alice"), job(prefix, "bob")
			must.OK(t, client.Set(t.Context(), string(mine.Key(key)), bad, 0).Err())
			f := newBatch()
			f.jobs = append(f.jobs, mine, theirs)
			f.run(t.Context(), client, 1_790_000_000_000_000)
			if failed := bad != ""; failed != (mine.err != nil) || failed && !isAboutKey(classOf(mine.err)) {
				t.Errorf("key %d of a share holds %q: error %v", key, bad, mine.err)
			}
			if failed := key == 1 && bad != ""; failed != (theirs.err != nil) {
				t.Errorf("key %d of another client's share holds %q: error %v", key, bad, theirs.err)
			}
		}
	}
}
