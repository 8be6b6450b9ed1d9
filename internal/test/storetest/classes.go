package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// LowerRule returns the rule for requests of a limit with KeepFree for which its condition
// does not hold, as a limiter asks its store by it.
func LowerRule(limit core.Limit) (core.Rule, error) {
	seen := &ruleSeen{Store: core.NewMemory()}
	l, err := core.New(core.Config{Store: seen, Limits: []core.Limit{limit.By(keyfuncs.Everyone())}})
	if err != nil {
		return core.Rule{}, err
	}
	l.Allow(keyfuncs.Values{"method": "GET"})
	return seen.rule, nil
}

// LowerRules returns the rules of all classes of a limit but the highest, for which nothing is kept, where a share of the whole is
// kept free for each class but the lowest.
func LowerRules(limit core.Limit, shares ...float64) (rules []core.Rule, err error) {
	all := make([]core.Class, len(shares)+1)
	for i := range all {
		all[i].Name = fmt.Sprint("class-", i)
		if i < len(shares) {
			all[i].Keep, all[i].When = shares[i], keyfuncs.Methods(fmt.Sprint("M", i))
		}
	}
	seen := &ruleSeen{Store: core.NewMemory()}
	l, err := core.New(core.Config{Store: seen, Limits: []core.Limit{limit.By(keyfuncs.Everyone()).Classes(all[0], all[1:]...)}})
	if err != nil {
		return nil, err
	}
	for i := range shares {
		l.Allow(keyfuncs.Values{"method": fmt.Sprint("M", i+1)})
		rules = append(rules, seen.rule)
	}
	return rules, nil
}

// ruleSeen is a store that notes the rule that it was asked by.
type ruleSeen struct {
	core.Store
	rule core.Rule
}

func (s *ruleSeen) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	s.rule = *checks[0].Rule
	return s.Store.Take(ctx, checks, results)
}

// classesOf returns the rules of both classes of a limit with KeepFree.
func classesOf(r *rig, limit core.Limit, share float64) (upper, lower *core.Rule) {
	r.Helper()
	low := must.Get(LowerRule(limit.KeepFree(share, keyfuncs.Methods("POST"))))(r)
	return rule(r, limit), &low
}

func classes(r *rig) {
	limits := Algorithms(10, time.Hour)
	limits["calendar"] = modelCalendars[4](10).Named("calendar")
	for name, limit := range limits {
		upper, lower := classesOf(r, limit, 0.2)
		r.wantTake(upper, name, 1, true, 9)
		r.wantTake(lower, name, 6, true, 1)
		r.wantTake(lower, name, 2, false, 1)
		r.wantTake(lower, name, 1, true, 0)
		denied := r.wantTake(lower, name, 1, false, 0)
		if denied.RetryAfter <= 0 {
			r.Errorf("%s: the lower class is denied without a wait", name)
		}
		r.wantTake(upper, name, 2, true, 0)
		denied = r.wantTake(lower, name, 1, false, 0)
		r.Advance(denied.RetryAfter - time.Microsecond)
		r.wantTake(lower, name, 1, false, 0)
		r.Advance(time.Microsecond)
		if got := r.take(lower, name, 1); !got.Allowed {
			r.Errorf("%s: after %v the lower class is denied still: %s", name, denied.RetryAfter, show(got))
		}
	}
}

// Of several classes each takes what is idle, and nothing that is kept for one above.
func classesInOrder(r *rig) {
	limits := Algorithms(10, time.Hour)
	limits["calendar"] = modelCalendars[4](10).Named("calendar")
	for name, limit := range limits {
		lower := must.Get(LowerRules(limit, 0.2, 0.3, 0.1))(r)
		all := []*core.Rule{rule(r, limit), &lower[0], &lower[1], &lower[2]} // of 10, 8, 5 and 4 units
		r.wantTake(all[3], name, 4, true, 0)
		for i := 3; i >= 0; i-- {
			r.wantTake(all[i], name, 11, false, r.peek(all[i], name, 1).Remaining)
			for granted := true; granted; {
				granted = r.take(all[i], name, 1).Allowed
			}
			for _, below := range all[i:] {
				r.wantTake(below, name, 1, false, 0)
			}
			if i > 0 {
				check.Equal(r, fmt.Sprint(name, ": what is kept for those before class ", i), r.peek(all[0], name, 1).Remaining, all[0].Burst-all[i].Burst)
			}
		}
	}
}

// Redis keeps counts in fields of the smallest sufficient width.
func classesOfMany(r *rig) {
	const many = 4_000_000_000
	for name, limit := range map[string]core.Limit{
		"fixed":    core.PerDay(many).FixedWindow().Named("many"),
		"sliding":  core.Per(many, time.Millisecond).SlidingWindow().Named("many"),
		"calendar": modelCalendars[4](many).Named("many"),
	} {
		upper, lower := classesOf(r, limit, 0.9)
		r.wantTake(upper, name, many-1, true, 1)
		r.wantTake(lower, name, 1, false, 0)
		r.wantTake(upper, name, 1, true, 0)
		r.wantTake(upper, name, 1, false, 0)
	}
}

func classesChanged(r *rig) {
	for name, limit := range Algorithms(100, time.Hour) {
		r.wantTake(rule(r, limit.Named("classes")), name, 90, true, 10)
		for other, changed := range Algorithms(100, 2*time.Hour) {
			upper, lower := classesOf(r, changed.Named("classes"), 0.5)
			r.wantTake(lower, name, 1, false, 0)
			check.Equal(r, fmt.Sprintf("%s to %s in the lower class: remain for the upper one", name, other), r.peek(upper, name, 1).Remaining, 10)
		}
	}
}
