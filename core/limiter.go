package core

import (
	"context"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/advice"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Limiter decides requests by its limits. It is safe for concurrent use and has
// nothing to close.
type Limiter struct {
	// What every decision reads comes first, in two cache lines.
	live         *live // nil if the limiter stays as it is made
	store        Store
	direct       *Memory // set if the short path applies: one limit, a memory store, nothing to settle, no observer
	advisor      *advice.Advisor
	limits       []limit
	bypass       []keyfuncs.Condition
	observers    []Observer // nil if there is none
	follows      bool       // some limit wants to know what becomes of a request, or delays it
	readsOutcome bool       // some limit wants to know how a request ended
	waits        bool       // some limit delays requests

	remote   remote  // decides in place of the limits, unless it does not answer; nil for none
	observed *Memory // as direct, if there is an observer
	timeout  time.Duration
	shared   *shared   // while the store is out; shared by the store's limiters
	fallback *fallback // what Config.Fallback asks for, or nil
	headers  headerStyle
	policies policies // of rules that depend on the request
	details  []detail

	missingKey MissingKeyAnswer
	onWarning  func(context.Context, Warning)
	warned     func() *Memory // which warnings were sent; made when first needed
	waitlist   *waitlist
	needs      []need // values of a framework that requests must have
	version    string
	declared   []declarations // what stores are told of the limits
}

// declarations are what one store is told of a limiter's limits.
type declarations struct {
	to  *store.Registry
	all []store.Declaration
}

// limit is a Limit made ready.
type limit struct {
	rule      Rule
	local     Rule // the rule's share of one replica
	replicas  int
	key       keyfuncs.Func
	cost      int64
	costBy    func(keyfuncs.Request) int64 // instead of cost, if not nil
	when      []keyfuncs.Condition
	tiers     *tiers    // nil if the rule is all there is
	scaling   *scaling  // nil if the numbers stay
	classes   *classes  // nil if there is one class of requests
	fair      *fairness // nil if clients do not divide it
	variants  *variants
	missing   MissingKey
	outage    OutageAction
	regions   store.Regions
	leased    bool // regions lease its units
	shadow    bool
	spills    bool // costs beyond its room go on to the next limit of its choice
	choice    int  // the number of the choice that the limit is in; 0 for none
	hidden    bool
	status    int           // of a denial; 0 for 429
	warnAt    []float64     // in rising order
	wait      time.Duration // at most, for a turn
	slow      slowDown
	refundOn  func(Outcome) bool // nil if the charge stays
	estimate  bool               // the handler tells the cost
	upToBurst bool               // an estimate above the burst takes the burst
	least     int64              // units that each of its rules holds: see Limit.least
	shows     bool               // functions of the application may see the request
	plain     bool               // its rule and cost are those of every request that has the key
	once      keyfuncs.Func      // the operation's key, if the rule has Once
	advice    *advice.Limit
}
