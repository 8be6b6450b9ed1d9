package counting

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/integer"
)

var (
	errLengths = errors.New("weblimit: as many results as checks are needed")
	errNoRule  = errors.New("weblimit: check without a rule")
)

// ValidChecks returns an error for a call that no store can answer: slices of different
// length, more checks than store.MaxChecks, a check without a rule or with a negative cost, a
// check with Once whose rule has none, or a key and rule that occur twice. Stores call it
// first.
func ValidChecks(checks []store.Check, results []store.Result) error {
	if len(checks) != len(results) {
		return errLengths
	}
	if len(checks) > store.MaxChecks {
		return fmt.Errorf("weblimit: at most %d checks can be decided together, got %d", store.MaxChecks, len(checks))
	}
	if len(checks) > store.MaxChecks/3 {
		if n := len(checks) + besides(checks); n > store.MaxChecks {
			return fmt.Errorf("weblimit: at most %d checks, with their operations and penalties, can be decided together, got %d", store.MaxChecks, n)
		}
	}
	for i := range checks {
		c := &checks[i]
		if c.Rule == nil {
			return errNoRule
		}
		if c.Once != nil && c.Rule.Once == 0 {
			return store.AtLimit(c.Rule.Name, errors.New("an operation's key, but no OncePer"))
		}
		if c.Cost < 0 {
			return store.AtLimit(c.Rule.Name, fmt.Errorf("cost must not be negative, got %d", c.Cost))
		}
		if c.Share != nil {
			if err := validShare(c.Rule, c.Share); err != nil {
				return store.AtLimit(c.Rule.Name, err)
			}
		}
		for j := range checks[:i] {
			if checks[j].Rule.ID() == c.Rule.ID() && bytes.Equal(checks[j].Key, c.Key) {
				return store.AtLimit(c.Rule.Name, errors.New("checked twice in one call for one key"))
			}
		}
	}
	return nil
}

// validShare returns an error for a client's part that no limit can have.
func validShare(r *store.Rule, n *store.Share) error {
	switch {
	case !r.Divided:
		return errors.New("a client's share of a limit that clients do not divide")
	case n.Weight < 1 || n.Weight > store.MaxWeight:
		return fmt.Errorf("the weight of a client must be from 1 to %d, got %d", store.MaxWeight, n.Weight)
	case n.Minimum < 0 || n.Minimum > r.Guaranteed:
		return fmt.Errorf("the minimum of a client must be from 0 to the %d units that are guaranteed, got %d", r.Guaranteed, n.Minimum)
	case n.Maximum < 0 || n.Maximum > store.AllParts:
		return fmt.Errorf("the maximum of a client must be from 0 to %d units, got %d", int64(store.AllParts), n.Maximum)
	}
	return nil
}

// ValidKeys returns an error for checks whose keys no store can reset, block or unblock: a check without a rule.
func ValidKeys(checks []store.Check) error {
	for i := range checks {
		if checks[i].Rule == nil {
			return errNoRule
		}
	}
	return nil
}

// besides counts the marks and penalties of checks.
func besides(checks []store.Check) (n int) {
	for i := range checks {
		if checks[i].Once != nil {
			n++
		}
		if checks[i].Rule != nil && checks[i].Rule.Penalized() {
			n++
		}
	}
	return n
}

// ValidRestore returns an error for a call of [Restorer] that no store can answer: one that
// [ValidChecks] refuses, a rule that is no [store.Ledger], or a restoration with impossible numbers.
func ValidRestore(checks []store.Check, from []Restoration, results []store.Result) error {
	if len(checks) != len(from) {
		return errLengths
	}
	if err := ValidChecks(checks, results); err != nil {
		return err
	}
	for i := range checks {
		rule, f := checks[i].Rule, &from[i]
		wrong := ""
		switch {
		case rule.Algorithm != store.Ledger:
			wrong = fmt.Sprintf("a %v can't be restored: its use is not kept in a book", rule.Algorithm)
		case f.Used < 0 || f.Used > integer.Max:
			wrong = fmt.Sprintf("an account can't have used %d units", f.Used)
		case f.Expect < 0 || f.Generation <= f.Expect || f.Generation > MaxGeneration:
			wrong = fmt.Sprintf("generation %d can't follow %d: it must be above, and at most %d", f.Generation, f.Expect, MaxGeneration)
		case f.Position != 0 && Generation(f.Position) != f.Expect:
			wrong = fmt.Sprintf("position %d is none of generation %d", f.Position, f.Expect)
		case f.History < 0:
			wrong = fmt.Sprintf("a server has no history %d", f.History)
		case f.Ends <= 0:
			wrong = "a restoration must say when the period ends"
		}
		if wrong != "" {
			return store.AtLimit(rule.Name, errors.New(wrong))
		}
	}
	return nil
}
