package keyfuncs

import (
	"errors"
	"slices"
	"sync"
)

// Condition is a yes-or-no question about a request: whether it is exempt from limits,
// or whether one limit applies to it. Get one from a constructor such as [Routes], or
// turn your own function into one with [Matches]. The zero Condition is invalid, and
// Err says so. Conditions on routes have a third answer, [Unknown].
//
// It is a struct and not a function so that a bad CIDR or token in a configuration file
// is an error when the limiter is built, rather than a panic or a condition that
// silently never holds.
//
// A Condition is a small immutable value. It is safe to copy and for concurrent use. It
// holds no token, and printing it shows none.
type Condition struct {
	ask   func(Request) Answer // nil if err is set
	needs []string
	peers []networks // with which the condition, or a part of it, compares the peer
	names []string   // the routes that the condition, or a part of it, names
	err   error
}

var errZeroCondition = errors.New("weblimit: keyfuncs: the zero Condition is invalid, use a constructor such as keyfuncs.Routes")

// Ask returns whether the condition holds for r. It returns No if Err is not nil, even
// inside a Not.
func (c Condition) Ask(r Request) Answer {
	if c.ask == nil {
		return No
	}
	return c.ask(r)
}

// Match reports whether Ask returns Yes, as an exemption requires.
func (c Condition) Match(r Request) bool { return c.Ask(r) == Yes }

// Err returns what is wrong with how c was built, such as a token that is too short, or
// nil. Building a limiter returns this error.
func (c Condition) Err() error {
	if c.ask == nil && c.err == nil {
		return errZeroCondition
	}
	return c.err
}

// Needing returns c for requests that have a value of their framework, such as a
// "*gin.Context", as [Func.Needing] does. For other requests, for which has reports false,
// the answer is Unknown. It is for authors of adapters; see [Matches].
func (c Condition) Needing(value string, has func(Request) bool) Condition {
	if c.ask == nil {
		return c
	}
	ask := c.ask
	c.needs = append(slices.Clip(c.needs), value)
	c.ask = func(r Request) Answer {
		if !has(r) {
			return Unknown
		}
		return ask(r)
	}
	return c
}

// Needs returns the values that a request must have for c or a part of it; see
// [Condition.Needing].
func (c Condition) Needs() []string { return slices.Clone(c.needs) }

// Routes returns the routes that c or a part of it names, as they were given to [Routes].
func (c Condition) Routes() []string { return slices.Clone(c.names) }

// Matches returns the condition that f decides, such as a finding of the authentication
// in front of the limiter. f is called for each request, concurrently, and must be
// fast.
//
// Err reports a nil f.
//
// # Security
//
// As safe as f. Paths, headers and queries are written by the client. Compare
// [Request.Route] and not [Request.Path]: "/healthz/../login" begins with "/healthz",
// and "/login?/healthz" ends with it. If the route is not known, f has to decide all
// the same; [Routes] answers Unknown instead. Read headers by [HeaderOf], so that the answer
// for a request with a second line is Unknown.
func Matches(f func(Request) bool) Condition {
	if f == nil {
		return Condition{err: errors.New("weblimit: keyfuncs.Matches: no function")}
	}
	decide := yesOrNo(f) // made once: for each request it would be an allocation
	return Condition{ask: func(r Request) Answer {
		reading, shown := r.(*Reading)
		if !shown {
			reading = readings.Get().(*Reading)
			reading.Request = r
			defer func() {
				*reading = Reading{}
				readings.Put(reading)
			}()
		}
		before := reading.repeated
		reading.repeated = ""
		answer := decide(reading)
		if reading.repeated != "" {
			return Unknown
		}
		reading.repeated = before
		return answer
	}}
}

// readings are reused: each would be an allocation.
var readings = sync.Pool{New: func() any { return new(Reading) }}

// Not holds if c does not. It is Unknown if c is. Err reports the error of c.
func Not(c Condition) Condition {
	if err := c.Err(); err != nil {
		return Condition{err: err}
	}
	return Condition{needs: c.needs, peers: c.peers, names: c.names, ask: func(r Request) Answer { return c.ask(r).not() }}
}

// All holds if all conditions hold. It is Unknown if some are Unknown and all others
// hold. Conditions are asked in order until one does not hold. Err reports an All of no
// conditions, and the first error of the conditions.
func All(conditions ...Condition) Condition {
	conditions, err := checked("All", conditions)
	if err != nil {
		return Condition{err: err}
	}
	return Condition{needs: needsOf(conditions), peers: peersOf(conditions), names: namesOf(conditions), ask: func(r Request) Answer {
		least := Yes
		for _, c := range conditions {
			if least = min(least, c.ask(r)); least == No {
				break
			}
		}
		return least
	}}
}

// Any holds if at least one condition holds. It is Unknown if none holds and some are
// Unknown. Conditions are asked in order until one holds. Err reports an Any of no
// conditions, and the first error of the conditions.
func Any(conditions ...Condition) Condition {
	conditions, err := checked("Any", conditions)
	if err != nil {
		return Condition{err: err}
	}
	return Condition{needs: needsOf(conditions), peers: peersOf(conditions), names: namesOf(conditions), ask: func(r Request) Answer {
		greatest := No
		for _, c := range conditions {
			if greatest = max(greatest, c.ask(r)); greatest == Yes {
				break
			}
		}
		return greatest
	}}
}

// checked returns a copy of the conditions, or the first of their errors.
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

// needsOf returns what all conditions need together.
func needsOf(conditions []Condition) []string {
	var needs []string
	for _, c := range conditions {
		needs = append(needs, c.needs...)
	}
	return needs
}

func peersOf(conditions []Condition) []networks {
	var peers []networks
	for _, c := range conditions {
		peers = append(peers, c.peers...)
	}
	return peers
}

func namesOf(conditions []Condition) []string {
	var names []string
	for _, c := range conditions {
		names = append(names, c.names...)
	}
	return names
}
