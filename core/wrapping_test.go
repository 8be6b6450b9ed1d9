package core_test

import (
	"errors"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// unregistered is a wrapper that does not pass on its store's registry.
type unregistered struct{ core.Store }

func (*unregistered) Registry() *store.Registry { return nil }

// A wrapper that hides its store's registry would have each limiter grant a shared
// limit anew in an outage.
func TestAStoreWithoutRegistryIsAnError(t *testing.T) {
	t.Parallel()
	bare := &unregistered{core.NewMemory()}
	for _, config := range []core.Config{
		{Store: bare, Limits: []core.Limit{everyone(1)}},
		{Store: core.NewMemory(), Limits: []core.Limit{everyone(1)}, Fallback: core.Fallback{Store: bare}},
	} {
		if _, err := core.New(config); err == nil {
			t.Error("a store whose Registry is nil was taken")
		}
	}
}

// The store in a wrapper is the store itself: it can't stand in for itself.
func TestAWrappedStoreIsNoFallbackForItself(t *testing.T) {
	t.Parallel()
	m := core.NewMemory()
	_, err := core.New(core.Config{Store: struct{ core.Store }{m}, Limits: []core.Limit{everyone(1)}, Fallback: core.Fallback{Store: m}})
	if err == nil || errors.Unwrap(err) != nil {
		t.Errorf("error %v", err)
	}
}
