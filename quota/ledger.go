package quota

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"
)

// ledger is where the book's truth is: [pgLedger], or [memoryLedger] for tests and examples.
// Both pass one suite of tests.
//
// All methods are safe for concurrent use. Each takes effect as a whole or not at all, and
// may be repeated after an error without counting anything twice, whether or not it had
// taken effect.
type ledger interface {
	outbox
	exports

	// begin begins a new generation of each account, after [store.FirstGeneration], which stores begin, in answers[i] for openings[i]: the
	// account's total, with which a store is to begin, and the generation's number. positions
	// are written before, as by flush. An account that is unknown is created.
	begin(ctx context.Context, openings []opening, positions []position, answers []begun) error

	// flush writes positions, and the notices in them. It sets the outcome of each.
	flush(ctx context.Context, positions []position) error

	// usage calls yield for each account that is selected, in the order of limit, key and period.
	usage(ctx context.Context, s selection, yield func(use) error) error

	// days returns the use by day of the accounts that are selected, in the order of limit, key, period
	// and day.
	days(ctx context.Context, s selection) ([]dayUse, error)

	// tenants returns up to n tenants of a limit, in order, after the key of an account: those that
	// have used something in its period, and those of whom there were changes before its end.
	tenants(ctx context.Context, after account, n int) ([]string, error)

	// open returns up to n accounts that had not ended at a time, in order, beginning after
	// one. It is how [Book.Reconcile] walks through them.
	open(ctx context.Context, at int64, after account, n int) ([]standing, error)

	// apply makes a change to what tenants may use, once. It returns false if the change's
	// operation was applied before, and [ErrReused] if that was another change.
	apply(ctx context.Context, c *change) (applied bool, err error)

	// facts returns what the allowances of tenants under a limit are computed of.
	facts(ctx context.Context, limit string, tenants []string) (map[string]*facts, error)

	// listen calls changed for each change by any process, from when ready is called until
	// ctx is done or the ledger fails. Limit or tenant is empty for all.
	listen(ctx context.Context, ready func(), changed func(limit, tenant string)) error

	// prepare makes room for the accounts of the months around now.
	prepare(ctx context.Context, now time.Time) error

	// present records that a process is using the ledger for some limits, and returns the
	// processes that were not heard of for a time and have no others. They may have left positions behind
	// that are not written. It is up to the caller to look for them, and then to call leave; no
	// other process is asked to for as long. clock is what the ledger's clock says, if it has one of its own.
	present(ctx context.Context, process string, limits []string, lost time.Duration) (gone []string, clock time.Time, err error)

	// declare records limits of a process, in place of what was declared of them before, and
	// declarations returns all, in the order of their names.
	declare(ctx context.Context, all []declaration) error
	declarations(ctx context.Context) ([]declaration, error)

	// leave ends what present began: all positions of the processes are written.
	leave(ctx context.Context, processes ...string) error

	// detach takes the months before a time out of the ledger: see [Book.Detach].
	detach(ctx context.Context, before time.Time) (tables []string, err error)
}

// account names one account: the use of a limit by one key in one period.
type account struct {
	limit      string
	key        string // as text: see textOf
	start, end int64  // of the period, in microseconds since the epoch
}

// selection selects accounts.
type selection struct {
	limit, key string   // empty for all
	keys       []string // nil for all
	from, to   int64    // periods that overlap this time, in microseconds since the epoch
}

// selects reports whether an account is selected.
func (s *selection) selects(a *account) bool {
	return (s.limit == "" || s.limit == a.limit) && (s.key == "" || s.key == a.key) && (s.keys == nil || slices.Contains(s.keys, a.key)) &&
		a.end > s.from && a.start < s.to
}

// opening asks for a new generation of an account.
type opening struct {
	account

	// closes is the store's last state of a generation that is over and not to be written any more; nil for none. Its
	// position can be below the ledger's, since the store has lost changes. The generation ends
	// with the larger use of both: that much was granted at least.
	closes *position
}

// begun is a generation that has begun.
type begun struct {
	generation int64
	total      int64 // units used before it: it begins with these
}

// position is the state of an account in a store at one time. It says how much is used, not
// how much was added: writing it twice changes nothing.
type position struct {
	account
	date     int32 // the day on which the last unit was charged, in days since the epoch, where the limit's calendar is
	position int64 // generation and number of changes, which orders all positions of an account
	used     int64 // units used, with those that the generation began with
	at       int64 // when, by the store's clock

	// What the account's notices need: the rule's quota and soft limit when it was charged, and the
	// levels that were reached, as a bit for each of Config.Levels.
	hard, included int64
	levels         uint64

	outcome outcome
	known   int64 // of a suspect, a position that the store can't be below, unless it was set back

	knownUsed int64 // there
}

// generation returns the generation of the position.
func (p *position) generation() int64 { return p.position >> generationShift }

// maxBase is the most units that a generation begins with: no store counts further. What was used
// beyond counts in the generations before.
const maxBase = 1<<51 - 1

// generationShift is where the generation of a position begins: see store.Ledger.
const generationShift = 36

// outcome is what became of a position that was flushed.
type outcome uint8

const (
	written outcome = iota // the ledger has it, or knows a later one

	// suspect: the ledger knows a position that is higher, though older. The store may
	// have lost changes, and given their numbers to others since.
	suspect

	// closed: the generation was closed, because the store had lost changes of it.
	closed
)

// use is what an account has used.
type use struct {
	account
	used int64
}

// dayUse is the use of an account on one day.
type dayUse struct {
	account
	date int32 // days since the epoch, in the time zone of the limit
	used int64
}

// standing is an account as the ledger knows it.
type standing struct {
	account
	total int64
	lives []life // in the order of their generations
}

// life is one generation of an account as the ledger knows it.
type life struct {
	generation int64
	base       int64 // units used before it
	position   int64 // the last that was written
	used       int64 // units used there, with base
	at         int64 // when, by the store's clock
	closed     bool
}

// total returns what all generations together have counted.
func total(lives []life) (n int64) {
	for i := range lives {
		n += lives[i].used - lives[i].base
	}
	return n
}

// judge says what becomes of a position of a generation that the ledger knows.
func (l *life) judge(p *position) outcome {
	switch {
	case l.closed:
		return closed
	case p.position < l.position && p.at > l.at:
		p.known, p.knownUsed = l.position, l.used
		return suspect
	case p.position == l.position && p.used != l.used && p.at > l.at: // that is proof enough
		p.known = math.MaxInt64
		return suspect
	}
	return written
}

// compareAccounts orders accounts by limit, key and period: the order in which all processes write them, so that none waits
// for another in a circle.
func compareAccounts(a, b *account) int {
	return cmp.Or(cmp.Compare(a.limit, b.limit), cmp.Compare(a.key, b.key), cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end))
}
