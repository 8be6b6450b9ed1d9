package policy

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
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
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, hangups...)
	var running sync.WaitGroup
	running.Go(func() { s.source.Watch(ctx, ping) })
	running.Go(func() {
		defer signal.Stop(hangup)
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
				s.follow(ctx)
			case <-hangup:
				if err := s.Reload(ctx); err != nil && ctx.Err() != nil {
					return
				}
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// follow is Reload, except for a text that was refused or rolled back before.
func (s *Set) follow(ctx context.Context) {
	s.loading.Lock()
	defer s.loading.Unlock()
	file, err := s.source.Load(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()):
	case err != nil:
		s.refuse("", err)
	case s.refused != "" && s.refused == hashOf(file.Text):
	default:
		_ = s.take(file) // logged, and in the status
	}
}
