package compose

import (
	"context"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/seam"
)

// Ask is one of the questions of [Together], and after it the answer.
//
// The limits of Limiter are asked. They read keys, conditions, tiers and costs from Request; if that is nil, all
// of them are asked for Key, as by [core.Limiter.AllowKey]. Seen is the request that observers are shown, and
// for questions without Request the one that Config.Bypass is asked about; it may be nil. Cost, if HasCost
// is set, and Costs, by the names of limits, replace the costs that limits have or compute; a question for a Key
// costs 1 by default.
//
// Operation is remembered for ten minutes with each charge: a question with the same operation
// and the same keys is then allowed and charged nothing, so that a caller that did not see the answer can ask
// again. Slots of a Concurrent limit are taken again.
//
// With AtMost as many of Cost units are granted as fit, as [core.Limiter.AllowAtMost] does, and Granted is how many.
// Such a question is alone in its call, and has no Costs and no Operation. Its calls of the store share the time
// that one has otherwise.
//
// With Warn, Warnings are those of the levels that the question has reached, once per key, level and window over all
// that ask so, whether or not core.Config.OnWarning is set, and calendar windows have the levels that they have with it.
// A Key is left out if it says more than the Request does: one that a function of the application has made, and one
// under a secret.
//
// The answer is Decision. Delay is how long the caller has to wait before it goes on, under [core.Limit.Wait]
// and [core.Limit.SlowDown]: Together does not wait. Held is what was charged by the store, if Hold is set;
// nothing in an outage. Unsettled is set if a limit was charged that is settled when a request ends: by Estimate,
// RefundOn or Concurrent. Nothing settles it but Settle, with what is Held.
//
// Entries, Apart and Results are those of a [Catalog].
type Ask = seam.Ask[core.Decision, core.Limiter, core.Warning]

// Held is a charge that can be settled later, by any process that uses the store: of Cost, for Key under
// Rule, with the store's Result, and for the operation Once if that is not nil. Estimate says that it is to be
// corrected, by Limit.Estimate or since the question gave the cost. For [Settle], Told says that the real cost
// is known, and Spent what it is.
type Held = seam.Held

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
	return door.Together(ctx, seam.Call{Adapter: name, Timeout: timeout}, asks)
}

// PeekTogether is what [Together] would decide. It charges nothing, and observers don't hear of it.
// Its error is an [*AskError], or that of the store: there is no outage action. With Hold, Held has what
// the questions would charge.
func PeekTogether(ctx context.Context, timeout time.Duration, asks []Ask) error {
	return door.Together(ctx, seam.Call{Timeout: timeout, Verb: seam.Peek}, asks)
}

// Settle corrects, in the background, charges that were Held age ago, to what is Spent where that is
// Told. Others change as [core.Limit.RefundOn] says for the outcome, and slots of a Concurrent limit are given
// back. With refund everything is given back. The caller makes sure that it happens once. Drain waits for it.
func Settle(limiter *core.Limiter, held []Held, age time.Duration, refund bool, o core.Outcome) {
	door.Settle(limiter, held, age, refund, o)
}
