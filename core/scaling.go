package core

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/internal/integer"
)

// Scale multiplies quota and burst by what f returns, such as less while the
// service is loaded (see [Load.Factor]): 1 is the limit as it stands, 0.05 the
// least, and values between are rounded to a twentieth. No request's cost comes to
// be more than the burst. Values beyond that are taken for the nearest; NaN, and a
// panic, which is logged, leave the last one.
//
// f is called within a request, at most once a second for each limit and process,
// by one request at a time: others go on with the last value, which is 1 at first.
// It should not block. Tiers are scaled, too. AllowKey and Peek are as requests.
//
// What was used stays used when the numbers change, as with [Limit.Tiers]: with 60
// of 100 used, a factor of 0.5 leaves nothing. Headers tell of the scaled numbers.
// A [Limit.Wait] stays as long as it was.
func (l Limit) Scale(f func(context.Context) float64) Limit {
	l.scale = f
	return l
}

const (
	scaleSteps = 20

	// scaleEvery is how often a factor is asked for.
	scaleEvery = time.Second
)

// scaling is a Scale function made ready.
type scaling struct {
	factor func(context.Context) float64
	name   string // of the limit
	cost   int64  // of a request: the burst has to hold that much
	advise func(Advice, string)
	start  time.Time
	due    atomic.Int64 // nanoseconds since start
	asking atomic.Bool
	step   atomic.Int32 // of scaleSteps
}

func newScaling(factor func(context.Context) float64, name string, cost int64, advise func(Advice, string)) *scaling {
	s := &scaling{factor: factor, name: name, cost: cost, advise: advise, start: time.Now()}
	s.step.Store(scaleSteps)
	return s
}

// current returns the step, asking for it anew if that is due.
func (s *scaling) current(ctx context.Context) int {
	now := int64(time.Since(s.start))
	if now >= s.due.Load() && s.asking.CompareAndSwap(false, true) {
		if now >= s.due.Load() { // else another request has just asked
			s.due.Store(now + int64(scaleEvery))
			s.ask(ctx)
		}
		s.asking.Store(false)
	}
	return int(s.step.Load())
}

func (s *scaling) ask(ctx context.Context) {
	defer func() {
		if p := recover(); p != nil {
			s.advise(AdviceScale, fmt.Sprintf("limit %q: its Scale function panics: %v", s.name, p))
		}
	}()
	if factor := s.factor(ctx); !math.IsNaN(factor) {
		s.step.Store(int32(math.Round(min(max(factor, 1.0/scaleSteps), 1) * scaleSteps)))
	}
}

// scaled returns r at a step, or r itself if that can't be counted exactly.
func (s *scaling) scaled(r *Rule, step int) Rule {
	part := func(n int64) int64 { return max(integer.CeilMulDiv(int64(step), n, scaleSteps), 1) }
	n := r.Numbers
	n.Quota, n.Burst, n.Whole = part(r.Quota), max(part(r.Burst), min(s.cost, r.Burst)), 0
	if n.Soft = part(r.Soft); r.Soft == 0 || n.Soft >= n.Burst {
		n.Soft = 0
	}
	return derive(r, n)
}

// scaleNow returns the rule as it is now.
func (l *limit) scaleNow(ctx context.Context, rule *Rule) *Rule {
	step := l.scaling.current(ctx)
	if step == scaleSteps {
		return rule
	}
	return loadOrMake(&l.variants.get(rule).scaled[step], func() Rule { return l.scaling.scaled(rule, step) })
}

// ruleWithoutRequest returns the rule for AllowKey and its like, which have no request to choose a tier by.
func (l *limit) ruleWithoutRequest(ctx context.Context) *Rule {
	if l.scaling != nil {
		return l.scaleNow(ctx, &l.rule)
	}
	return &l.rule
}
