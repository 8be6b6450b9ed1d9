package adapter

import (
	"context"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/seam"
	"github.com/weblimit/weblimit/keyfuncs"
)

var (
	together   = seam.Together.(func(context.Context, string, time.Duration, []Ask) error)
	peek       = seam.PeekTogether.(func(context.Context, time.Duration, []Ask) error)
	letEnd     = seam.LetEnd.(func(*core.Config))
	mayEnd     = seam.MayEnd.(func(core.Config) bool)
	settleHeld = seam.SettleHeld.(func(*core.Limiter, []Held, time.Duration, bool, core.Outcome))
)

// Ask is one of the questions of [Together], and after it the answer.
type Ask = struct {
	Limiter *core.Limiter

	// Request is what the limits read their keys, conditions, tiers and costs from. If it is nil, all
	// limits are asked for Key, as by [core.Limiter.AllowKey].
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

	Hold bool // list in Held what was charged

	Decision core.Decision

	// Delay is how long the caller has to wait before it goes on, under [core.Limit.Wait] and
	// [core.Limit.SlowDown]: Together does not wait.
	Delay time.Duration

	Held []Held // what was charged by the store, if Hold is set; nothing in an outage

	// Unsettled is set if a limit was charged that is settled when a request ends: by Estimate, RefundOn
	// or Concurrent. Nothing settles it but Settle, with what is Held.
	Unsettled bool
}

// Held is a charge that can be settled later, by any process that uses the store.
type Held = struct {
	Rule     core.Rule
	Key      []byte
	Once     []byte // the operation that it belongs to, or nil
	Cost     int64
	Estimate bool // by Limit.Estimate or by a cost that the question gave, to be corrected later
	Result   core.Result

	// For Settle: the real cost is known, and what it is.
	Told  bool
	Spent int64
}

// AskError says why questions can't be decided together, and which question is the reason.
type AskError = seam.AskError

// Together decides several questions all or nothing, by one call of the store that their limiters
// share. If one is denied, the others are denied with [core.ReasonDeniedTogether], and nothing is
// charged. Questions that charge one key under one limit are charged their sum.
//
// Nobody waits for a turn: see Ask.Delay. Nothing is settled afterwards, but what is Held. timeout bounds
// the store's time, and so does the timeout of each limiter; 0 is no bound. In an outage each
// question is decided by the outage actions of its limits; if one is denied, what others were
// granted is given back.
//
// The error is an [*AskError]: the questions can't be decided together, whatever the store says. They name
// a limit that is none, ask a limit for one key with different numbers, or count for more than
// a call of the store can have. It is never a denial and never an outage. Nothing was decided then.
func Together(ctx context.Context, name string, timeout time.Duration, asks []Ask) error {
	return together(ctx, name, timeout, asks)
}

// PeekTogether is what [Together] would decide. It charges nothing, and observers don't hear of it.
// Its error is an [*AskError], or that of the store: there is no outage action. With Hold, Held has what
// the questions would charge.
func PeekTogether(ctx context.Context, timeout time.Duration, asks []Ask) error {
	return peek(ctx, timeout, asks)
}

// Settle corrects, in the background, charges that were Held age ago, to what is Spent where that is
// Told. Others change as [core.Limit.RefundOn] says for the outcome, and slots of a Concurrent limit are given
// back. With refund everything is given back. The caller makes sure that it happens once. Drain waits for it.
func Settle(limiter *core.Limiter, held []Held, age time.Duration, refund bool, o core.Outcome) {
	settleHeld(limiter, held, age, refund, o)
}

// Follow is Policy for programs whose requests name the policy. It returns the error: one that is
// [core.ErrNoPolicy] if there is no such policy. A limiter may have [Ended] later: its policy can be removed.
func (s *Settings) Follow(policies core.Policies, name string) (*core.Limiter, error) {
	config := s.config
	letEnd(&config)
	return policies.Limiter(config, name)
}

// MayEnd reports whether a limiter by config may end with its policy, for [core.Policies] that can be
// removed: whoever has asked them, by [Settings.Follow], looks for [Ended]. Policies around others pass it
// on with the configuration that they are given.
func MayEnd(config core.Config) bool { return mayEnd(config) }

// TrySettings is [NewSettings] that returns an error instead of a panic.
func TrySettings(config core.Config) (*Settings, error) {
	if err := prepare(&config); err != nil {
		return nil, err
	}
	return &Settings{config}, nil
}
