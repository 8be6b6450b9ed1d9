package wholefile

import "context"

// Loader loads files and has them decide, one load at a time, so that they are taken in the order in which they were read. F is
// what is read.
type Loader[F any] struct {
	busy   chan struct{} // a mutex that is waited for no longer than a context lasts
	read   func(ctx context.Context) (F, error)
	failed func(err error)
}

// NewLoader returns a loader of what read returns. failed is called if it can't be read.
func NewLoader[F any](read func(ctx context.Context) (F, error), failed func(err error)) *Loader[F] {
	return &Loader[F]{make(chan struct{}, 1), read, failed}
}

// Load reads files and calls take with them. It returns false if they could not be read, or not be taken before ctx ended:
// that is no fault of the files, so failed is not called for it, and they are to be loaded again.
func (l *Loader[F]) Load(ctx context.Context, take func(F) error) (loaded bool, err error) {
	select {
	case l.busy <- struct{}{}:
		defer func() { <-l.busy }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	files, err := l.read(ctx)
	if err == nil {
		err = take(files)
		return err == nil || ctx.Err() == nil, err
	}
	if ctx.Err() == nil {
		l.failed(err)
	}
	return false, err
}
