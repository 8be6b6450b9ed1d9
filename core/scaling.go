package core

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/internal/advice"
	"github.com/weblimit/weblimit/internal/integer"
)

// Scale multiplies quota and burst by the factor that f returns, such as less than 1
// while the service is overloaded (see [Load.Factor]). A factor of 1 leaves the limit as
// it stands; 0.05 is the least. Factors are rounded to a twentieth, and those out of
// range are clamped. The burst never falls below the limit's cost. If f returns NaN or
// panics, the last factor stays; a panic is logged as advice WL007.
//
// f is called within a request, at most once a second for each limit and process, and
// by one request at a time. Other requests meanwhile use the last factor, which is 1 at
// first. f should return quickly. Tiers are scaled, too, and so are [Limiter.AllowKey]
// and [Limiter.Peek].
//
// What was used stays used when the numbers change, as with [Limit.Tiers]: with 60 of
// 100 used, a factor of 0.5 leaves nothing. Headers show the scaled numbers. The
// longest wait of [Limit.Wait] stays as it is.
func (l Limit) Scale(f func(context.Context) float64) Limit {
	l.settings.setTo(setScale, f == nil)
	l.scale = f
	return l
}

// scaleEvery is the least time between two calls of a Scale function.
const scaleEvery = time.Second

// scaling holds a Scale function and its last factor. It is safe for concurrent use.
type scaling struct {
	factor func(context.Context) float64
	cost   int64 // of a request; the burst must hold it
	advice *advice.Limit
	start  time.Time
	due    atomic.Int64 // when to call factor next, in nanoseconds since start
	asking atomic.Bool  // a request is calling factor
	step   atomic.Int32 // the last factor, in steps of 1/scaleSteps
}

func newScaling(factor func(context.Context) float64, cost int64, advice *advice.Limit) *scaling {
	s := &scaling{factor: factor, cost: cost, advice: advice, start: time.Now()}
	s.step.Store(scaleSteps)
	return s
}

// current returns the step, calling the Scale function first if that is due.
func (s *scaling) current(ctx context.Context) int {
	now := int64(time.Since(s.start))
	if now >= s.due.Load() && s.asking.CompareAndSwap(false, true) {
		if now >= s.due.Load() { // otherwise another request has just asked
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
			s.advice.ScalePanics(p)
		}
	}()
	if factor := s.factor(ctx); !math.IsNaN(factor) {
		s.step.Store(int32(math.Round(min(max(factor, 1.0/scaleSteps), 1) * scaleSteps)))
	}
}

// scaled returns r scaled to a step, or r if that can't be counted exactly.
func (s *scaling) scaled(r *Rule, step int) Rule {
	toStep := func(n int64) int64 { return max(integer.CeilMulDiv(int64(step), n, scaleSteps), 1) }
	n := r.Numbers
	n.Quota, n.Burst, n.Whole = toStep(r.Quota), max(toStep(r.Burst), min(s.cost, r.Burst)), 0
	n.Guaranteed = min(r.Guaranteed*int64(step)/scaleSteps, n.Burst-1)
	if n.Soft = toStep(r.Soft); r.Soft == 0 || n.Soft >= n.Burst {
		n.Soft = 0
	}
	return derive(r, n)
}
