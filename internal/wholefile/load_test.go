package wholefile

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
)

// One load goes on at a time, and whoever waits for it does so no longer than its context lasts.
func TestOneLoadAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reads, taken := 0, 0
		l := NewLoader(func(context.Context) (int, error) {
			reads++ // by one at a time, as the race detector sees
			time.Sleep(time.Second)
			return reads, nil
		}, func(err error) { t.Errorf("it can't be read: %v", err) })
		load := func(ctx context.Context) (bool, error) {
			return l.Load(ctx, func(n int) error {
				check.Equal(t, "the order in which files are taken", n, taken+1)
				taken = n
				return nil
			})
		}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				loaded, err := load(t.Context())
				check.OK(t, err)
				check.Equal(t, "loaded", loaded, true)
			})
		}
		synctest.Wait()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		loaded, err := load(ctx)
		check.Is(t, "a caller without time", err, context.DeadlineExceeded)
		check.Equal(t, "it has loaded", loaded, false)
		check.Equal(t, "it waited", time.Since(began), time.Millisecond)
		all.Wait()
		check.Equal(t, "loads", taken, 3)
	})
}

// What can't be read is told, unless the caller has gone; what can't be taken was read.
func TestWhyALoadFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, tt := range []struct {
		name        string
		gone        bool // the caller, meanwhile
		read, taken error
		loaded      bool
		told        error
	}{
		{"read and taken", false, nil, nil, true, nil},
		{"not read", false, broken, nil, false, broken},
		{"read and refused", false, nil, broken, true, nil},
		{"the caller has gone while it was read", true, broken, nil, false, nil},
		{"the caller has gone while it was taken", true, nil, broken, false, nil},
		{"the caller has gone too late", true, nil, nil, true, nil},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var told error
		l := NewLoader(func(context.Context) (int, error) {
			if tt.gone {
				cancel()
			}
			return 0, tt.read
		}, func(err error) { told = err })
		loaded, err := l.Load(ctx, func(int) error { return tt.taken })
		check.Equal(t, tt.name+": loaded", loaded, tt.loaded)
		check.Equal(t, tt.name+": error", err, cmp.Or(tt.read, tt.taken))
		check.Equal(t, tt.name+": told", told, tt.told)
	}
}
