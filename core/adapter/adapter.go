package adapter

import (
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/seam"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Limiter is a core.Limiter as one adapter asks it. It is safe for concurrent use.
type Limiter struct {
	limiter *core.Limiter
	name    string
	limits  int // while facts.Live is not set
	facts   seam.Facts
}

// New returns a limiter for an adapter of that name, such as "gin", by which observers know
// it. offers are the types of the framework's values that its requests have, such as
// "*gin.Context" and "*http.Request", for keys and conditions of the framework; see [Key].
// New panics if the limiter needs another.
func New(limiter *core.Limiter, name string, offers ...string) *Limiter {
	facts, err := door.Join(limiter, name, offers)
	if err != nil {
		panic(err)
	}
	return &Limiter{limiter, name, facts.Limits(), facts}
}

// Decide decides a request as [core.Limiter.Allow] does, and writes the decision to c, where
// it stays: each copy of a decision costs as much as making a key. c.Decision must be zero,
// and nothing else may use c meanwhile. c.Context is not read.
//
// room is for the results of more than one limit; see Limits. Without enough room they are
// one allocation more. Nothing else may use it, before or after.
func (l *Limiter) Decide(r keyfuncs.Request, c *Context, room []core.LimitResult) {
	door.Decide(l.limiter, nil, l.name, r, &c.Decision, room)
}

// Scratch is working memory for [Limiter.DecideIn]. Its zero value is ready to use.
type Scratch = seam.Scratch

// DecideIn is Decide for adapters that keep memory for requests and use it again, as in a
// [sync.Pool]: with a Scratch there, a decision need not get its working memory from another pool,
// which takes as long as to hash a key. Nothing else may use s meanwhile, and after a panic it can't
// be used again. What belongs to the request is not kept in s.
func (l *Limiter) DecideIn(s *Scratch, r keyfuncs.Request, c *Context, room []core.LimitResult) {
	door.Decide(l.limiter, s, l.name, r, &c.Decision, room)
}

// Reserved reports whether the request was charged something that may still change: then
// [core.Decision.Settle] must be called when the request ends, by a panic too. Otherwise
// there is nothing to do.
func (l *Limiter) Reserved(d *core.Decision) bool {
	return l.facts.Settles && door.Reservation(d) != nil
}

// Limits returns how many results a decision can have, so that an adapter can allocate room
// for several together with the Context. The limits of a policy may be others by the time
// that it decides: room that is too small costs an allocation, and nothing else.
func (l *Limiter) Limits() int {
	if l.facts.Live {
		return l.facts.Limits()
	}
	return l.limits
}

// InProcess reports whether the limiter counts in this process only, as with a
// [core.Memory], wrapped or not: n processes then allow n times its limits. An adapter for a
// server that starts further processes should refuse that.
func (l *Limiter) InProcess() bool { return inProcess(l.limiter) }

func inProcess(l *core.Limiter) bool { return l.Store().Registry().Server().InProcess }

// ReadsOutcome reports whether Settle reads the outcome: otherwise an adapter need not find
// out how the request ended.
func ReadsOutcome(d *core.Decision) bool {
	r := door.Reservation(d)
	return r != nil && r.ReadsOutcome()
}
