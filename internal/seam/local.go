package seam

import (
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/store"
)

// Local returns what decides in this process while a store does not answer: one for all limiters on it.
func Local(s store.Store) *memstore.Store {
	return s.Registry().Root().Attach(localKey{}, func() any { return memstore.New() }).(*memstore.Store)
}

type localKey struct{}
