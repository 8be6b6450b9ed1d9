package compose

import (
	"context"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/seam"
)

// Question is what a limiter of [NewRemote] asks: about a Request, or about Key and Cost if that is nil. With
// Peek nothing is to be charged. With AtMost as many of Cost units are to be granted as fit, and the Verdict says in
// Granted how many, at least one if it is Allowed.
type Question = seam.Question

// Verdict is the answer to a [Question]: what the decision is to say. Delay is how long the request waits
// for its turn; the limiter holds it. Nothing else may use Results afterwards; their Rules are kept as long as
// the limiter, so use one for all equal ones. What is what is missing or ambiguous, if that is the reason, and
// Challenge that of a credential that is missing. Status is that of a denial, or 0 for that of the reason.
// Version is that of the configuration that decided, and Err that of an outage there.
type Verdict = seam.Verdict[core.LimitResult, core.Reason]

// Elsewhere is what a [Verdict] has Held.
type Elsewhere = seam.Elsewhere

// Ending is what it is told.
type Ending = seam.Ending

// making is how limiters are made that core.New would make otherwise.
type making = seam.Making[core.Limiter, core.LimitResult, core.Reason]

// NewRemote returns a limiter whose decisions somebody else makes. config.Limits decide in an outage, when ask
// returns an error: by their outage actions, in this process, divided by config.Replicas. config.Store
// is asked nothing: it tells of outages, so all limiters that ask the same one have the same. What ask has
// Held is told how the request ended, in the background, and again while nobody answers; Drain waits for it.
func NewRemote(config core.Config, ask func(context.Context, Question) (Verdict, error)) (*core.Limiter, error) {
	return door.New(config, making{Remote: ask})
}
