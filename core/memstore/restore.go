package memstore

import (
	"context"

	"github.com/weblimit/weblimit/core/store"
)

var _ store.Restorer = (*Store)(nil)

// Restore implements [store.Restorer]. Its only errors are those of [store.ValidRestore].
func (m *Store) Restore(_ context.Context, checks []store.Check, from []store.Restoration, results []store.Result) error {
	if err := store.ValidRestore(checks, from, results); err != nil {
		return err
	}
	m.update(checks, func(now int64, states []store.State) { store.Restore(now, checks, from, states, results) })
	return nil
}
