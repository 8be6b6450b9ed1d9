package policy

import (
	"context"

	"github.com/weblimit/weblimit/internal/wholefile"
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
	return wholefile.Follow(ctx, s.source.Watch, func(ctx context.Context, asked bool) bool {
		loaded, _ := s.load(ctx, asked) // an error is logged, and in the status
		return loaded
	}, hangups...)
}
