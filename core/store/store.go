package store

import (
	"context"
	"iter"
	"time"
)

// Store keeps the state of limits: a memstore.Store for one process, a redisstore.Store
// for many. Both give the same answers.
//
// The rules for all methods:
//
//   - They are safe for concurrent use.
//   - results[i] answers checks[i], so both slices have the same length. A call names a
//     key and rule at most once.
//   - They return by the context's deadline, and keep neither the slices, nor the keys in
//     them, nor the context after that.
//   - An error means that the outcome is unknown; it is never a denial. It is an [Error]
//     where the store knows its class. Charge, Refund and Renew return an [Undone] if they
//     know checks that have not changed anything.
//
// To trace or measure a store, wrap it: embed the Store in a struct and replace the
// methods of interest. The wrapper's Registry is then that of the wrapped store, so that
// outages, events and blocks stay with it. A limiter has a faster path for a memstore.Store
// that is not wrapped.
type Store interface {
	// Take decides checks together: it charges all of them, or none. A shadow check that
	// does not fit is not charged, and does not keep the others from being charged. A
	// check with cost 0 always fits and charges nothing. So does a check whose operation
	// was charged before: see Check.Once. Of a check and its alternatives, see Check.Or, it charges the first that fits.
	//
	// A denial by a rule with a [Block] counts towards a block. While a key is blocked, by that or by hand,
	// no check of it with a cost above 0 fits, not even one whose operation was charged.
	//
	// If the store does not know the account of a [Ledger] check with a cost above 0, the call
	// has no effect at all: see Result.Unknown.
	Take(ctx context.Context, checks []Check, results []Result) error

	// Peek answers as Take would, and charges nothing. It reports blocks, and its denials
	// count towards none.
	Peek(ctx context.Context, checks []Check, results []Result) error

	// Charge charges the checks whether or not they fit, for units that are already
	// spent. A bucket can come to owe its rule's Debt more than it holds, and no more: by default one burst. The
	// results say what is left, and what was not charged for that. Charge does not read Check.Once.
	Charge(ctx context.Context, checks []Check, results []Result) error

	// Refund gives back what Take charged. It takes the checks and results of that call,
	// skips checks that were not charged, and updates the results. It gives back only
	// units that time has not returned already: those of a window that still counts, or
	// those of a bucket less what has refilled since the charge. A bucket whose units don't
	// take whole ticks to refill gives back up to two ticks' refill less, and never more. Two
	// calls give back twice, so a caller refunds once. Refund knows the check's rule alone: if a token bucket has a
	// lower burst and a shorter window by now, it can give back more than is used. Limiters leave such refunds out.
	//
	// If this was the charge of the check's operation (see Check.Once), the operation is
	// forgotten, and a repeat is charged again. To refund a part of an operation that is
	// done, leave Once out.
	//
	// For a [Concurrency] limit it frees the slots that were taken at Result.At, if they
	// are still held. It skips slots whose lease has ended, so that it never frees the
	// slots of another request.
	Refund(ctx context.Context, checks []Check, results []Result) error

	// Renew starts the leases of slots anew. It takes the checks and results of Take, or
	// of the Renew before it. It skips checks that were not charged, and those of other
	// limits than [Concurrency]. Result.At becomes the new time, which identifies the
	// slots from then on. Slots whose lease has ended are taken again, even beyond the
	// limit, up to twice the limit: their request is still running.
	//
	// After an error the slots may be held under the old time or the new one. Renew and
	// refund with the old one; the rest ends with its lease.
	Renew(ctx context.Context, checks []Check, results []Result) error

	// Reset forgets what the checks' keys have used under the checks' rules, and lifts
	// their blocks. It forgets the operation of a check with Once; it can't find other
	// operations. It does not read costs.
	Reset(ctx context.Context, checks []Check) error

	// Blocks yields the blocks in force under the rules, in no order. A key that was blocked by hand
	// before its limit got a penalty can be named twice. Blocks that begin or
	// end meanwhile may be missing or included. It yields an error for a part of the store
	// that can't be read, and goes on with the others.
	Blocks(ctx context.Context, rules []*Rule) iter.Seq2[Blocked, error]

	// Block blocks the checks' keys under their rules for d from now on, in place of any
	// block in force. A rule without a [Block] can block, too: see counting.ManualBlock. It does not read
	// costs. There are up to MaxChecks, as for Unblock, however many records the store has for each.
	Block(ctx context.Context, checks []Check, d time.Duration) error

	// Unblock forgets the penalties of the checks' keys, and blocks that were set by hand: blocks,
	// strikes, and the count of earlier blocks.
	Unblock(ctx context.Context, checks []Check) error

	// Registry returns what all limiters on the store share. It returns the same value
	// each time. An embedded [Base] provides it; a wrapper returns that of the store
	// inside.
	Registry() *Registry
}

// Check asks whether one limit lets one key spend a cost.
type Check struct {
	Key    []byte // the client or whatever else is limited; valid during the call only
	Rule   *Rule  // the limit's numbers
	Cost   int64  // units, 0 or more
	Shadow bool   // decided, but never enforced

	// Or makes the check an alternative to the one before it, which can be one itself. Take charges the first
	// of them that fits, and none of the others: see Result.PassedOver. If none fits, the call is denied. A repeat (see
	// Once) stays with the check that was charged. A block of one of them, by hand, denies
	// all. Only Take and Peek read Or. All alternatives are in shadow mode or none, none has a penalty, and one without a check
	// before it is an error. Defaults to false.
	Or bool

	// Once is the key of an operation that is charged once within Rule.Once. The next
	// Rule.Repeats checks with the same Key, Rule and Once are allowed and charge nothing.
	// The check after them is charged again. A check counts as a repeat only if its call
	// is granted and its cost is above 0. Once is valid during the call only. Defaults to
	// nil: each check is charged.
	Once []byte

	// Share is the client's part of the limit, for a rule with Numbers.Divided, which needs it. Key is then that of the
	// whole. While units are scarce, a client that is over its share does not fit: see Result.Standing. Clients beyond
	// 100,000 in a window, and users of one client beyond 10,000, have no share of their own, and get what others leave. Calls for what
	// was charged read it, too; Reset forgets what this client, and this user, have used. It and what it holds are valid
	// during the call only. Defaults to nil.
	Share *Share

	// Account, if it is set and Rule is a [Ledger], receives the state of the account after the
	// call. It is for books that keep what accounts have used; no answer depends on it. A book's
	// own store sets it for the [Calendar] limits that it keeps. A store
	// sets it wherever it sets the check's result, and leaves it as it was where it leaves the
	// result as it was. It writes to it during the call only, never after the call has returned,
	// even with an error. After an error it says nothing.
	Account *Account
}

// Account is the state of the account of a [Ledger] check, as Check.Account receives it.
type Account struct {
	Used int64 // units of the period that are used

	// Position is above those of all earlier states of the account. It is 0, and so is Used, if
	// the store does not know the account, or repeats a denial without asking (Result.Cached).
	Position int64

	// History stands for the history that the server's data is a part of. It changes when another
	// server takes over, or the same one starts again: then changes may be missing, and positions may be given a
	// second time. It is 0 if the store can't tell.
	History int64

	// Stale says that the account was written in another history. Used and Position are from there, the
	// result is Unknown, and nothing is charged before a counting.Restorer has begun another generation.
	Stale bool
}

// Result is a store's answer to one Check.
//
// If Unknown is set and the check has a cost above 0, Take and Peek have charged nothing at all,
// counted no denial and remembered no operation. Charge and Refund have left out this check, and
// Refund has set Unknown in its result and left the rest as it was.
type Result struct {
	Allowed  bool // the check fits its own limit
	Charged  bool // the cost was charged: every enforced check of the call fitted
	Blocked  bool // not Allowed because of a [Block], which may have begun with this check
	Repeated bool // Allowed and not Charged, because the operation was charged before
	Cached   bool // repeats an earlier denial that is still valid; the server was not asked

	// PassedOver says that the check is one of several alternatives (see Check.Or), and another one of them answers for all: the
	// one that was charged, or would be. If none fits, it is the one to be waited for the shortest time. The rest of the result is what the check would
	// have said by itself.
	PassedOver bool

	// Standing is how the client stands to its share, if the check has one.
	Standing Standing

	Unknown   bool  // the check is a [Ledger] whose account the store does not know, or not for sure; see below
	Remaining int64 // units left, from 0 to Rule.Burst

	// RetryAfter, when denied, is how long until the same cost fits and no block is in
	// force. It is only a hint for concurrency limits and for limits that clients divide. 0 if waiting cannot help.
	RetryAfter time.Duration

	Window time.Duration // how long Remaining has to last: the effective window of the IETF draft

	// ResetAfter is how long until the whole quota is available, if nothing more is charged. For
	// fixed, calendar and ledger windows it is how long until the window ends, even if nothing is
	// used. A window that begins with first use then ends a whole window from At.
	ResetAfter time.Duration

	// Turn, when charged under a rule with Wait, is how long after At the request has its turn: the
	// first tick in which all that the bucket holds fits without queueing. 0 if it has its turn at
	// once.
	Turn time.Duration

	// Share is how many units per window are the client's share at present, rounded down, or a user's if that is what
	// the check is bound by. It rises and falls with what others ask for. 0 for checks without Share.
	Share int64

	// Forgiven, after Charge, is how many units of the cost were not charged, rounded up, since the client owes all that
	// the rule's Debt lets it. They are lost: nothing charges them later.
	Forgiven int64

	// At is when the store decided, by its own clock, in microseconds since the epoch.
	// For slots that were taken it is the time that identifies them: see Store.Refund.
	At int64
}

// DefaultTimeout is how long a store may take to decide by default.
const DefaultTimeout = 100 * time.Millisecond

// MaxTimeout is how long a store may be given at most. With more, requests would wait for a store that
// hangs, and no outage would begin.
const MaxTimeout = 5 * time.Minute

// MaxChecks is the largest number of checks in a call, and of limits of a limiter. A check
// with Once counts twice, and so does one whose rule has a penalty; one with both counts
// three times. The same goes for limits with OncePer and Penalty.
const MaxChecks = 255
