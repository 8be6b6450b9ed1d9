// Package named has the limiters of policies that requests name.
package named

import (
	"fmt"
	"sync"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/compose"
)

// Limiters are limiters by the name of their policy. Each is made when it is first asked for, and let go
// once its policy is removed. T is what its owner makes of it. Limiters are safe for concurrent use.
type Limiters[T any] struct {
	settings *compose.Settings
	policies core.Policies
	ready    func(*core.Limiter) (T, error)

	made   sync.Map   // of names to *entry[T]
	making sync.Mutex // held while one is made, so that a policy is followed once; requests under known policies go on
}

type entry[T any] struct {
	limiter *core.Limiter
	ready   bool
	is      T
}

// New returns Limiters by policies, which have everything else of settings. ready may refuse a limiter.
func New[T any](settings *compose.Settings, policies core.Policies, ready func(*core.Limiter) (T, error)) *Limiters[T] {
	return &Limiters[T]{settings: settings, policies: policies, ready: ready}
}

// Get returns the limiter of a policy. Its error is core.ErrNoPolicy if there is no such policy, or no longer.
func (l *Limiters[T]) Get(name string) (is T, err error) {
	if e := l.lookup(name); e != nil && e.ready {
		return e.is, nil
	}
	// Names that there are not are asked for again each time, and not remembered: callers could fill the memory with them.
	l.making.Lock()
	defer l.making.Unlock()
	e := l.lookup(name)
	switch {
	case e == nil:
		e = new(entry[T])
		if e.limiter, err = l.settings.Follow(l.policies, name); err != nil {
			return is, err
		}
		l.tidy()
	case e.ready: // meanwhile
		return e.is, nil
	}
	// A limiter that is refused is kept: it may be another after the next change of its policy.
	made := &entry[T]{limiter: e.limiter}
	if made.is, err = l.ready(e.limiter); err != nil {
		err = &store.ConfigError{Path: fmt.Sprintf("policy %q", name), Err: err}
	}
	made.ready = err == nil
	l.made.Store(name, made)
	return made.is, err
}

// lookup returns what was made for a policy that was not removed since, or nil.
func (l *Limiters[T]) lookup(name string) *entry[T] {
	known, ok := l.made.Load(name)
	if !ok || known.(*entry[T]).limiter.Ended() {
		return nil
	}
	return known.(*entry[T])
}

// tidy lets go of limiters whose policy was removed. That is looked for when a policy is new to this process, so that names
// that come and go don't add up. Called with making held.
func (l *Limiters[T]) tidy() {
	l.made.Range(func(name, e any) bool {
		if e.(*entry[T]).limiter.Ended() {
			l.made.Delete(name)
		}
		return true
	})
}
