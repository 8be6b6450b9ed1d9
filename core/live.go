package core

import (
	"slices"
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

// suitor is an adapter and the values that its requests have; see Limiter.suits.
type suitor struct {
	name   string
	offers []string
}

// now returns the limiter that decides at this moment: l itself unless it is live.
func (l *Limiter) now() *Limiter {
	if l.live == nil {
		return l
	}
	return l.live.current.Load()
}

// suits is Limiter.suits for the current limiter and all that come after it.
func (v *live) suits(adapter string, offers []string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.current.Load().suits(adapter, offers); err != nil {
		return err
	}
	same := func(s suitor) bool { return s.name == adapter && slices.Equal(s.offers, offers) }
	if !slices.ContainsFunc(v.adapters, same) {
		v.adapters = append(v.adapters, suitor{adapter, offers})
	}
	return nil
}

// Ended reports whether the policy of the limiter was removed, for code that asks [Policies] with
// Config.MayEnd: it is to ask for another limiter. One that has ended still decides, by its last
// configuration, what was asked before.
func (l *Limiter) Ended() bool { return l.live != nil && l.live.ended.Load() }
