package storetest

import "github.com/weblimit/weblimit/core"

// judged is what the model knows of a check before anything is charged.
type judged struct{ fits, blocked, repeated bool }

// paying says which checks would be charged: of alternatives the one that was charged for a repeated operation, else the
// first with room, and none if one of them is blocked. denied says that an enforced check or choice has none.
func paying(checks []core.Check, all []judged) (pays []bool, denied bool) {
	pays = make([]bool, len(checks))
	for first := 0; first < len(checks); {
		behind := first + 1
		for behind < len(checks) && checks[behind].Or {
			behind++
		}
		payer := -1
		for _, wanted := range []judged{{fits: true, repeated: true}, {fits: true}} {
			for i := first; i < behind && payer < 0; i++ {
				if all[i].fits && (all[i].repeated || !wanted.repeated) {
					payer = i
				}
			}
		}
		for i := first; i < behind; i++ {
			if all[i].blocked {
				payer = -1
			}
		}
		if payer >= 0 {
			pays[payer] = true
		} else if !checks[first].Shadow {
			denied = true
		}
		first = behind
	}
	return pays, denied
}

// passOver marks all alternatives but the one that answers for them: what was charged, or else is unknown, or else is blocked
// for the longest time, or else would be charged, or else is to be waited for the shortest time.
func passOver(checks []core.Check, results []core.Result) {
	for first := 0; first < len(checks); {
		behind := first + 1
		for behind < len(checks) && checks[behind].Or {
			behind++
		}
		answers := first
		for i := first; i < behind; i++ {
			if answersSooner(results[i], results[answers]) {
				answers = i
			}
		}
		for i := first; i < behind; i++ {
			results[i].PassedOver = i != answers
		}
		first = behind
	}
}

// answersSooner reports whether a answers for a choice rather than b.
func answersSooner(a, b core.Result) bool {
	class, other := modelClass(a), modelClass(b)
	switch {
	case class != other:
		return class < other
	case class == 2:
		return a.RetryAfter > b.RetryAfter
	}
	return class == 5 && a.RetryAfter < b.RetryAfter
}

func modelClass(r core.Result) int {
	switch {
	case r.Charged:
		return 0
	case r.Unknown:
		return 1
	case r.Blocked:
		return 2
	case r.Repeated:
		return 3
	case r.Allowed:
		return 4
	case r.RetryAfter > 0:
		return 5
	}
	return 6 // waiting can't help
}

// isAlternative reports whether a check has alternatives.
func isAlternative(checks []core.Check, i int) bool {
	return checks[i].Or || i+1 < len(checks) && checks[i+1].Or
}
