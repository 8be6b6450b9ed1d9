package core

import (
	"errors"
	"slices"

	"github.com/weblimit/weblimit/core/store"
)

// replace gives live limiters other configurations: all of them, or none if there is an error. Each
// keeps its store and observers, its waiting requests, the warnings that were sent, and what clients
// have used under limits of the same name. A limiter whose configuration has no limits ends: the store
// forgets its declarations. The caller makes sure that nothing else replaces the same limiters
// meanwhile. Without configurations nothing changes but whether a change is refused.
func replace(limiters []*Limiter, configs []Config, refused bool) error {
	if len(configs) > 0 {
		if err := exchangeAll(limiters, configs); err != nil {
			return err
		}
	}
	for _, l := range limiters {
		l.live.refused.Store(refused)
	}
	return nil
}

func exchangeAll(limiters []*Limiter, configs []Config) error {
	next := make([]*Limiter, len(limiters))
	var stores exchanges
	for i, l := range limiters {
		before := l.now()
		if len(configs[i].Limits) == 0 {
			stores.add(before, nil)
			continue
		}
		if registry := configs[i].Store.Registry().Root(); registry != before.shared.Registry {
			return errors.New("weblimit: a limiter can't change its store")
		}
		after, err := build(configs[i], before)
		if err != nil {
			return err
		}
		l.live.mu.Lock()
		defer l.live.mu.Unlock() // an adapter that comes meanwhile is to see the new limiter
		for _, s := range l.live.adapters {
			if err := after.suits(s.name, s.offers); err != nil {
				return err
			}
		}
		stores.add(before, after)
		next[i] = after
	}
	if err := stores.apply(); err != nil {
		return err
	}
	for i, l := range limiters {
		if next[i] == nil {
			l.live.ended.Store(true) // what has begun is decided by the last configuration
			continue
		}
		next[i].waitlist.resize(configs[i].MaxWaiting, configs[i].MaxWaitingPerKey)
		l.live.current.Store(next[i])
	}
	return nil
}

// exchanges are the declarations that stores are to exchange.
type exchanges []exchange

type exchange struct {
	registry *store.Registry
	old, new []store.Declaration
}

// of returns the exchange of one store.
func (e *exchanges) of(registry *store.Registry) *exchange {
	i := slices.IndexFunc(*e, func(x exchange) bool { return x.registry == registry })
	if i < 0 {
		i = len(*e)
		*e = append(*e, exchange{registry: registry})
	}
	return &(*e)[i]
}

// add exchanges the declarations of a limiter for those of another, or takes them back if that is nil.
func (e *exchanges) add(before, after *Limiter) {
	for _, d := range before.declared {
		x := e.of(d.to)
		x.old = append(x.old, d.all...)
	}
	if after == nil {
		return
	}
	for _, d := range after.declared {
		x := e.of(d.to)
		x.new = append(x.new, d.all...)
	}
}

// apply has all stores exchange their declarations, or none.
func (e *exchanges) apply() error {
	for i, x := range *e {
		err := x.registry.Replace(x.old, x.new)
		if err == nil {
			continue
		}
		for _, done := range (*e)[:i] {
			err = errors.Join(err, done.registry.Replace(done.new, done.old))
		}
		return err
	}
	return nil
}
