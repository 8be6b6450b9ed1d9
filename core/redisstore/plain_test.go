package redisstore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore/internal/script"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// The script decides most takes of several token buckets by a short cut. With and without it,
// results and values are the same: of equal requests, under limits that change, beside other
// records, with a clock that jumps, and where somebody else has written to a value.
func TestPlainTakesAreDecidedLikeOthers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	const shortCut = "plain = operation > 63"
	longWay := strings.Replace(script.Source, "if plain then operation = operation - 64 end",
		"if plain then operation, plain = operation - 64, false end", 1)
	if longWay == script.Source || !strings.Contains(longWay, shortCut) {
		t.Fatal("the script does not take its short cut as this test expects")
	}
	sources := []invocation{{"eval", script.Source}, {"eval", longWay}}
	for seed := range long.Rounds[uint64](2, 100) {
		random := rand.New(rand.NewPCG(seed, 1))
		now, short, denied, all := int64(1_800_000_000_000_000), 0, 0, 0
		sets := [][]store.Rule{plainRules(t, random, 1), plainRules(t, random, 2), plainRules(t, random, 5), plainRules(t, random, 32)}
		other := mustRule(core.PerMinute(1000).FixedWindow().Named("other"))
		for step := range 500 {
			now += []int64{0, random.Int64N(1000), random.Int64N(1e6), random.Int64N(1e9), random.Int64N(4e13), -random.Int64N(1e11)}[random.IntN(30)%6]
			var asked [][]store.Check
			var ops []operation
			var charged []int64
			for range 1 + random.IntN(4) {
				n := random.IntN(len(sets))
				if random.IntN(20) == 0 { // new numbers
					sets[n] = slices.Clone(sets[n])
					changed := random.IntN(len(sets[n]))
					sets[n][changed] = plainRules(t, random, changed+1)[changed]
				}
				var checks []store.Check
				key := fmt.Appendf(nil, "k%d-%d", n, random.IntN(2))
				for i := range sets[n] {
					checks = append(checks, store.Check{Key: key, Rule: &sets[n][i], Cost: max(random.Int64N(4), 1)})
				}
				if random.IntN(20) == 0 {
					checks[0].Cost = 0
				}
				op := []operation{take, take, take, take, take, take, peek, charge, refund}[random.IntN(9)]
				switch random.IntN(30) {
				case 0:
					checks = append(checks, store.Check{Key: key, Rule: &other, Cost: 1})
				case 1:
					checks = checks[:1]
				case 2:
					op = reset
				}
				for range []int{1, 1, 1, 7}[random.IntN(4)] {
					asked, ops, charged = append(asked, checks), append(ops, op), append(charged, now-random.Int64N(1e6))
				}
			}
			if random.IntN(20) == 0 {
				spoil(t, client, random, fmt.Sprintf("{k%d-%d}", random.IntN(len(sets)), random.IntN(2)))
			}
			notice := uint8(random.IntN(20) / 10 * 3)
			var results [2][]store.Result
			var states [2][]string // whether jobs are granted or denied
			var failed [2]bool     // a value can't be read
			for side, by := range sources {
				b := newBatch()
				b.clock = now
				for n, checks := range asked {
					j := newJob(ops[n], 0)
					for i := range checks {
						j.add(i, &checks[i], charged[n])
					}
					j.Notice = notice
					j.seal([]string{"short:", "long:"}[side])
					b.jobs = append(b.jobs, j)
				}
				b.assemble()
				b.send(t.Context(), client, b.calls, by)
				for i := range b.calls {
					b.calls[i].read()
				}
				for n, j := range b.jobs {
					g := &b.groups[j.group]
					if j.at, j.reply = g.at, g.reply; g.err != nil {
						failed[side] = true
						continue
					}
					of := make([]store.Result, len(asked[n]))
					must.OK(t, j.readAnswer(asked[n], of))
					results[side] = append(results[side], of...)
					states[side] = append(states[side], fmt.Sprint(j.granted, j.denial))
					switch whole, granted := j.IsWhole(j.reply); {
					case whole && side == 1:
						t.Fatal("the long way decided a take at once")
					case granted:
						short++
					case whole:
						denied++
					}
				}
				all += len(b.jobs)
			}
			if failed[0] != failed[1] {
				t.Fatalf("seed %d, step %d: failed, and the long way: %v", seed, step, failed)
			}
			if failed[0] {
				redistest.Prepare(t, client, func(p redis.Pipeliner) {
					for n := range sets {
						p.Del(t.Context(), fmt.Sprintf("short:{k%d-0}", n), fmt.Sprintf("short:{k%d-1}", n), fmt.Sprintf("long:{k%d-0}", n), fmt.Sprintf("long:{k%d-1}", n))
					}
				})
				continue
			}
			if !slices.Equal(results[0], results[1]) || !slices.Equal(states[0], states[1]) {
				t.Fatalf("seed %d, step %d: results of %v\n%+v %v\nand the long way\n%+v %v", seed, step, ops, results[0], states[0], results[1], states[1])
			}
			for n := range sets {
				for i := range 2 {
					key := fmt.Sprintf("{k%d-%d}", n, i)
					a, b := client.Get(t.Context(), "short:"+key).Val(), client.Get(t.Context(), "long:"+key).Val()
					x, y := client.PTTL(t.Context(), "short:"+key).Val(), client.PTTL(t.Context(), "long:"+key).Val()
					if a != b || (x-y).Abs() > time.Minute {
						t.Fatalf("seed %d, step %d: %s holds for %v\n% x\nand the long way for %v\n% x", seed, step, key, x, a, y, b)
					}
				}
			}
		}
		if short < 100 || denied < 5 {
			t.Errorf("seed %d: %d of %d jobs were granted at once, and %d denied", seed, short, all/2, denied)
		}
	}
}

// spoil writes a byte into the value of a key, the same with and without the short cut.
func spoil(t *testing.T, client *redis.Client, random *rand.Rand, key string) {
	t.Helper()
	length := client.StrLen(t.Context(), "short:"+key).Val()
	if length < 2 {
		return
	}
	at, garbage := 1+random.Int64N(length-1), string([]byte{byte(random.IntN(256))})
	for _, prefix := range []string{"short:", "long:"} {
		must.OK(t, client.SetRange(t.Context(), prefix+key, at, garbage).Err())
	}
}

// A value of a later version is refused whatever is asked of it.
func TestPlainTakesRefuseAnUnknownVersion(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t).Client(t), redistest.Prefix(t)
	rules := []store.Rule{mustRule(core.PerHour(1000).Named("hour")), mustRule(core.PerDay(9000).Named("day"))}
	for _, want := range []bool{true, false} {
		j, b := newJob(take, 0), newBatch()
		for i := range rules {
			j.add(i, &store.Check{Key: []byte("k"), Rule: &rules[i], Cost: 1}, 0)
		}
		j.seal(prefix)
		b.jobs = append(b.jobs, j)
		b.run(t.Context(), client, 0)
		if (j.err == nil) != want {
			t.Errorf("%v, want success %t", j.err, want)
		}
		must.OK(t, client.SetRange(t.Context(), prefix+"{k}", 0, "\x03").Err())
	}
}

// plainRules returns token buckets of all ticks and rates.
func plainRules(t *testing.T, random *rand.Rand, n int) (rules []store.Rule) {
	t.Helper()
	for i := range n {
		l := []core.Limit{
			core.PerHour(1000), core.PerHour(20), core.Per(200, 365*24*time.Hour), core.PerHour(997), core.PerHour(991), core.PerSecond(60).Burst(70), core.PerMinute(130),
			core.Per(99_991, 30*24*time.Hour), core.Per(1_000_003, 365*24*time.Hour), core.PerSecond(1_000_003),
		}[random.IntN(10)]
		rules = append(rules, mustRule(l.Named(fmt.Sprint("limit", i))))
	}
	return rules
}
