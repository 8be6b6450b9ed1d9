// Package draining is for tests of what a limiter's Drain tells of.
package draining

import (
	"context"
	"sync"

	"github.com/weblimit/weblimit/core"
)

// Then drains a limiter, and calls begun once Drain waits: it tells only of what is lost from then on.
func Then(ctx context.Context, l *core.Limiter, begun func()) error {
	return l.Drain(&waited{ctx, sync.OnceFunc(begun)})
}

// waited is a context that tells when somebody waits for its end.
type waited struct {
	context.Context
	tell func()
}

func (w *waited) Done() <-chan struct{} {
	w.tell()
	return w.Context.Done()
}
