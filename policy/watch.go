package policy

import (
	"context"
	"errors"
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
				loaded = s.follow(ctx)
			case <-changed:
				loaded = s.follow(ctx)
			case <-hangup:
				var wrong *Error
				err := s.Reload(ctx)
				loaded = err == nil || errors.As(err, &wrong)
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

// follow is Reload, except for a text that was refused or rolled back before. It returns false if the
// file could not be loaded.
func (s *Set) follow(ctx context.Context) (loaded bool) {
	s.loading.Lock()
	defer s.loading.Unlock()
	file, err := s.source.Load(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil && ctx.Err() != nil:
		return false
	case err != nil:
		s.refuse("", err)
		return false
	case s.status.RolledBack.Hash != "" && s.status.RolledBack.Hash == hashOf(file.Text):
		s.refused = ""
		s.fails(nil) // it can be read, and is not followed on purpose
	case s.refused != "" && s.refused == hashOf(file.Text):
	default:
		_ = s.take(file) // logged, and in the status
	}
	return true
}
