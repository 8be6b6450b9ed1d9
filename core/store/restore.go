package store

import (
	"context"
	"errors"
	"fmt"
)

// Restorer is implemented by stores that count [Ledger] windows. A wrapper of a store finds it
// with [RestorerOf].
type Restorer interface {
	// Restore tells the store what accounts have used. It changes the account of checks[i] if its
	// generation is from[i].Expect, its period ends at from[i].Ends, its position is
	// from[i].Position if that is set, and the server's history is from[i].History. It leaves the account alone otherwise.
	// So of many processes that restore one account, one wins, repeating a call
	// changes nothing, and no generation begins twice, on two servers. Each account is restored for itself.
	//
	// results[i] is the state of the account after that, whoever restored it, and
	// results[i].Charged says whether this call did; checks[i].Account has its numbers. Restore reads neither the costs of the
	// checks nor their operations. Its rules for slices, contexts and errors are those of Store.
	Restore(ctx context.Context, checks []Check, from []Restoration, results []Result) error
}

// Restoration is what a book knows of an account, for [Restorer].
type Restoration struct {
	Used       int64 // units used; without Position, more counts if the bucket was charged more
	Generation int64 // of the account from now on, above Expect and up to MaxGeneration
	Expect     int64 // generation that the store has of the account; 0 if the account is unknown

	// Position is a position of generation Expect, or 0. If it is set, the account is only changed if
	// it still has that position, so that nothing is charged to it that the book does not know. Then it
	// has used just Used. A stale account is only restored with its position.
	Position int64

	// History is that of the account which the restoration is an answer to: Account.History.
	History int64

	// Ends is when the account's period ends, in microseconds since the epoch: Result.Ends of the
	// result that was unknown. A book may take so long to look up one period that the store's
	// clock is in the next one.
	Ends int64
}

// Ends returns when the calendar period of a [Ledger] result ends, in microseconds since the
// epoch.
func (r *Result) Ends() int64 { return r.At + r.ResetAfter.Microseconds() }

// RestorerOf returns the Restorer of a store. A wrapper that does not implement it has that of
// the store inside.
func RestorerOf(s Store) (Restorer, bool) {
	if r, ok := s.(Restorer); ok {
		return r, true
	}
	r := s.Registry().restorerSet()
	return r, r != nil
}

// ValidRestore returns an error for a call of [Restorer] that no store can answer: one that
// [ValidChecks] refuses, a rule that is no [Ledger], or a restoration with impossible numbers.
func ValidRestore(checks []Check, from []Restoration, results []Result) error {
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
		case rule.Algorithm != Ledger:
			wrong = fmt.Sprintf("a %v can't be restored: its use is not kept in a book", rule.Algorithm)
		case f.Used < 0 || f.Used > maxInteger:
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
			return AtLimit(rule.Name, errors.New(wrong))
		}
	}
	return nil
}

// Restore tells what accounts have used, and sets the results, as [Restorer] does. now is in
// microseconds since the epoch; states[i] is the state of checks[i]. It does not read penalties
// and marks.
func Restore(now int64, checks []Check, from []Restoration, states []State, results []Result) {
	for i := range states {
		c, s := &checks[i], &states[i]
		s.unchanged()
		s.open(c, now)
		s.changed(c, now, s.restore(&from[i]), &results[i])
	}
}

// restore begins a generation of an opened bucket, and reports whether it has.
func (s *State) restore(from *Restoration) bool {
	b, position := &s.Bucket, max(s.Bucket.Y, s.stale)
	switch {
	case b.Expires != from.Ends || s.History != from.History || Generation(position) != from.Expect:
		return false
	case from.Position > 0 && position != from.Position || s.stale > 0 && from.Position == 0:
		return false
	case from.Position == 0:
		b.X = max(b.X, from.Used)
	default:
		b.X = from.Used
	}
	b.Y, b.History = from.Generation<<changeBits|1, s.History
	return true
}
