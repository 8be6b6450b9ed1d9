package core

import (
	"sync"
	"sync/atomic"
)

// live is a limiter whose configuration can be replaced while it serves. Each request is decided
// and settled by the limiter that is current when it begins.
type live struct {
	current atomic.Pointer[Limiter]
	refused atomic.Bool // the last change was refused; see Stats.Refused
	ended   atomic.Bool // nobody replaces it any more; see Limiter.Ended

	mu       sync.Mutex
	adapters []suitor // that ask the limiter. Guarded by mu.
}

// now returns the limiter that decides at this moment: l itself unless it is live.
func (l *Limiter) now() *Limiter {
	if l.live == nil {
		return l
	}
	return l.live.current.Load()
}

// Ended reports whether the policy of the limiter was removed, for code that asks [Policies] with
// Config.MayEnd: it is to ask for another limiter. One that has ended still decides, by its last
// configuration, what was asked before.
func (l *Limiter) Ended() bool { return l.live != nil && l.live.ended.Load() }
