package redisstore

import (
	"context"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

var _ counting.Restorer = (*Store)(nil)

// Restore implements [counting.Restorer]. Accounts in several slots are restored at once, each for
// itself: after an error, some may have been. The same call may be made again.
func (s *Store) Restore(ctx context.Context, checks []store.Check, from []counting.Restoration, results []store.Result) error {
	if err := counting.ValidRestore(checks, from, results); err != nil {
		return err
	}
	defer s.denials.forget(checks)
	clear(results) // a slot that does not answer must not look restored
	now := s.serverClock.now()
	var js []*job
	for i := range checks {
		var j *job
		js, j = s.jobFor(js, restore, anySlot, &checks[i])
		j.Clock = now
		j.AddRestoration(i, &checks[i], &from[i])
	}
	_, err := s.runAndRead(ctx, s.sealAll(js), checks, results)
	return err
}
