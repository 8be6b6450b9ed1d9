package prove

// choices yields where each choice of an operation begins and ends.
func (o *operation) choices(yield func(first, end int) bool) {
	for first := 0; first < len(o.Checks); {
		end := first + 1
		for end < len(o.Checks) && o.Checks[end].Or {
			end++
		}
		if end > first+1 && !yield(first, end) {
			return
		}
		first = end
	}
}

// isAlternative reports whether a check has alternatives.
func (o *operation) isAlternative(i int) bool {
	return o.Checks[i].Or || i+1 < len(o.Checks) && o.Checks[i+1].Or
}

// payers returns which checks are charged if the operation is granted: all but the alternatives to the first that fits.
// paid is false if a choice that is enforced has none.
func (o *operation) payers(fits []bool) (pays []bool, paid bool) {
	pays, paid = make([]bool, len(fits)), true
	for i := range pays {
		pays[i] = !o.isAlternative(i)
	}
	for first, end := range o.choices {
		payer := -1
		for i := first; i < end && payer < 0; i++ {
			if fits[i] {
				payer = i
			}
		}
		if payer >= 0 {
			pays[payer] = true
		} else {
			paid = paid && o.Checks[first].Shadow
		}
	}
	return pays, paid
}

// passOver marks the alternatives that do not answer for their choice: one that is charged does, or would be, or else
// the one that is to be waited for the shortest time.
func (o *operation) passOver(results []result) {
	for first, end := range o.choices {
		best := first
		for i := first; i < end; i++ {
			if r, b := &results[i], &results[best]; r.sooner(b) {
				best = i
			}
		}
		for i := first; i < end; i++ {
			results[i].PassedOver = i != best
		}
	}
}

func (r *result) sooner(other *result) bool {
	switch {
	case r.Charged != other.Charged:
		return r.Charged
	case r.Allowed != other.Allowed:
		return r.Allowed
	case r.Allowed:
		return false
	}
	return r.RetryAfter > 0 && (other.RetryAfter == 0 || r.RetryAfter < other.RetryAfter)
}
