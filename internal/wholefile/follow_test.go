package wholefile

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
)

// A source tells of a change once. What can't be loaded then is loaded again a Poll later, until it can.
func TestFollowLoadsAgainWhatCouldNotBeLoaded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var loads []time.Duration
		stop := Follow(t.Context(), func(ctx context.Context, changed func()) {
			changed()
			<-ctx.Done()
		}, func(_ context.Context, asked bool) bool {
			check.Equal(t, "asked", asked, false)
			loads = append(loads, time.Since(start))
			return len(loads) == 3
		})
		time.Sleep(10 * Poll)
		stop()
		check.Slices(t, "times of loads", loads, []time.Duration{0, Poll, 2 * Poll})
	})
}

// stop waits for the load that has begun, so that nothing changes after it.
func TestFollowStopsAfterTheLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := false
		stop := Follow(t.Context(), func(ctx context.Context, changed func()) {
			changed()
			<-ctx.Done()
		}, func(ctx context.Context, _ bool) bool {
			<-ctx.Done()
			time.Sleep(time.Minute)
			ended = true
			return true
		})
		synctest.Wait()
		stop()
		check.Equal(t, "the load has ended", ended, true)
	})
}
