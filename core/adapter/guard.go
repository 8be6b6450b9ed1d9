package adapter

import (
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/seam"
	"github.com/weblimit/weblimit/keyfuncs"
)

var (
	guard       = seam.Guard.(func(*core.Config, []core.Limit) (*core.Limiter, error))
	decideGuard = seam.DecideGuard.(func(*core.Limiter, string, keyfuncs.Request, string, int64) core.Decision)
)

// Guard asks limits within a handler, which gives key and cost: what an adapter's Guard is built
// on. It is safe for concurrent use.
type Guard struct {
	limiter *core.Limiter
	name    string
}

// Guard returns a guard of these limits for an adapter of that name. It panics if a limit can never
// work, or has something that has no effect in a handler: By, OnMissingKey, Cost, When, Tiers,
// KeepFree, OncePer, and what is settled when a request ends.
func (s *Settings) Guard(name string, limits ...core.Limit) *Guard {
	return &Guard{core.Must(guard(&s.config, limits)), name}
}

// Decide decides for a key and cost as [core.Limiter.AllowKey] does, within the request r.
func (g *Guard) Decide(r keyfuncs.Request, key string, cost int64) core.Decision {
	return decideGuard(g.limiter, g.name, r, key, cost)
}

// Limiter returns the limiter that the guard asks.
func (g *Guard) Limiter() *core.Limiter { return g.limiter }

// InProcess is [Limiter.InProcess] for a guard.
func (g *Guard) InProcess() bool { return inProcess(g.limiter) }
