package pgstore

import (
	"context"
	"slices"

	"github.com/weblimit/weblimit/core/store"
)

var _ store.Restorer = (*Store)(nil)

// Restore implements [store.Restorer].
func (s *Store) Restore(ctx context.Context, checks []store.Check, from []store.Restoration, results []store.Result) error {
	if err := store.ValidRestore(checks, from, results); err != nil {
		return err
	}
	if len(checks) == 0 {
		return nil
	}
	from = slices.Clone(from) // the caller may leave before the server has answered
	restore := operation{bucket: true, run: func(now int64, checks []store.Check, states []store.State, results []store.Result) {
		store.Restore(now, checks, from, states, results)
	}}
	return s.do(ctx, restore, checks, results)
}
