package adapter

import (
	"context"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/compose"
)

// Shared is what all limiters of an application share: store, bypasses, headers, denials. An adapter's With returns
// one, or a [SettingsOf], which can do more. M is what enforces limits in its framework, usually middleware. It is safe
// for concurrent use.
type Shared[M any] struct {
	settings *compose.Settings
	enforce  func(*core.Limiter) M
}

// NewShared returns the settings of a configuration without Limits, with the adapter's function that enforces what a
// limiter decides. It panics if the configuration has limits or can never work.
func NewShared[M any](config core.Config, enforce func(*core.Limiter) M) *Shared[M] {
	settings, err := compose.NewSettings(config)
	if err != nil {
		panic(err)
	}
	return &Shared[M]{settings, enforce}
}

// Limit returns middleware that enforces limits with these settings. The limits of one call are
// decided together: all are charged, or none is. Those of several calls on the way of a
// request are decided one after the other, and what the first has charged stays charged if the
// next denies the request. MaxWaiting is for each call.
//
// It panics if there is no limit, or one that can never work, such as a limit without By or
// with the name of another limit of the store. So call it at start-up, not while serving. It also
// panics as New of the adapter does.
func (s *Shared[M]) Limit(limits ...core.Limit) M { return s.enforce(s.Limiter(limits...)) }

// Policy returns middleware that enforces the policy of that name, such as one of a policy.Set: its
// limits, and whatever else it sets instead of these settings. It changes with the policy.
//
// It panics if there is no such policy, or if it can't work with these settings. So call it at
// start-up, not while serving.
func (s *Shared[M]) Policy(policies core.Policies, name string) M {
	return s.enforce(s.settings.Policy(policies, name))
}

// Limiter returns a limiter with these settings, for what middleware does not do, such as
// [core.Limiter.AllowKey] or [core.Limiter.Unblock]. It counts together with the middleware of
// equal limits. It panics as Limit does.
func (s *Shared[M]) Limiter(limits ...core.Limit) *core.Limiter {
	return core.Must(core.New(s.settings.With(limits...)))
}

// Drain waits until the store knows of everything that requests have settled so far, or until
// ctx ends; see [core.Limiter.Drain]. Call it at shutdown, after the server has stopped.
func (s *Shared[M]) Drain(ctx context.Context) error { return s.settings.Drain(ctx) }

// SettingsOf is Shared for frameworks with handlers, which can ask a guard, and whose time can be measured. A is the
// type of Allow of its guards.
type SettingsOf[M, A any] struct {
	Shared[M]
	functions Functions[M, A]
}

// Functions are what an adapter has of its own for [SettingsOf].
type Functions[M, A any] struct {
	// Name is the adapter's, by which observers know it; see [New].
	Name string

	// Enforce returns middleware that enforces what a limiter decides.
	Enforce func(*core.Limiter) M

	// Measure returns middleware by which a load measures the handlers behind it.
	Measure func(*core.Load) M

	// Allow returns Allow of a guard.
	Allow func(*Guard) A
}

// NewSettingsOf is [NewShared] for SettingsOf.
func NewSettingsOf[M, A any](config core.Config, functions Functions[M, A]) *SettingsOf[M, A] {
	return &SettingsOf[M, A]{*NewShared(config, functions.Enforce), functions}
}

// Measure returns middleware by which load measures the handlers behind it, without the time
// that they wait for their clients; see [core.Load]. Fiber has read the body before, and sends the response
// afterwards; there, requests whose body is streamed (StreamRequestBody) are not measured. It panics if load is nil.
func (s *SettingsOf[M, A]) Measure(load *core.Load) M {
	if load == nil {
		panic("weblimit: Settings.Measure: the load is nil")
	}
	return s.functions.Measure(load)
}

// Guard returns a guard of these limits with these settings.
//
// The handler gives key and cost, so the limits have no By and no Cost. It panics if there is one,
// or anything else that has no effect in a handler: OnMissingKey, When, Tiers, KeepFree and OncePer.
// It also panics for what is settled when a request ends, which a guard does not learn: Estimate,
// RefundOn and Concurrent; see [core.Limiter.AllowKey] for these. Otherwise it panics as Limit does.
func (s *SettingsOf[M, A]) Guard(limits ...core.Limit) *GuardOf[A] {
	g := newGuard(s.settings.With(limits...), s.functions.Name)
	return &GuardOf[A]{s.functions.Allow(g), g}
}

// GuardOf asks limits within a handler, for what only the handler knows: a recipient or a number of
// items in the body. It is made by [SettingsOf.Guard], and safe for concurrent use.
type GuardOf[A any] struct {
	// Allow asks the limits for a key and cost, within a request, and reports whether to go on. The response
	// gets the headers of the decision, beside those of the limiters around the handler; see
	// [core.Decision.SetHeaders]. A denial is answered as by the middleware: by Denied of the adapter's Config, or
	// by a problem body. The handler must then return; on Echo and Fiber with the error, which is that of Denied, and
	// nil without one. What was charged stays charged.
	//
	// The key is as in [core.Limiter.AllowKey]: make it by [keyfuncs.Encode], which has "" for an empty
	// value. Requests with the key "" share a bucket. A cost of 0 asks without charging, and a negative
	// one is denied. Config.Bypass, and Skip of the adapter's Config, let requests through. A limit with
	// [core.Limit.Wait] holds the handler until its turn.
	//
	// Ask before the response begins. Gin and Echo notice that it has begun, and write nothing: a handler that streams
	// sees false and ends its stream. With net/http and chi the denial would be written into it. Fiber sends
	// nothing before the handler has returned: a denial replaces what it has written, and a stream that it has set.
	// Where a stream is written, ask by AllowKey of the Limiter.
	//
	// Security: what a body says is the client's choice. It can have any number of keys, and spend what belongs to
	// another key. So have a limit by client in front, and charge another's key only for what
	// concerns them, such as messages to them.
	Allow A

	guard *Guard
}

// Limiter returns the limiter that the guard asks, for other code that counts in the same
// buckets, such as a worker: by [core.Limiter.AllowKey], with the same keys.
func (g *GuardOf[A]) Limiter() *core.Limiter { return g.guard.limiter }

// One returns the Config of an adapter's function that takes at most one: its zero value if there is none. It
// panics if there are more.
func One[Config any](function string, configs []Config) Config {
	var config Config
	if len(configs) > 1 {
		panic("weblimit: " + function + ": more than one Config")
	}
	if len(configs) == 1 {
		config = configs[0]
	}
	return config
}
