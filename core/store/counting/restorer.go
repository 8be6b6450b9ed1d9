package counting

import (
	"context"
	"sync/atomic"

	"github.com/weblimit/weblimit/core/store"
)

// Restorer is implemented by stores that count [store.Ledger] windows. A wrapper of a store finds it
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
	// checks nor their operations. Its rules for slices, contexts and errors are those of [store.Store].
	Restore(ctx context.Context, checks []store.Check, from []Restoration, results []store.Result) error
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

	// Ends is when the account's period ends, in microseconds since the epoch: [Ends] of the
	// result that was unknown. A book may take so long to look up one period that the store's
	// clock is in the next one.
	Ends int64
}

// Ends returns when the calendar period of a [store.Ledger] result ends, in microseconds since the
// epoch.
func Ends(r *store.Result) int64 { return r.At + r.ResetAfter.Microseconds() }

// restorers is the key under which a store's Restorer is attached to its Registry.
type restorers struct{}

// SetRestorer sets what [RestorerOf] returns for wrappers of the store. A store that is a Restorer
// calls it when it is made.
func SetRestorer(s store.Store, r Restorer) {
	s.Registry().Attach(restorers{}, func() any { return new(atomic.Value) }).(*atomic.Value).Store(&r)
}

// RestorerOf returns the Restorer of a store. A wrapper that does not implement it has that of
// the store inside.
func RestorerOf(s store.Store) (Restorer, bool) {
	if r, ok := s.(Restorer); ok {
		return r, true
	}
	set := s.Registry().Attach(restorers{}, func() any { return new(atomic.Value) }).(*atomic.Value)
	if r, ok := set.Load().(*Restorer); ok {
		return *r, true
	}
	return nil, false
}
