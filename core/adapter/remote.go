package adapter

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
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
// returns an error: by their outage policies, in this process, divided by config.Replicas. config.Store
// is that of Stands. Nothing is settled: ask has charged what it has charged.
func NewRemote(config core.Config, ask func(context.Context, Question) (Verdict, error)) (*core.Limiter, error) {
	return newRemote(config, ask)
}

// Stands is the store of limiters of [NewRemote], of which all that ask the same one have the same: it
// holds nothing but what is known of outages. Its zero value is ready to use.
type Stands struct{ store.Base }

var _ core.Store = (*Stands)(nil)

var errNoStore = errors.New("weblimit: the limits are those of a service: ask it")

// Take implements [core.Store]: it returns an error, as all methods do.
func (*Stands) Take(context.Context, []core.Check, []core.Result) error { return errNoStore }

// Peek implements [core.Store].
func (*Stands) Peek(context.Context, []core.Check, []core.Result) error { return errNoStore }

// Charge implements [core.Store].
func (*Stands) Charge(context.Context, []core.Check, []core.Result) error { return errNoStore }

// Refund implements [core.Store].
func (*Stands) Refund(context.Context, []core.Check, []core.Result) error { return errNoStore }

// Renew implements [core.Store].
func (*Stands) Renew(context.Context, []core.Check, []core.Result) error { return errNoStore }

// Reset implements [core.Store].
func (*Stands) Reset(context.Context, []core.Check) error { return errNoStore }

// Block implements [core.Store].
func (*Stands) Block(context.Context, []core.Check, time.Duration) error { return errNoStore }

// Unblock implements [core.Store].
func (*Stands) Unblock(context.Context, []core.Check) error { return errNoStore }

// Blocks implements [core.Store].
func (*Stands) Blocks(context.Context, []*core.Rule) iter.Seq2[core.Blocked, error] {
	return func(yield func(core.Blocked, error) bool) { yield(core.Blocked{}, errNoStore) }
}
