package keyfuncs

import (
	"errors"
	"slices"
)

// Condition says yes or no about a request: whether it is exempt from limits, or
// whether one limit applies to it. Get one from a constructor, such as [Routes],
// or make one of a function of yours with [Matches]; the zero Condition is
// invalid and Err says so. A condition on routes has a third answer, [Unknown].
//
// It is a struct and not a function so that a CIDR or token that is wrong in a
// configuration file is an error when the limiter is built, be it at start-up or
// while serving, and neither a panic nor a condition that silently never holds.
//
// A Condition is a small immutable value, safe to copy and for concurrent use.
// It holds no token and shows none when it is printed.
type Condition struct {
	ask func(Request) Answer // nil when err is set
	err error
}

var errZeroCondition = errors.New("weblimit: keyfuncs: the zero Condition says nothing, use a constructor such as keyfuncs.Routes")

// Ask returns whether the condition holds for r. It is No when Err is not nil,
// inside a Not too.
func (c Condition) Ask(r Request) Answer {
	if c.ask == nil {
		return No
	}
	return c.ask(r)
}

// Match reports whether Ask answers Yes, which is what an exemption needs.
func (c Condition) Match(r Request) bool { return c.Ask(r) == Yes }

// Err is what is wrong with how c was built, such as a token that is too short,
// and nil when nothing is. Building a limiter reports it.
func (c Condition) Err() error {
	if c.ask == nil && c.err == nil {
		return errZeroCondition
	}
	return c.err
}

// Matches is the condition that f reports, such as what an authentication before
// the limit has found out. f runs on every request, maybe on many at once, and
// must not block.
//
// Err reports a nil f.
//
// # Security
//
// What f reads decides who is exempt. A path, a header or a query is what a
// client writes: compare [Request.Route] and not [Request.Path], of which
// "/healthz/../login" has the prefix and "/login?/healthz" the suffix. Where the
// route is not known f has to choose; [Routes] leaves that to the limit.
func Matches(f func(Request) bool) Condition {
	if f == nil {
		return Condition{err: errors.New("weblimit: keyfuncs.Matches: no function")}
	}
	return Condition{ask: yesOrNo(f)}
}

// Not holds when c does not, and is unknown when c is. Err reports what c's does.
func Not(c Condition) Condition {
	if err := c.Err(); err != nil {
		return Condition{err: err}
	}
	return Condition{ask: func(r Request) Answer { return c.ask(r).not() }}
}

// All holds when all conditions do, and is unknown when some are and the others
// hold. They are asked in their order until one does not hold. Err reports none at
// all, and the first of their errors.
func All(conditions ...Condition) Condition {
	conditions, err := checked("All", conditions)
	if err != nil {
		return Condition{err: err}
	}
	return Condition{ask: func(r Request) Answer {
		least := Yes
		for _, c := range conditions {
			if least = min(least, c.ask(r)); least == No {
				break
			}
		}
		return least
	}}
}

// Any holds when one of the conditions does, and is unknown when none does and
// some are unknown. They are asked in their order until one holds. Err reports none
// at all, and the first of their errors.
func Any(conditions ...Condition) Condition {
	conditions, err := checked("Any", conditions)
	if err != nil {
		return Condition{err: err}
	}
	return Condition{ask: func(r Request) Answer {
		greatest := No
		for _, c := range conditions {
			if greatest = max(greatest, c.ask(r)); greatest == Yes {
				break
			}
		}
		return greatest
	}}
}

// checked is a copy of the conditions, or the first of their errors.
func checked(constructor string, conditions []Condition) ([]Condition, error) {
	if len(conditions) == 0 {
		return nil, errors.New("weblimit: keyfuncs." + constructor + ": no conditions")
	}
	for _, c := range conditions {
		if err := c.Err(); err != nil {
			return nil, err
		}
	}
	return slices.Clone(conditions), nil
}
