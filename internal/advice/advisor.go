package advice

import (
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Advisor gives the advice of one limiter. It is safe for concurrent use once all limits are added.
type Advisor struct {
	looks    atomic.Int64 // requests looked at so far
	answered atomic.Bool  // the store has answered, and was looked at

	*Log
	registry *store.Registry
	rivals   *Rivals

	bypass     []keyfuncs.Condition
	bypassSaid atomic.Bool // Route was logged for a condition of bypass

	limits  []*Limit // of the limiter, in their order; not those for outages
	proxied []*Limit // limits by an address that proxies name
	byRoute []*Limit // limits whose keys contain the route
	byParam []*Limit // limits whose keys contain a parameter of the path

	// Whether a key reads the peer's address, or the client address of the framework.
	readsPeer, readsFramework bool
}

// Settings are what an Advisor knows of its limiter.
type Settings struct {
	Logger   *slog.Logger // nil for slog.Default()
	Silence  []Code
	Registry *store.Registry // of the store
	Rivals   *Rivals         // of the store
	Bypass   []keyfuncs.Condition
	Limits   int // how many it decides by: the first that are added. Others are for outages
}

// New returns the Advisor of a limiter. It gives no advice before its limits are added.
func New(s Settings) *Advisor {
	return &Advisor{
		Log:      &Log{s.Logger, s.Silence},
		registry: s.Registry, rivals: s.Rivals, bypass: s.Bypass, limits: make([]*Limit, 0, s.Limits),
	}
}

// Limit gives the advice on one limit.
type Limit struct {
	Facts
	advisor *Advisor

	routeSaid atomic.Bool  // Route was logged
	costSaid  atomic.Bool  // NeverFits was noticed
	lacked    atomic.Int32 // of the first requests, how many lack the key; below 0 once one had it
}

// Facts are what is known of a limit before a request is seen.
type Facts struct {
	Name   string
	Key    keyfuncs.Func
	When   []keyfuncs.Condition
	Upper  keyfuncs.Condition // of KeepFree or any of Classes; zero if there is none
	Skips  bool               // requests without the key are not limited
	Denies bool               // requests without the key are denied
	Scaled bool               // its numbers change
}

// Add adds a limit, before the limiter decides anything.
func (a *Advisor) Add(f Facts) *Limit {
	l := &Limit{Facts: f, advisor: a}
	if len(a.limits) < cap(a.limits) { // which is Settings.Limits
		a.limits = append(a.limits, l)
	}
	if f.Key.ReadsProxies() {
		a.proxied = append(a.proxied, l)
	}
	if f.Key.ReadsParams() && !f.Skips {
		a.byParam = append(a.byParam, l)
	}
	if f.Key.ReadsRoute() {
		a.byRoute = append(a.byRoute, l)
	}
	a.readsPeer = a.readsPeer || f.Key.Reads(keyfuncs.Peer())
	a.readsFramework = a.readsFramework || f.Key.Reads(keyfuncs.Framework())
	return l
}

// Ready says that all limits are added.
func (a *Advisor) Ready() { a.rivals.know(a) }

// GoOn has the Advisor go on where that of the limiter before has left off.
func (a *Advisor) GoOn(before *Advisor) {
	a.looks.Store(before.looks.Load())
	a.answered.Store(before.answered.Load())
}

// has reports whether the limiter has a limit of that name.
func (a *Advisor) has(limit string) bool {
	return slices.ContainsFunc(a.limits, func(l *Limit) bool { return l.Name == limit })
}

// bypasses reports whether Config.Bypass lets a request through.
func (a *Advisor) bypasses(r keyfuncs.Request) bool {
	return slices.ContainsFunc(a.bypass, func(c keyfuncs.Condition) bool { return c.Match(r) })
}

// mayApply reports whether no condition of the limit says that it does not apply.
func (l *Limit) mayApply(r keyfuncs.Request) bool {
	return !slices.ContainsFunc(l.When, func(c keyfuncs.Condition) bool { return c.Ask(r) == keyfuncs.No })
}
