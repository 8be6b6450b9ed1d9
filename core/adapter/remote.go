package adapter

import (
	"context"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/seam"
	"github.com/weblimit/weblimit/keyfuncs"
)

var newRemote = seam.NewRemote.(func(core.Config, func(context.Context, Question) (Verdict, error)) (*core.Limiter, error))

// Question is what a limiter of [NewRemote] asks.
type Question = struct {
	Request keyfuncs.Request // nil for a question about Key
	Key     string
	Cost    int64 // of Key
	Peek    bool  // charge nothing
}

// Verdict is the answer to a [Question].
type Verdict = struct {
	Allowed    bool
	Reason     core.Reason
	RetryAfter time.Duration
	Delay      time.Duration      // how long the request waits for its turn; the limiter holds it
	Results    []core.LimitResult // nothing else may use it afterwards. Rules are kept as long as the limiter: use one for all equal ones
	What       string             // is missing, or ambiguous, if that is the reason
	Challenge  string             // of a credential that is missing
	Status     int                // of a denial, or 0 for that of the reason
	Version    string             // of the configuration that decided
	Err        error              // of an outage there
}

// NewRemote returns a limiter whose decisions somebody else makes. config.Limits decide in an outage, when ask
// returns an error: by their outage actions, in this process, divided by config.Replicas. config.Store
// is asked nothing: it tells of outages, so all limiters that ask the same one have the same. Nothing is settled: ask has charged what it has charged.
func NewRemote(config core.Config, ask func(context.Context, Question) (Verdict, error)) (*core.Limiter, error) {
	return newRemote(config, ask)
}
