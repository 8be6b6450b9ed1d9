package fiberhttp

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
)

// A request is settled once if it is abandoned at its deadline or soon behind it, and not if its response is sent.
func TestWatch(t *testing.T) {
	t.Parallel()
	const never = time.Hour
	for name, tt := range map[string]struct {
		abandoned, sent time.Duration // after the deadline
		settled         int
	}{
		"abandoned":                  {0, never, 1},
		"after a pause":              {2 * time.Second, never, 1},
		"sent before the deadline":   {0, -time.Millisecond, 0},
		"reused, abandoned later":    {50 * time.Millisecond, 40 * time.Millisecond, 0},
		"sent long after it settled": {time.Millisecond, 10 * time.Minute, 1},
		"sent slowly":                {never, 10 * time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				deadline, _ := ctx.Deadline()
				settled := 0
				w := NewWatch(ctx, func() bool { return time.Since(deadline) >= tt.abandoned }, func() { settled++ })
				time.Sleep(time.Until(deadline.Add(tt.sent)))
				w.End()
				time.Sleep(time.Hour)
				synctest.Wait()
				check.Equal(t, "settled", settled, tt.settled)
			})
		})
	}
	NewWatch(t.Context(), nil, nil).End() // no deadline
}
