// Package ledger is what a book needs of the place where its truth is kept, and the words for that. Two keep it: package
// pgledger in PostgreSQL, and package memledger in this process. Both pass one suite, quota's ledger_test.go.
//
// # How units are counted
//
// An account is the use of a limit by one key in one period. A store counts it in generations. In each it begins
// with a base, which is what the generations before have used, and counts on from there; each change gets the next
// position. So what an account has used is the sum over its generations of used less base: [Total]. Nothing is
// ever added up from increments, and to write a [Position] a second time, late, or from another process, changes
// nothing: of two positions of a generation the higher one holds.
//
// What can go wrong with that is that a store loses changes and gives their positions to others. Then two histories share
// positions, and a position no longer says which of them is meant. It shows in a position that is lower though it was
// told later, or that is the same with other use: [Life.Judge] calls that a suspicion. The generation is then closed
// with the larger use of both, since that much was granted at least, and the account goes on in another one.
//
// # What a crash leaves
//
//   - Between a charge and the flush that writes it: the store has it. Another process finds this one gone
//     ([Ledger.Present]) and writes what the store says.
//   - Between the beginning of a generation and the store's hearing of it: an empty generation, used equal to base, that
//     counts as nothing. The next request begins a further one.
//   - Between a notice's attempt and its settlement: the delivery is due again after its lease, with the same ID.
//   - Between the sending of an increment and [Exports.Sent]: it is sent again with the same ID and the same value, since
//     it was written before it was sent.
package ledger

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/weblimit/weblimit/quota/internal/terms"
)

// Ledger is where a book's truth is.
//
// All methods are safe for concurrent use. Each takes effect as a whole or not at all, and
// may be repeated after an error without counting anything twice, whether or not it had
// taken effect.
type Ledger interface {
	Outbox
	Exports

	// Begin begins a new generation of each account, after [counting.FirstGeneration], which stores begin. It sets
	// answers[i] for openings[i]: the account's total, with which a store is to begin, and the generation's number.
	// positions are written before, as by Flush. An account that is unknown is created.
	Begin(ctx context.Context, openings []Opening, positions []Position, answers []Begun) error

	// Flush writes positions, and the notices in them. It sets the outcome of each.
	Flush(ctx context.Context, positions []Position) error

	// Usage calls yield for each account that is selected, in the order of limit, key and period.
	Usage(ctx context.Context, s Selection, yield func(Use) error) error

	// Days returns the use by day of the accounts that are selected, in the order of limit, key, period
	// and day.
	Days(ctx context.Context, s Selection) ([]DayUse, error)

	// Tenants returns up to n tenants of a limit, in order, after the key of an account: those that
	// have used something in its period, and those of whom there were changes before its end.
	Tenants(ctx context.Context, after Account, n int) ([]string, error)

	// Open returns up to n accounts that had not ended at a time, in order, beginning after
	// one. It is how a book reconciles: it walks through them.
	Open(ctx context.Context, at int64, after Account, n int) ([]Standing, error)

	// Apply makes a change to what tenants may use, once. It returns false if the change's
	// operation was applied before, and [terms.ErrReused] if that was another change.
	Apply(ctx context.Context, c *terms.Change) (applied bool, err error)

	// Facts returns what the allowances of tenants under a limit are computed of.
	Facts(ctx context.Context, limit string, tenants []string) (map[string]*terms.Facts, error)

	// Listen calls changed for each change by any process, from when ready is called until
	// ctx is done or the ledger fails. Limit or tenant is empty for all.
	Listen(ctx context.Context, ready func(), changed func(limit, tenant string)) error

	// Prepare makes room for the accounts of the months around now.
	Prepare(ctx context.Context, now time.Time) error

	// Present records that a process is using the ledger for some limits, and returns the
	// processes that were not heard of for a time and have no others. They may have left positions behind
	// that are not written. It is up to the caller to look for them, and then to call Leave; no
	// other process is asked to for as long. clock is what the ledger's clock says, if it has one of its own.
	Present(ctx context.Context, process string, limits []string, lost time.Duration) (gone []string, clock time.Time, err error)

	// Declare records limits of a process, in place of what was declared of them before, and
	// Declarations returns all, in the order of their names.
	Declare(ctx context.Context, all []Declaration) error
	Declarations(ctx context.Context) ([]Declaration, error)

	// Leave ends what Present began: all positions of the processes are written.
	Leave(ctx context.Context, processes ...string) error

	// Detach takes the months before a time out of the ledger: for good: queries and statements have them no more.
	Detach(ctx context.Context, before time.Time) (tables []string, err error)
}

// Account names one account: the use of a limit by one key in one period.
type Account struct {
	Limit      string
	Key        string // as text: see TextOf
	Start, End int64  // of the period, in microseconds since the epoch
}

// Selection selects accounts.
type Selection struct {
	Limit, Key string   // empty for all
	Keys       []string // nil for all
	From, To   int64    // periods that overlap this time, in microseconds since the epoch
}

// Selects reports whether an account is selected.
func (s *Selection) Selects(a *Account) bool {
	return (s.Limit == "" || s.Limit == a.Limit) && (s.Key == "" || s.Key == a.Key) && (s.Keys == nil || slices.Contains(s.Keys, a.Key)) &&
		a.End > s.From && a.Start < s.To
}

// Opening asks for a new generation of an account.
type Opening struct {
	Account

	// Closes is the store's last state of a generation that is over and not to be written any more; nil for none. Its
	// position can be below the ledger's, since the store has lost changes. The generation ends
	// with the larger use of both: that much was granted at least.
	Closes *Position
}

// Begun is a generation that has begun.
type Begun struct {
	Generation int64
	Total      int64 // units used before it: it begins with these
}

// Position is the state of an account in a store at one time. It says how much is used, not
// how much was added: writing it twice changes nothing.
type Position struct {
	Account
	Date     int32 // the day on which the last unit was charged, in days since the epoch, where the limit's calendar is
	Position int64 // generation and number of changes, which orders all positions of an account
	Used     int64 // units used, with those that the generation began with
	At       int64 // when, by the store's clock

	// What the account's notices need: the rule's quota and soft limit when it was charged, and the
	// levels that were reached, as a bit for each of Config.Levels.
	Hard, Included int64
	Levels         uint64

	Outcome Outcome
	Known   int64 // of a suspect, a position that the store can't be below, unless it was set back

	KnownUsed int64 // there
}

// Generation returns the generation of the position.
func (p *Position) Generation() int64 { return p.Position >> GenerationShift }

// MaxBase is the most units that a generation begins with: no store counts further. What was used
// beyond counts in the generations before.
const MaxBase = 1<<51 - 1

// GenerationShift is where the generation of a position begins: see store.Ledger.
const GenerationShift = 36

// Outcome is what became of a position that was flushed.
type Outcome uint8

// The outcomes of a flush.
const (
	Written Outcome = iota // the ledger has it, or knows a later one

	// Suspect says that the ledger knows a position that is higher, though older. The store may
	// have lost changes, and given their numbers to others since.
	Suspect

	// Closed says that the generation was closed, because the store had lost changes of it.
	Closed
)

// Use is what an account has used.
type Use struct {
	Account
	Used int64
}

// DayUse is the use of an account on one day.
type DayUse struct {
	Account
	Date int32 // days since the epoch, in the time zone of the limit
	Used int64
}

// Standing is an account as the ledger knows it.
type Standing struct {
	Account
	Total int64
	Lives []Life // in the order of their generations
}

// Life is one generation of an account as the ledger knows it.
type Life struct {
	Generation int64
	Base       int64 // units used before it
	Position   int64 // the last that was written
	Used       int64 // units used there, with base
	At         int64 // when, by the store's clock
	Closed     bool
}

// Total returns what all generations together have counted.
func Total(lives []Life) (n int64) {
	for i := range lives {
		n += lives[i].Used - lives[i].Base
	}
	return n
}

// Judge says what becomes of a position of a generation that the ledger knows.
func (l *Life) Judge(p *Position) Outcome {
	switch {
	case l.Closed:
		return Closed
	case p.Position < l.Position && p.At > l.At:
		p.Known, p.KnownUsed = l.Position, l.Used
		return Suspect
	case p.Position == l.Position && p.Used != l.Used && p.At > l.At: // that is proof enough
		p.Known = math.MaxInt64
		return Suspect
	}
	return Written
}

// Compare orders accounts by limit, key and period: the order in which all processes write them, so that none waits
// for another in a circle.
func Compare(a, b *Account) int {
	return cmp.Or(cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
}
