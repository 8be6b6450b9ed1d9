package pgstore

import (
	"context"
	"slices"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

var _ counting.Restorer = (*Store)(nil)

// Restore implements [counting.Restorer].
func (s *Store) Restore(ctx context.Context, checks []store.Check, from []counting.Restoration, results []store.Result) error {
	if err := counting.ValidRestore(checks, from, results); err != nil {
		return err
	}
	if len(checks) == 0 {
		return nil
	}
	from = slices.Clone(from) // the caller may leave before the server has answered
	restore := operation{bucket: true, run: func(now int64, checks []store.Check, states []counting.State, results []store.Result) {
		counting.Restore(now, checks, from, states, results)
	}}
	return s.do(ctx, restore, checks, results)
}
