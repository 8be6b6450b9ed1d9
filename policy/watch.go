package policy

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"time"
)

// Watch reloads the file whenever it changes, and when the process gets a SIGHUP, until ctx ends or
// stop is called:
//
//	stop := set.Watch(ctx)
//	defer stop()
//
// A file that is refused changes nothing and is logged; [Set.Status] has the error. A file is looked
// at once a second, also behind links that are swapped, as in a ConfigMap of Kubernetes. stop waits
// until a reload that has begun is done.
func (s *Set) Watch(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	changed := make(chan struct{}, 1)
	ping := func() {
		select {
		case changed <- struct{}{}:
		default: // a reload is due anyway
		}
	}
	// What could not be loaded is tried again: a source tells of a change once.
	retry := time.NewTimer(time.Hour)
	retry.Stop()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, hangups...)
	var running sync.WaitGroup
	running.Go(func() { s.source.Watch(ctx, ping) })
	running.Go(func() {
		defer signal.Stop(hangup)
		defer retry.Stop()
		for {
			loaded := true
			select {
			case <-ctx.Done():
				return
			case <-retry.C:
				loaded, _ = s.load(ctx, false) // an error is logged, and in the status
			case <-changed:
				loaded, _ = s.load(ctx, false) // an error is logged, and in the status
			case <-hangup:
				loaded, _ = s.load(ctx, true)
			}
			if !loaded {
				retry.Reset(retryAfter)
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// retryAfter is after how long a file that could not be loaded is loaded again.
const retryAfter = time.Second
