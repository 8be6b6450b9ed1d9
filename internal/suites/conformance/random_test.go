package conformance

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

// number returns a number of any magnitude from 1 to most.
func number(r *rand.Rand, most int64) int64 {
	return 1 + r.Int64N(max(most>>r.IntN(63), 1))
}

func randomName(r *rand.Rand) string {
	name := make([]byte, 1+r.IntN(64))
	for i := range name {
		name[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(name)
}

// randomLimit returns a limit that core accepts, and its rule.
func randomLimit(r *rand.Rand) (core.Limit, core.Rule) {
	for {
		window := time.Duration(number(r, 100*365*24*3600)) * time.Second
		if r.IntN(3) == 0 {
			window = time.Duration(number(r, 1e9)) * time.Microsecond
		}
		limit := core.Per(number(r, 1<<52), window).Named(randomName(r)).By(keyfuncs.Everyone())
		switch r.IntN(5) {
		case 0:
			limit = limit.FixedWindow()
		case 1:
			limit = limit.SlidingWindow()
		case 2:
			limit = limit.SlidingLog()
		case 3:
			limit = limit.Burst(number(r, 1<<52))
		}
		if rule, err := limit.Rule(); err == nil {
			return limit, rule
		}
	}
}

func randomLimits(r *rand.Rand) (limits []core.Limit, rules []core.Rule) {
	for range 1 + r.IntN(6) {
		limit, rule := randomLimit(r)
		limits, rules = append(limits, limit), append(rules, rule)
	}
	return limits, rules
}

// randomResult returns any result that a store may give under a rule.
func randomResult(r *rand.Rand, rule *core.Rule) core.Result {
	result := core.Result{
		Allowed:   r.IntN(3) > 0,
		Remaining: number(r, rule.Burst+1) - 1,
		Window:    time.Duration(number(r, math.MaxInt64/2)),
	}
	if !result.Allowed && r.IntN(3) > 0 {
		result.RetryAfter = time.Duration(number(r, math.MaxInt64/2))
		result.Window = result.RetryAfter
	}
	return result
}

// Whatever a store answers, its fields are well-formed and say so.
func TestRandomAnswers(t *testing.T) {
	t.Parallel()
	for seed := range long.Rounds[uint64](500, 20_000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			limits, rules := randomLimits(r)
			store := &scripted{Store: core.NewMemory()}
			for i := range rules {
				store.results = append(store.results, randomResult(r, &rules[i]))
			}
			l := must.Get(core.New(core.Config{Store: store, Limits: limits}))(t)
			checkRead(t, rules, l.AllowKey(context.Background(), "k", 1))
		})
	}
}

// The same with the memory store while time passes.
func TestRandomRequests(t *testing.T) {
	t.Parallel()
	for seed := range long.Rounds[uint64](50, 2000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 2))
				limits, rules := randomLimits(r)
				l := must.Get(core.New(core.Config{Store: core.NewMemory(), Limits: limits}))(t)
				smallest := rules[0].Burst
				for i := range rules {
					smallest = min(smallest, rules[i].Burst)
				}
				for range 50 {
					checkRead(t, rules, l.AllowKey(t.Context(), "k", r.Int64N(smallest+2)))
					time.Sleep(time.Duration(number(r, int64(rules[0].Window))))
				}
			})
		})
	}
}

// The same with limits in shadow mode and limits with tiers: clients read the enforced
// limits only, with the numbers of the request's tier.
func TestRandomTiersAndShadows(t *testing.T) {
	t.Parallel()
	type tierKey int // which of the limits
	for seed := range uint64(500) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 3))
				limits, rules := randomLimits(r)
				shadow, tiered := make([]bool, len(limits)), make([]bool, len(limits))
				for i := range limits {
					if shadow[i] = r.IntN(3) == 0; shadow[i] {
						limits[i] = limits[i].Shadow()
					}
					limits[i] = limits[i].CostBy(func(keyfuncs.Request) int64 { return r.Int64N(3) })
					if tiered[i] = r.IntN(3) > 0; tiered[i] {
						limits[i] = limits[i].Tiers(func(r keyfuncs.Request) core.Limit {
							tier, _ := r.Value(tierKey(i)).(core.Limit)
							return tier
						})
					}
				}
				l := must.Get(core.New(core.Config{Store: core.NewMemory(), Limits: limits}))(t)
				for range 50 {
					var told []core.Rule
					values := map[any]any{}
					for i, rule := range rules {
						if tiered[i] && r.IntN(3) > 0 {
							tier, numbers := randomLimit(r)
							values[tierKey(i)] = tier
							numbers.Name = rule.Name
							rule = numbers
						}
						if !shadow[i] {
							told = append(told, rule)
						}
					}
					d := l.Allow(request{values})
					enforced := slices.DeleteFunc(slices.Clone(d.Results()), func(r core.LimitResult) bool { return r.Shadow })
					if len(told) == 0 {
						h := http.Header{}
						if d.SetHeaders(h); len(h) > 0 || !d.Allowed {
							t.Fatalf("limits in shadow mode tell clients %q", h)
						}
					} else {
						checkResults(t, told, enforced, d)
					}
					time.Sleep(time.Duration(number(r, int64(24*time.Hour))))
				}
			})
		})
	}
}

// With arbitrary names and numbers, either core refuses them or the fields are well-formed
// and have them.
func FuzzFields(f *testing.F) {
	f.Add("burst", int64(100), int64(60_000_000), int64(100), byte(store.TokenBucket), int64(50), int64(30), int64(0), true)
	f.Add("daily", int64(1000), int64(86_400_000_000), int64(1000), byte(store.FixedWindow), int64(0), int64(79488), int64(79488), false)
	f.Add("a\";q=1, \"b", int64(1), int64(1000), int64(1), byte(store.SlidingLog), int64(0), int64(1), int64(1), false)
	f.Add("", int64(0), int64(0), int64(0), byte(0), int64(0), int64(0), int64(0), false)
	f.Add("odd", int64(7), int64(1_500_000), int64(8), byte(store.TokenBucket), int64(8), int64(math.MaxInt64), int64(0), true)
	f.Add("huge", int64(1<<51), int64(1_000_000), int64(1<<51), byte(store.SlidingWindow), int64(1<<51), int64(1), int64(0), true)
	f.Fuzz(func(t *testing.T, name string, quota, micros, burst int64, algorithm byte, remaining, window, retry int64, allowed bool) {
		if micros > math.MaxInt64/1000 || micros < math.MinInt64/1000 {
			return
		}
		limit := core.Per(quota, time.Duration(micros)*time.Microsecond).Named(name).By(keyfuncs.Everyone())
		switch store.Algorithm(algorithm) {
		case store.TokenBucket:
			limit = limit.Burst(burst)
		case store.FixedWindow:
			limit = limit.FixedWindow()
		case store.SlidingWindow:
			limit = limit.SlidingWindow()
		case store.SlidingLog:
			limit = limit.SlidingLog()
		}
		rule, err := limit.Rule()
		if err != nil {
			return
		}
		// What a store may answer. No time comes near the longest.
		const longest = math.MaxInt64 - int64(time.Second)
		result := core.Result{
			Allowed:   allowed,
			Remaining: min(max(remaining, 0), rule.Burst),
			Window:    time.Duration(min(max(window, 0), longest)),
		}
		if !allowed {
			result.RetryAfter = time.Duration(min(max(retry, 0), longest))
		}
		store := &scripted{Store: core.NewMemory(), results: []core.Result{result}}
		l, err := core.New(core.Config{Store: store, Limits: []core.Limit{limit}})
		if err != nil {
			t.Fatalf("New refuses what Rule does not: %v", err)
		}
		checkRead(t, []core.Rule{rule}, l.AllowKey(context.Background(), "k", 1))
	})
}
