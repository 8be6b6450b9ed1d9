package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Store is where the state of limits lives: a memstore.Store in one process, a
// redisstore.Store for many. Both give the same answers.
//
// To trace or measure a store, wrap it: embed the Store in a struct and replace the
// methods of interest. Since the wrapper passes on the Registry of the store in it,
// outages, events and blocks remain those of that store. A limiter decides a bare
// memstore.Store by a shorter path than a wrapped one.
//
// A Store is safe for concurrent use. Its methods answer results[i] for
// checks[i], so the slices have one length; a call names a key and rule at most
// once. A store keeps neither slice, nor the keys in them, nor the context past
// the call, and returns by the context's deadline. An error says that nothing is
// known, by a [Error] where its class is; it is never a denial.
type Store interface {
	// Take decides checks together: all are charged, or none is. A shadow check
	// that does not fit stays uncharged and stops nobody. A check of cost 0
	// always fits and charges nothing, and so does one whose operation was charged
	// before: see Check.Once. A check that does not fit a rule with a [Block] counts
	// towards one; a check that a block is for does not fit, be its operation charged
	// before or not.
	Take(ctx context.Context, checks []Check, results []Result) error

	// Peek answers as Take would, and charges nothing. It knows of blocks, and
	// begins none.
	Peek(ctx context.Context, checks []Check, results []Result) error

	// Charge charges the checks whether or not they fit, for what was spent
	// already: a bucket can come to owe a second burst, and no more, before it is
	// full again. Results tell what is left then. It neither reads nor leaves marks
	// of operations: Once is not read.
	Charge(ctx context.Context, checks []Check, results []Result) error

	// Refund gives back what Take charged. It takes the checks and results of
	// that call, passes over those that were not charged, and brings the results
	// up to date. Only units that time has not already returned are given back:
	// those of a window that still counts, or of a bucket less what has refilled
	// since the charge. Calling it twice gives back twice: settle once.
	//
	// It forgets that the operation of a check with Once was charged, if this was
	// the charge, so that a repeat is charged again. To give back a part of what an
	// operation that is done has cost, leave Once out.
	//
	// Of a [Concurrency] limit it frees slots: those that were charged at the
	// result's At and are held still. What a lease has ended meanwhile is passed
	// over, so that nobody frees the slots of another.
	Refund(ctx context.Context, checks []Check, results []Result) error

	// Renew begins the leases of slots anew, of [Concurrency] limits. It takes the
	// checks and results of Take, or of the Renew before it, and passes over those
	// that were not charged, and over those of other limits. At in the results
	// becomes the new time, by which the slots are given back. Slots whose lease has
	// ended are taken again, even beyond the limit, up to twice of it: their request
	// runs. After an error the slots may be held under the old time or the new one:
	// renew and give back by the old one; what is left ends with its lease.
	Renew(ctx context.Context, checks []Check, results []Result) error

	// Reset forgets the checks' keys under the checks' rules, with their blocks;
	// their cost is not read. Of a check with Once it forgets that operation, too; it
	// finds no others.
	Reset(ctx context.Context, checks []Check) error

	// Blocks yields the blocks that hold under the rules, in no order. What comes
	// or goes meanwhile may be among them or not. An error is yielded where a part
	// of the store can't be read; what follows is from the others.
	Blocks(ctx context.Context, rules []*Rule) iter.Seq2[Blocked, error]

	// Block blocks the checks' keys under their rules from now on for d, instead
	// of the blocks that hold. The checks' costs are not read.
	Block(ctx context.Context, checks []Check, d time.Duration) error

	// Unblock forgets the penalties of the checks' keys, and nothing else.
	Unblock(ctx context.Context, checks []Check) error

	// Registry returns what all limiters on the store share, always the same. Embed
	// a [Base] for it. A wrapper returns that of the store in it.
	Registry() *Registry
}

// Check asks whether one limit lets one key spend a cost.
type Check struct {
	Key    []byte // who is limited; valid during the call only
	Rule   *Rule  // the limit's numbers
	Cost   int64  // units, 0 or more
	Shadow bool   // judged, never enforced

	// Once is the key of the operation, which is charged once within Rule.Once: the
	// next Rule.Repeats checks of the same Key, Rule and Once are Allowed, and take
	// nothing, and the one after them is charged again. Only what is taken counts as
	// a repeat: not what another check of the call denies, and no cost of 0. Valid
	// during the call only. Defaults to nil: each check is charged.
	Once []byte
}

// Result is a store's answer to one Check.
type Result struct {
	Allowed    bool          // the check fits its own limit
	Charged    bool          // the cost was taken: every enforced check of the call fitted
	Blocked    bool          // not Allowed: the limit's [Block] holds, or begins with this request
	Repeated   bool          // the operation was charged before: Allowed, not Charged, and nothing was taken
	Cached     bool          // an earlier denial that still holds: the server was not asked again
	Remaining  int64         // units left, from 0 to Rule.Burst
	RetryAfter time.Duration // not Allowed: until the same cost fits, of Concurrency a hint, and no block holds; 0 when waiting can't help
	Window     time.Duration // how long Remaining has to last: the draft's effective window
	ResetAfter time.Duration // until the whole quota is there again, if nobody asks
	At         int64         // when the store decided: microseconds since the epoch, on the store's clock; of slots, the time they go by
}

// Reading is a bucket's state in the integers of its rule's [Scale], from which
// [Rule.Result] derives the answer. Stores that decide elsewhere, as Redis
// does, send readings, so that the derivation stands in one place:
//
//	token bucket    whole ticks until empty of debt; the fraction of a tick over Rate
//	fixed window    units used; microseconds to the window's end
//	calendar        the same
//	sliding window  units used in this window; in the last; ticks since this one began
//	sliding log     units used; microseconds until the cost fits; until one unit fits; until none is used
//	concurrency     slots held; microseconds until the last lease ends
type Reading struct {
	Charged bool
	At      int64 // microseconds since the epoch
	Numbers [4]int64
	Blocked int64 // microseconds until the block that holds ends; 0 if none does
}

// DefaultTimeout is how long a store may take to decide unless told otherwise.
const DefaultTimeout = 100 * time.Millisecond

// MaxChecks is how many checks a call can have, and a limiter limits. The Once of
// a check counts for another, and so does a penalty; of a limiter's limits,
// OncePer and Penalty do.
const MaxChecks = 255

var errLengths = errors.New("weblimit: as many results as checks are needed")

// ValidChecks reports a call that no store can answer: slices of different
// length, more than MaxChecks, a check without rule or with a negative cost, or
// one that is named twice. Stores call it first.
func ValidChecks(checks []Check, results []Result) error {
	if len(checks) != len(results) {
		return errLengths
	}
	if len(checks) > MaxChecks {
		return fmt.Errorf("weblimit: at most %d checks can be decided together, got %d", MaxChecks, len(checks))
	}
	if len(checks) > MaxChecks/3 {
		if n := len(checks) + besides(checks); n > MaxChecks {
			return fmt.Errorf("weblimit: at most %d checks, with their operations and penalties, can be decided together, got %d", MaxChecks, n)
		}
	}
	for i := range checks {
		c := &checks[i]
		if c.Rule == nil {
			return errors.New("weblimit: check without a rule")
		}
		if c.Once != nil && c.Rule.Once == 0 {
			return fmt.Errorf("weblimit: limit %q: an operation's key, but no OncePer", c.Rule.Name)
		}
		if c.Cost < 0 {
			return fmt.Errorf("weblimit: limit %q: cost must not be negative, got %d", c.Rule.Name, c.Cost)
		}
		for j := range checks[:i] {
			if checks[j].Rule.id == c.Rule.id && bytes.Equal(checks[j].Key, c.Key) {
				return fmt.Errorf("weblimit: limit %q: checked twice in one call for one key", c.Rule.Name)
			}
		}
	}
	return nil
}

// besides counts the operations and the penalties of checks.
func besides(checks []Check) (n int) {
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
