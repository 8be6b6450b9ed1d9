package core

import (
	"context"

	"github.com/weblimit/weblimit/internal/integer"
	"github.com/weblimit/weblimit/keyfuncs"
)

// By which rule a request is counted: that of its limit, or one that is derived from it and cached.

// ofClass returns the rule for the class of a request, and the class from 1 on. The rule is nil if the class can't be told, since a
// part of the request is there several times.
func (l *limit) ofClass(rule *Rule, r, shown keyfuncs.Request, reading *keyfuncs.Reading) (_ *Rule, class uint8) {
	last := len(l.classes.all) - 1
	for i := range last {
		switch l.classes.all[i].When.Ask(shown) {
		case keyfuncs.Yes:
			return l.classRule(i, rule), uint8(i + 1)
		case keyfuncs.Unknown:
			if reading.Repeated() != "" {
				return nil, 0
			}
			l.advice.UpperUnanswered(r)
		}
	}
	return l.classRule(last, rule), uint8(last + 1)
}

// ruleWithoutRequest returns the rule for AllowKey and its like, which have no request
// to choose a tier by.
func (l *limit) ruleWithoutRequest(ctx context.Context) *Rule {
	if l.scaling != nil {
		return l.scaleNow(ctx, &l.rule)
	}
	return &l.rule
}

// classRule returns the cached rule of a class, from 0 on, that is derived from r. The highest class has r itself.
func (l *limit) classRule(i int, r *Rule) *Rule {
	if i == 0 {
		return r
	}
	return loadOrMake(&l.variants.get(r).lower[i-1], func() Rule { return l.classes.rule(i, r, l.least) })
}

// scaleNow returns the rule scaled to the current step.
func (l *limit) scaleNow(ctx context.Context, rule *Rule) *Rule {
	step := l.scaling.current(ctx)
	if step == scaleSteps {
		return rule
	}
	return loadOrMake(&l.variants.get(rule).scaled[step], func() Rule { return l.scaling.scaled(rule, step) })
}

// unpenalized returns r without the penalty, for the bucket of requests without the
// key: one client must not be blocked for what another has done.
func (l *limit) unpenalized(r *Rule) *Rule {
	return loadOrMake(&l.variants.get(r).unpenalized, func() Rule {
		n := r.Numbers
		n.Block = Block{}
		return derive(r, n)
	})
}

// unqueued returns r without the queue of its bucket.
func (l *limit) unqueued(r *Rule) *Rule {
	return loadOrMake(&l.variants.get(r).unqueued, func() Rule {
		n := r.Numbers
		n.Wait = 0
		return derive(r, n)
	})
}

// localRule returns the share of one process in the numbers that a request is
// limited by.
func (l *limit) localRule(of *Rule) *Rule {
	if of == &l.rule {
		return &l.local
	}
	return loadOrMake(&l.variants.get(of).share, func() Rule { return share(of, l.replicas, l.least) })
}

// share returns the part of r that one of n processes grants: at least one
// request of the given cost. Together they grant at most n units, or that cost,
// more than r.
func share(r *Rule, n int, cost int64) Rule {
	part := func(units int64) int64 { return integer.CeilDiv(units, int64(n)) }
	s := r.Numbers
	s.Quota, s.Burst = part(r.Quota), max(part(r.Burst), cost)
	s.Whole = max(part(r.Whole), s.Burst)
	s.Guaranteed = min(r.Guaranteed/int64(n), s.Whole-1)
	if s.Soft = part(r.Soft); s.Soft >= s.Burst {
		s.Soft = 0
	}
	return derive(r, s)
}
