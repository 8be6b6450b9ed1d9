// Code generated from fiberlimit/guard.go by make twins; DO NOT EDIT.

package fiber3limit

import (
	"github.com/gofiber/fiber/v3"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
)

// Guard asks limits within a handler, for what only the handler knows: a recipient or a number of
// items in the body. It is made by [Settings.Guard], and safe for concurrent use.
type Guard struct {
	guard    *adapter.Guard
	config   Config
	routes   routes
	settings settingsCache
}

// Guard returns a guard of these limits with these settings:
//
//	perRecipient := limits.Guard(core.PerHour(20).Named("per-recipient"))
//	…
//	if ok, err := perRecipient.Allow(c, keyfuncs.Encode("to", message.To), 1); !ok {
//		return err
//	}
//
// The handler gives key and cost, so the limits have no By and no Cost. It panics if there is one,
// or anything else that has no effect in a handler: OnMissingKey, When, Tiers, Reserve and OncePer.
// It also panics for what is settled when a request ends, which a guard does not learn: Estimate,
// RefundOn and Concurrent; see [core.Limiter.AllowKey] for these. Otherwise it panics as Limit does,
// and in a process of Prefork as [New] does.
func (s *Settings) Guard(limits ...core.Limit) *Guard {
	g := &Guard{guard: s.shared.Guard("fiber", limits...)}
	if fiber.IsChild() && g.guard.InProcess() {
		panic("weblimit: fiber3limit.Settings.Guard: " + inMemory)
	}
	if len(s.config) == 1 {
		g.config = s.config[0]
	}
	return g
}

// Allow asks the limits for a key and cost, and reports whether to go on. The response gets the
// headers of the decision, beside those of the limiters around the handler; see
// [core.Decision.SetHeaders]. A denial is answered as by the middleware: by [Config.Denied], or
// by a problem body. The handler must then return the error, which is that of
// Denied, and nil without one.
// What was charged stays charged.
//
// The key is as in [core.Limiter.AllowKey]: make it by [keyfuncs.Encode], which has "" for an empty
// value. Requests with the key "" share a bucket. A cost of 0 asks without charging, and a negative
// one is denied. Config.Bypass and [Config.Skip] let requests through. A limit with
// [core.Limit.Wait] holds the handler until its turn.
//
// Fiber sends nothing before the handler has returned: a denial replaces what the handler has written, and
// a stream that it has set. Within a stream writer, c is gone: ask by AllowKey of the Limiter there.
//
// # Security
//
// What a body says is the client's choice: it can have any number of keys, and spend what belongs to
// another key. So have a limit by client in front, and charge another's key only for what
// concerns them, such as messages to them.
func (g *Guard) Allow(c fiber.Ctx, key string, cost int64) (ok bool, err error) {
	if g.config.Skip != nil && g.config.Skip(c) {
		return true, nil
	}
	in := acquire(c, &g.routes, g.settings.of(c))
	d := g.guard.Decide(in, key, cost)
	adapter.SetHeaders(&d, in.header(), &in.headers)
	in.release()
	switch {
	case d.Allowed:
	case g.config.Denied != nil:
		err = g.config.denied(c, &d)
	default:
		deny(c, &d)
	}
	return d.Allowed, err
}

// Limiter returns the limiter that the guard asks, for other code that counts in the same
// buckets, such as a worker: by [core.Limiter.AllowKey], with the same keys.
func (g *Guard) Limiter() *core.Limiter { return g.guard.Limiter() }
