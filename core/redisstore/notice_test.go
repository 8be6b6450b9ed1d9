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
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// twins are two keys on which the same is done, by takes that leave notices and by takes that
// don't. Their answers must not differ.
type twins struct {
	t      *testing.T
	client sender
	rand   *rand.Rand
	now    int64
	last   []core.Result // of the last take
	checks []core.Check
}

// ask does what is asked on both keys, and compares the answers.
func (w *twins) ask(what string, build func() *job) *job {
	w.t.Helper()
	var replies [2]string
	var first *job
	for i, notice := range []uint8{0, 1 + uint8(w.rand.IntN(12))} {
		j := build()
		j.Notice = notice
		j.seal([]string{"a:", "b:"}[i])
		b := newBatch()
		b.jobs = append(b.jobs, j)
		b.run(w.t.Context(), w.client, w.now)
		if j.err != nil {
			w.t.Fatalf("%s: %v", what, j.err)
		}
		replies[i] = j.reply
		if i == 0 {
			first = j
		}
	}
	if replies[0] != replies[1] {
		w.t.Fatalf("%s at %d: answered %x, and with notices %x", what, w.now, replies[0], replies[1])
	}
	return first
}

// A notice changes no answer: whatever is asked of a key, with holds, converted records and a
// clock that jumps ahead.
func TestANoticeChangesNoAnswer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	limits := func(quota int64) (rules []core.Rule) {
		for name, l := range map[string]core.Limit{
			"bucket": core.Per(quota, time.Second), "fixed": core.Per(quota, time.Second).FixedWindow(),
			"sliding": core.Per(quota, time.Second).SlidingWindow(), "log": core.Per(quota, time.Second).SlidingLog(),
			"month": core.PerMonth(quota, time.UTC), "slots": core.Concurrent(quota).Lease(time.Second),
			"blocked": core.Per(quota, time.Second).Penalty(core.Block{After: 2, Within: time.Second, For: time.Second}),
		} {
			rules = append(rules, mustRule(l.Named(name)))
		}
		slices.SortFunc(rules, func(a, b core.Rule) int { return strings.Compare(a.Name, b.Name) })
		return rules
	}
	small, large := limits(3), limits(5)
	for seed := range long.Rounds[uint64](5, 200) {
		w := &twins{t: t, client: withoutRetries(server.Client(t)), rand: rand.New(rand.NewPCG(seed, 1)), now: 1.7e15}
		for step := range 200 {
			w.step(fmt.Sprintf("seed %d, step %d", seed, step), small, large)
		}
		redistest.Prepare(t, server.Client(t), func(p redis.Pipeliner) { p.FlushAll(t.Context()) }) // a server of this test's own
	}
}

func (w *twins) step(what string, small, large []core.Rule) {
	w.t.Helper()
	w.now += w.rand.Int64N(300_000)
	if w.rand.IntN(50) == 0 {
		w.now += w.rand.Int64N(20_000_000) // not back: records that have expired would count again in one of the two
	}
	rules := small
	if w.rand.IntN(20) == 0 {
		rules = large
	}
	var checks []core.Check
	for i := range rules {
		if w.rand.IntN(3) == 0 {
			checks = append(checks, core.Check{
				Key: fmt.Append(nil, "k", w.rand.IntN(2)), Rule: &rules[i], Cost: 1 + w.rand.Int64N(2), Shadow: w.rand.IntN(8) == 0,
			})
		}
	}
	if len(checks) == 0 {
		return
	}
	job := func(op operation, checks []core.Check, results []core.Result, hold bool) func() *job {
		return func() *job {
			j := newJob(op, 0)
			j.Clock = w.now
			for i := range checks {
				charged := int64(0)
				if op == refund {
					charged = counting.ChargedAt(checks[i].Rule, checks[i].Cost, &results[i])
				}
				j.add(i, &checks[i], charged)
			}
			if hold {
				j.hold(0)
			}
			return j
		}
	}
	switch n := w.rand.IntN(10); {
	case n < 6:
		j := w.ask(what+", take", job(take, checks, nil, w.rand.IntN(10) == 0))
		results := make([]core.Result, len(checks))
		must.OK(w.t, j.readAnswer(checks, results))
		if j.granted {
			w.checks, w.last = checks, results
		}
	case n < 7:
		w.ask(what+", peek", job(peek, checks, nil, false))
	case n < 9 && w.last != nil:
		var charged []core.Check
		var results []core.Result
		for i := range w.checks {
			if w.last[i].Charged {
				charged, results = append(charged, w.checks[i]), append(results, w.last[i])
			}
		}
		if w.last = nil; len(charged) > 0 {
			w.ask(what+", refund", job(refund, charged, results, false))
		}
	default:
		if w.rand.IntN(4) == 0 {
			w.ask(what+", reset", job(reset, checks, nil, false))
		}
	}
}
