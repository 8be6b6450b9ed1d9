// Package shelf is where packages lay the numbers of what they have made of a store, for pages, commands and metrics that
// do not import them: on the Registry of the store, one shelf for each type of numbers.
package shelf

import (
	"slices"
	"sync"

	"github.com/weblimit/weblimit/core/store"
)

// shelf is attached to the Registry of a store.
type shelf[T any] struct {
	mu  sync.Mutex
	all []*func() T // replaced, and not changed. Guarded by mu.
}

// key is the key under which it is attached.
type key[T any] struct{}

func of[T any](r *store.Registry) *shelf[T] {
	return r.Attach(key[T]{}, func() any { return new(shelf[T]) }).(*shelf[T])
}

// Add adds numbers, until remove is called. tell must not wait for a server.
func Add[T any](r *store.Registry, tell func() T) (remove func()) {
	s, added := of[T](r), &tell
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(slices.Clone(s.all), added)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = slices.DeleteFunc(slices.Clone(s.all), func(other *func() T) bool { return other == added })
	}
}

// All returns all numbers of a type that were added, in their order.
func All[T any](r *store.Registry) []T {
	s := of[T](r)
	s.mu.Lock()
	tellers := s.all
	s.mu.Unlock()
	all := make([]T, len(tellers))
	for i, tell := range tellers {
		all[i] = (*tell)()
	}
	return all
}
