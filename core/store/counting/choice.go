package counting

import (
	"errors"

	"github.com/weblimit/weblimit/core/store"
)

// A choice is a check with its alternatives: those behind it whose Or is set. Of a choice that is granted one check is
// charged, the first that fits. [Decide] picks it by the states, and [PassOver] by the results, alike: a store that does
// not count by [Decide] has results alone, and so has whoever repeats an answer.

var (
	errNoChoice        = errors.New("an alternative needs a check before it")
	errShadowChoice    = errors.New("either all alternatives are in shadow mode, or none")
	errDividedChoice   = errors.New("an alternative can't be a limit that clients divide")
	errPenalizedChoice = errors.New("an alternative can't have a penalty: another one may pay, and then nothing is denied")
)

// EndOfChoice returns where the choice ends that begins with checks[start]: start + 1 for a check without alternatives.
func EndOfChoice(checks []store.Check, start int) int {
	end := start + 1
	for end < len(checks) && checks[end].Or {
		end++
	}
	return end
}

// ChoiceOf returns where the choice begins and ends that checks[i] is in.
func ChoiceOf(checks []store.Check, i int) (start, end int) {
	start = i
	for start > 0 && checks[start].Or {
		start--
	}
	return start, EndOfChoice(checks, start)
}

// InChoice reports whether checks[i] has alternatives.
func InChoice(checks []store.Check, i int) bool {
	return checks[i].Or || i+1 < len(checks) && checks[i+1].Or
}

// IsDenial reports whether the result of a check denies its call: the check is enforced, does not fit, and no alternative
// answers for it.
func IsDenial(c *store.Check, r *store.Result) bool { return !r.Allowed && !c.Shadow && !r.PassedOver }

// AnyChoice reports whether one of the checks has an alternative.
func AnyChoice(checks []store.Check) bool {
	for i := 1; i < len(checks); i++ {
		if checks[i].Or {
			return true
		}
	}
	return false
}

// ValidChoices returns an error for a Take or Peek that no store can answer: alternatives without a check before them, with a
// penalty, or of which some are in shadow mode. Stores call it after [ValidChecks]. Calls for what was charged need not have all
// alternatives, and don't read Or.
func ValidChoices(checks []store.Check) error {
	for i := range checks {
		if !checks[i].Or {
			continue
		}
		var err error
		switch {
		case i == 0:
			err = errNoChoice
		case checks[i].Shadow != checks[i-1].Shadow:
			err = errShadowChoice
		case checks[i].Rule.Penalized() || checks[i-1].Rule.Penalized():
			err = errPenalizedChoice
		case checks[i].Rule.Divided || checks[i-1].Rule.Divided:
			err = errDividedChoice
		}
		if err != nil {
			return store.AtLimit(checks[i].Rule.Name, err)
		}
	}
	return nil
}

// pick has the states of a choice that was judged say which check is charged, and reports whether there is one.
// A repeat of an operation stays with the check that was charged for it. A block of one alternative is a block of
// the client: it denies the choice.
func pick(states []State) (found bool) {
	paying, blocked := -1, false
	for i := range states {
		s := &states[i]
		s.passedOver = true
		blocked = blocked || s.reading.Blocked > 0
		if s.fits && (paying < 0 || s.repeated && !states[paying].repeated) {
			paying = i
		}
	}
	if paying < 0 || blocked {
		return false
	}
	states[paying].passedOver = false
	return true
}

// pickAll picks in each choice of the checks, and reports whether each that is enforced has a check that fits.
func pickAll(checks []store.Check, states []State) (granted bool) {
	granted = true
	for start, end := 0, 0; start < len(checks); start = end {
		if end = EndOfChoice(checks, start); end == start+1 {
			continue
		}
		if !pick(states[start:end]) && !checks[start].Shadow {
			granted = false
		}
	}
	return granted
}

// PassOver sets PassedOver in the results of each choice but for the one that answers for it: what was charged, or would
// be. If none would be, it is the block that ends last, else what is to be waited for the shortest time. Results of checks
// without alternatives stay as they are. Stores and wrappers of stores call it whenever results of a choice have changed.
func PassOver(checks []store.Check, results []store.Result) {
	for start, end := 0, 0; start < len(checks); start = end {
		if end = EndOfChoice(checks, start); end == start+1 {
			continue
		}
		answers := start
		for i := start + 1; i < end; i++ {
			if answersBefore(&results[i], &results[answers]) {
				answers = i
			}
		}
		for i := start; i < end; i++ {
			results[i].PassedOver = i != answers
		}
	}
}

// answersBefore reports whether r answers for its choice rather than other, which comes before it.
func answersBefore(r, other *store.Result) bool {
	rank := rankOf(r)
	switch before := rankOf(other); {
	case rank != before:
		return rank < before
	case rank == rankBlocked:
		return r.RetryAfter > other.RetryAfter
	case rank == rankDenied:
		return r.RetryAfter > 0 && (other.RetryAfter == 0 || r.RetryAfter < other.RetryAfter)
	}
	return false
}

// The ranks of results in a choice. The lowest answers for it.
const (
	rankCharged = iota
	rankUnknown // the call is to be made again
	rankBlocked
	rankRepeated
	rankAllowed
	rankDenied
)

func rankOf(r *store.Result) int {
	switch {
	case r.Charged:
		return rankCharged
	case r.Unknown:
		return rankUnknown
	case r.Blocked:
		return rankBlocked
	case r.Repeated:
		return rankRepeated
	case r.Allowed:
		return rankAllowed
	}
	return rankDenied
}
