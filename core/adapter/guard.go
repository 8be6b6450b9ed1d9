package adapter

import (
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/seam"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Guard asks limits within a handler, which gives key and cost: what Allow of a [GuardOf] is built on. It is safe for
// concurrent use.
type Guard struct {
	limiter *core.Limiter
	name    string
}

// newGuard returns a guard of config.Limits for an adapter of that name.
func newGuard(config core.Config, name string) *Guard {
	keyless := seam.Making[core.Limiter, core.LimitResult, core.Reason]{Keyless: true}
	return &Guard{core.Must(door.New(config, keyless)), name}
}

// Decide decides for a key and cost as [core.Limiter.AllowKey] does, within the request r.
func (g *Guard) Decide(r keyfuncs.Request, key string, cost int64) core.Decision {
	return door.DecideKey(g.limiter, g.name, r, key, cost)
}

// InProcess is [Limiter.InProcess] for a guard.
func (g *Guard) InProcess() bool { return inProcess(g.limiter) }
