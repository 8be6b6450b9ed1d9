package core

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Class is a part of the requests of a limit with [Limit.Classes].
type Class struct {
	// Name is that of the class in decisions, logs and metrics: 1 to 64 letters, digits and . _ - of ASCII. It is not told to clients.
	Name string

	// When holds for the requests of the class, unless they are of a class before. The last class has all others, and no When.
	When keyfuncs.Condition

	// Keep is the fraction of the burst, above 0 and below 1, that is kept free for this class and those before
	// it. Nothing is kept for the last class.
	Keep float64
}

// maxClasses bounds the classes of a limit, which are labels of metrics.
const maxClasses = 8

// Classes divides the requests of a limit into classes by priority, from the highest to the lowest. All count in
// one bucket. A class can use what is not kept free for those before it:
//
//	core.PerSecond(1000).By(keyfuncs.Everyone()).Classes(
//		core.Class{Name: "checkout", When: keyfuncs.Routes("POST /checkout"), Keep: 0.2}, // all 1000 units
//		core.Class{Name: "browse", When: signedIn, Keep: 0.3},                            // 800
//		core.Class{Name: "crawl"},                                                        // 500: what nobody keeps
//	)
//
// So a lower class takes what is idle, and never what is kept for a higher one: once no more than that is left, it is denied,
// whichever class has used the rest. The last class is guaranteed nothing: those before it may use all. A class in between has its own
// part against those below alone. What is to be guaranteed to a low class against higher ones needs a limit of its own
// for these, or, with [First], a bucket of its own before the common one.
//
// A class is what a request says, so its condition must rest on what clients can't claim, such as a route or a checked
// plan: whoever can write the header of a higher class is in it. Requests for which the answer is [keyfuncs.Unknown] are of a
// class below. [Limiter.AllowKey] and [Limiter.Peek] ask as the highest class. [Decision.Class] says the class of a request.
//
// The remaining units, the time to wait and the policy in headers are those of the request's class. What [Limit.KeepFree] says
// of levels, penalties, tiers and queues holds here: it is Classes of two classes without names, and a limit has either.
//
// There are two to eight classes. The fractions must leave the last one at least one unit and the limit's cost, or the limit is an
// error when it is used.
func (l Limit) Classes(highest Class, others ...Class) Limit {
	l.settings.set(setClasses)
	l.classes = &classes{all: append([]Class{highest}, others...), named: true}
	return l
}

// classes holds the arguments of Classes, or of KeepFree.
type classes struct {
	all   []Class
	named bool // by Classes
}

func (s *classes) validate() error {
	if !s.named {
		if keep := s.all[0].Keep; !(keep > 0 && keep < 1) { // NaN, too
			return fmt.Errorf("the fraction of KeepFree must be above 0 and below 1, got %v", keep)
		}
		return s.all[0].When.Err()
	}
	if n := len(s.all); n < 2 || n > maxClasses {
		return fmt.Errorf("Classes needs 2 to %d classes, got %d", maxClasses, n)
	}
	last := len(s.all) - 1
	for i := range s.all {
		c := &s.all[i]
		switch same := func(other Class) bool { return other.Name == c.Name }; {
		case !store.ValidName(c.Name):
			return fmt.Errorf("Classes: the name of a class must be 1 to 64 of A-Z a-z 0-9 . _ -, got %q", c.Name)
		case slices.IndexFunc(s.all, same) < i:
			return fmt.Errorf("Classes: two classes have the name %q", c.Name)
		case i < last && !(c.Keep > 0 && c.Keep < 1):
			return fmt.Errorf("Classes: Keep of class %q must be above 0 and below 1, got %v", c.Name, c.Keep)
		case i < last:
			if err := c.When.Err(); err != nil {
				return fmt.Errorf("Classes: class %q: %w", c.Name, err)
			}
		case c.Keep != 0:
			return fmt.Errorf("Classes: nothing is below the last class, %q, for which something could be kept: leave out Keep", c.Name)
		case !isZero(c.When):
			return fmt.Errorf("Classes: the last class, %q, has all other requests: leave out When", c.Name)
		}
	}
	if s.kept(last) >= million {
		return errors.New("Classes: the fractions that are kept free must be below 1 together")
	}
	return nil
}

// isZero reports whether a condition was left out.
func isZero(c keyfuncs.Condition) bool {
	return c.Err() != nil && errors.Is(c.Err(), keyfuncs.Condition{}.Err())
}

// fits returns an error if a class can never have a request of a cost.
func (s *classes) fits(burst, cost, least int64) error {
	whose := "KeepFree leaves the lower class"
	if last := len(s.all) - 1; s.named {
		whose = fmt.Sprintf("Classes leaves class %q", s.all[last].Name)
	}
	switch lowest := s.unkept(len(s.all)-1, burst); {
	case lowest < 1:
		return fmt.Errorf("%s nothing of %d units", whose, burst)
	case least > lowest:
		return fmt.Errorf("cost %d can never fit: %s %d units", cost, whose, lowest)
	}
	return nil
}

const million = 1_000_000

// kept returns how many millionths are kept free for the classes before class i.
func (s *classes) kept(i int) (ppm int64) {
	for _, c := range s.all[:i] {
		ppm += int64(c.Keep*million + 0.5)
	}
	return ppm
}

// unkept returns how many of n units class i can use, to a millionth.
func (s *classes) unkept(i int, n int64) int64 {
	ppm := million - s.kept(i)
	return n/million*ppm + n%million*ppm/million
}

// rule returns r for class i. Only the burst differs, and nothing that decides how the bucket is stored.
func (s *classes) rule(i int, r *Rule, cost int64) Rule {
	n := r.Numbers
	n.Burst = min(max(s.unkept(i, r.Burst), cost, 1), r.Burst)
	return derive(r, n)
}

// conditions returns those of all classes but the last.
func (s *classes) conditions() []keyfuncs.Condition {
	conditions := make([]keyfuncs.Condition, len(s.all)-1)
	for i := range conditions {
		conditions[i] = s.all[i].When
	}
	return conditions
}

// classed is the class of a request under a limit.
type classed struct {
	limit *limit
	class uint8 // its place in the limit's classes
}

// Class returns the name of the class that the request is of under a limit with [Limit.Classes], "" for other limits and for
// those that did not decide it.
func (d *Decision) Class(limit string) string {
	results := d.Results()
	for i := range results {
		if r := &results[i]; r.Rule.Name == limit {
			return d.classOf(r)
		}
	}
	return ""
}

func (d *Decision) classOf(r *LimitResult) string {
	if d.limiter == nil || r.class == 0 {
		return ""
	}
	if e := d.held; e != nil && e.elsewhere != nil && int(r.class) <= len(e.elsewhere.classes) {
		return e.elsewhere.classes[r.class-1]
	}
	if l := d.limiter.decides(r.Rule.Name); l != nil && l.classes != nil && int(r.class) <= len(l.classes.all) {
		return l.classes.all[r.class-1].Name
	}
	return ""
}

// decides returns the limit of a name, or the one of Config.Fallback, or nil.
func (l *Limiter) decides(name string) *limit {
	if found := l.limitOf(name); found != nil || l.fallback == nil {
		return found
	}
	for i := range l.fallback.limits {
		if l.fallback.limits[i].rule.Name == name {
			return &l.fallback.limits[i]
		}
	}
	return nil
}
