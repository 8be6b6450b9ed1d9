package memstore

import (
	"context"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

var _ counting.Restorer = (*Store)(nil)

// Restore implements [counting.Restorer]. Its only errors are those of [counting.ValidRestore].
func (m *Store) Restore(_ context.Context, checks []store.Check, from []counting.Restoration, results []store.Result) error {
	if err := counting.ValidRestore(checks, from, results); err != nil {
		return err
	}
	m.update(checks, func(now int64, states []counting.State) { counting.Restore(now, checks, from, states, results) })
	return nil
}
