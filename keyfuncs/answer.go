package keyfuncs

// Answer is the answer of a [Condition] about a request. It has three values because a
// limiter may stand in front of the router, where it is not known yet which route will
// answer.
//
// On Unknown, each caller takes the safe side: a limit applies, and an exemption does
// not.
type Answer uint8

// The answers are ordered: All returns the least of its conditions' answers, Any the
// greatest.
const (
	No      Answer = iota // the condition does not hold
	Unknown               // it depends on something that is not known, such as the route
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

// MarshalText returns the text of String, so that logs in JSON have words and no numbers.
func (a Answer) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// not swaps Yes and No. Together with the least and greatest answer for All and Any this
// is Kleene's three-valued logic.
func (a Answer) not() Answer { return Yes - a }

// yesOrNo turns f into a function whose answer is never Unknown.
func yesOrNo(f func(Request) bool) func(Request) Answer {
	return func(r Request) Answer {
		if f(r) {
			return Yes
		}
		return No
	}
}
