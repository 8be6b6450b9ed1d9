package keyfuncs

// Answer is what a [Condition] says about a request. It is three-valued, because
// a limit may stand where the router has not chosen a route yet, and then neither
// "it is that route" nor "it is not" would be true.
//
// Each caller of a condition takes the safe side of Unknown: a limit applies, an
// exemption does not.
type Answer uint8

// The answers, in their order: All is the least of its conditions', Any the greatest.
const (
	No      Answer = iota // the condition does not hold
	Unknown               // it depends on the route, which is not known where the limit stands
	Yes                   // the condition holds
)

// String returns "no", "unknown" or "yes".
func (a Answer) String() string {
	switch a {
	case No:
		return "no"
	case Yes:
		return "yes"
	}
	return "unknown"
}

// not swaps Yes and No. With it, and the least and greatest answer for All and
// Any, conditions combine by Kleene's logic.
func (a Answer) not() Answer { return Yes - a }

// yesOrNo makes a question of one that has no third answer.
func yesOrNo(f func(Request) bool) func(Request) Answer {
	return func(r Request) Answer {
		if f(r) {
			return Yes
		}
		return No
	}
}
