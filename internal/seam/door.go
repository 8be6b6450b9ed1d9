// Package seam passes from core to core/adapter and internal/compose what those who build on core need and users
// do not: so it need not be exported from core, where it would stand among the names that users read. It also
// holds the types that they share. It knows none of these packages: types of core are parameters here, and they
// instantiate them by aliases.
package seam

import (
	"context"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Door is what core offers to core/adapter and internal/compose alone, with the types of core in the order of their names.
type Door[Config, Decision, Header, Limit, Limiter, LimitResult, Outcome, Reason, Warning any] struct {
	Deciding[Decision, Limiter, LimitResult, Outcome, Warning]
	Following[Decision, Header]
	Building[Config, Limit, Limiter, LimitResult, Reason]
}

// Deciding is what asks limiters.
type Deciding[Decision, Limiter, LimitResult, Outcome, Warning any] struct {
	// Decide decides a request in in, or in memory of core's own if in is nil.
	Decide func(l *Limiter, in *Scratch, adapter string, r keyfuncs.Request, d *Decision, room []LimitResult)

	// DecideKey decides for a key within the request that observers are shown.
	DecideKey func(l *Limiter, adapter string, seen keyfuncs.Request, key string, cost int64) Decision

	// Peek is core.Limiter.PeekRequest. keyed is told the keys that belong to one client each.
	Peek func(l *Limiter, r keyfuncs.Request, cost int64, keyed func(result int, key []byte)) (Decision, error)

	// Together decides questions by one call of their store.
	Together func(context.Context, Call, []Ask[Decision, Limiter, Warning]) error

	// Settle settles what was held age ago.
	Settle func(l *Limiter, held []Held, age time.Duration, refund bool, o Outcome)
}

// Following is what writes a decision to the response, and says how its request is followed.
type Following[Decision, Header any] struct {
	SetHeaders  func(*Decision, Header, *HeaderRoom)
	Reservation func(*Decision) Reservation // nil if nothing was reserved
}

// Building is what makes limiters.
type Building[Config, Limit, Limiter, LimitResult, Reason any] struct {
	New func(Config, Making[Limiter, LimitResult, Reason]) (*Limiter, error)

	// Replace gives live limiters other configurations, all or none, unless there are none; and notes
	// whether a change is refused.
	Replace func(all []*Limiter, by []Config, refused bool) error

	// Join returns an error if requests of an adapter lack a value that the limiter needs.
	Join func(l *Limiter, adapter string, offers []string) (Facts, error)

	// ForStore has whoever makes a limiter of a limit ask whether the limiter's store suits it: nil is that
	// of a fallback in memory.
	ForStore func(l Limit, suits func(store.Store) error) Limit

	// Share prepares a configuration for several limiters, and returns what drains all of them.
	Share func(*Config) (drain func(context.Context) error, err error)
}

// Making says how a limiter is made that core.New would make otherwise.
type Making[Limiter, LimitResult, Reason any] struct {
	Keyless bool     // who asks it gives the keys, and its limits have no By
	Catalog bool     // who asks it says which of its limits to ask; it has any number of them
	Next    *Limiter // the catalog whose place it takes, or nil
	Live    bool     // Replace can change it
	Refused bool     // a change of it is refused at present
	Check   bool     // tell nobody, and return none

	// Remote decides in place of the limits, unless it returns an error.
	Remote func(context.Context, Question) (Verdict[LimitResult, Reason], error)
}

// Facts are what an adapter asks a limiter once.
type Facts struct {
	Limits  func() int // how many results a decision can have now
	Live    bool       // Limits changes
	Settles bool       // some decisions reserve something
}

// door is the one Door, a pointer. It is set before any function of those packages runs, and never changes.
var door any

// Open is called by core when it is initialized.
func Open[Config, Decision, Header, Limit, Limiter, LimitResult, Outcome, Reason, Warning any](d *Door[Config, Decision, Header, Limit, Limiter, LimitResult, Outcome, Reason, Warning]) {
	door = d
}

// Enter returns the Door. Its types are those of core, or it panics when a program starts.
func Enter[Config, Decision, Header, Limit, Limiter, LimitResult, Outcome, Reason, Warning any]() *Door[Config, Decision, Header, Limit, Limiter, LimitResult, Outcome, Reason, Warning] {
	return door.(*Door[Config, Decision, Header, Limit, Limiter, LimitResult, Outcome, Reason, Warning])
}

// Scratch is working memory for a decision, which can be used again. Its zero value is ready to use.
type Scratch struct{ Memory Memory }

// Memory is what core keeps in a [Scratch].
type Memory interface{ Forget() }

// Reservation is what a decision has reserved.
type Reservation interface {
	// ReadsOutcome reports whether settling it reads how the request ended.
	ReadsOutcome() bool
}
