package seam

import (
	"context"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Ask is a question for a limiter, which is decided together with others, and after it the answer.
type Ask[Decision, Limiter, Warning any] struct {
	Limiter *Limiter

	// Request is what the limits read their keys, conditions, tiers and costs from. If it is nil, all
	// limits are asked for Key, as by core.Limiter.AllowKey.
	Request keyfuncs.Request

	// Seen is the request that observers are shown, and for questions without Request the one that
	// Config.Bypass is asked about. It may be nil.
	Seen keyfuncs.Request

	Key string

	// Cost, if HasCost is set, and Costs, by the names of limits, replace the costs that limits have or
	// compute. A question for a Key costs 1 by default.
	Cost    int64
	HasCost bool
	Costs   map[string]int64

	// Operation is remembered for ten minutes with each charge: a question with the same operation
	// and the same keys is then allowed and charged nothing, so that a caller that did not see the answer can ask
	// again. Slots of a Concurrent limit are taken again. Defaults to none.
	Operation []byte

	// AtMost grants as many of Cost units as fit, as core.Limiter.AllowAtMost does. Such a question is alone in its
	// call, and has no Costs and no Operation.
	AtMost bool

	Hold bool // list in Held what was charged
	Warn bool // list in Warnings what core.Config.OnWarning is told of, which is called as well

	// Entries are which limits of a catalog are asked, in place of all that is above but Limiter. Such a
	// question is alone in its call. Apart charges each of them by itself, whatever the others say.
	Entries []Entry
	Apart   bool

	Decision Decision
	Granted  int64 // of Cost, with AtMost

	// Delay is how long the caller has to wait before it goes on, under core.Limit.Wait and
	// core.Limit.SlowDown: nobody waits in a call.
	Delay time.Duration

	Held []Held // what was charged by the store, if Hold is set; nothing in an outage

	// Unsettled is set if a limit was charged that is settled when a request ends: by Estimate, RefundOn
	// or Concurrent. Nothing settles it but Settle, with what is Held.
	Unsettled bool

	// Warnings have the keys that are made of nothing but the Request, and Key.
	Warnings []Warning

	Results []store.Result // of what was given back to Entries
}

// Entry is what a question asks one limit of a catalog. It asks no limit twice for one key.
type Entry struct {
	Limit int         // its place in Config.Limits
	Rule  *store.Rule // instead of the limit's own numbers, with the limit's name; nil for those
	Key   []byte      // any bytes; what does not suit a store is hashed
	Cost  int64       // 0 or more; with 0 the limit charges nothing, and denies if nothing remains

	// AnyOf has the limit deny only if all limits with AnyOf in the call deny. Those that have room
	// are charged, and those that have none only if the units are Spent.
	AnyOf bool

	// Spent says that the units are spent already: they are charged whether or not they fit, and
	// whether or not the call is denied. That holds for limits in shadow mode and with AnyOf, too.
	Spent bool
}

// Held is a charge that can be settled later, by any process that uses the store.
type Held struct {
	Rule     store.Rule
	Key      []byte
	Once     []byte // the operation that it belongs to, or nil
	Cost     int64
	Estimate bool         // by Limit.Estimate, to be corrected later
	Given    bool         // by a cost that the question gave, which can be corrected, too
	Share    *store.Share // the client's part of the limit, or nil
	Spare    bool         // not charged: costs of the one before can go on to it, see Limit.SpillOver
	Result   store.Result

	// For Settle: the real cost is known, and what it is.
	Told  bool
	Spent int64
}

// Call says how questions are asked together.
type Call struct {
	Adapter string
	Timeout time.Duration // bounds the store's time, as that of each limiter does; 0 is no bound
	Verb    Verb
}

// Verb is what a call does.
type Verb uint8

const (
	Take     Verb = iota // decides, and charges what is allowed
	Peek                 // decides without a charge, and without observers
	GiveBack             // gives the costs of Entries back, at most what is used
)

// AskError says why questions can't be decided together.
type AskError struct {
	Ask  int // the question that it is about
	Text string
}

func (e *AskError) Error() string { return "weblimit: " + e.Text }

// Question is what a limiter asks that has somebody else decide.
type Question struct {
	Request keyfuncs.Request // nil for a question about Key
	Key     string
	Cost    int64 // of Key, or of a batch
	AtMost  bool  // grant as many of Cost units as fit: a batch
	Peek    bool  // charge nothing
}

// Verdict is the answer to a [Question].
type Verdict[LimitResult, Reason any] struct {
	Allowed    bool
	Reason     Reason
	Granted    int64 // units of a batch
	RetryAfter time.Duration
	Delay      time.Duration // how long the request waits for its turn; the limiter holds it
	Results    []LimitResult // nothing else may use it afterwards. Rules are kept as long as the limiter: use one for all equal ones
	What       string        // is missing, or ambiguous, if that is the reason
	Challenge  string        // of a credential that is missing
	Status     int           // of a denial, or 0 for that of the reason
	Version    string        // of the configuration that decided
	Classes    []string      // of the request under the limit of each result, "" for limits without; or nil
	Err        error         // of an outage there

	// Held is what may still change when the request has ended, or nil. Estimated are those of Results that
	// were charged by an estimate, and RenewIn is after which time Held has to be renewed while the request runs.
	Held      Elsewhere
	Estimated []int
	RenewIn   time.Duration
}

// Elsewhere is what somebody else holds for a request that it has decided. Its methods are called in the background, one at
// a time.
type Elsewhere interface {
	// Settle says how the request ended. After a [store.Error] it is called again later, and after any other error not.
	Settle(context.Context, Ending) error

	// Renew keeps what is held from expiring. It returns when that is due again, or 0 for not at all.
	Renew(context.Context) (again time.Duration)
}

// Ending is how a request ended whose charges are held elsewhere.
type Ending struct {
	Refund bool             // everything: the request was denied after all. Nothing else counts then
	Costs  map[string]int64 // that the handler reported, by the names of limits

	// Of core.Outcome, what its tests for Limit.RefundOn read.
	Status                       int
	Canceled, Panicked, TimedOut bool
	Waited, Duration             time.Duration
}
