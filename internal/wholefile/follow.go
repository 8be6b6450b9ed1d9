package wholefile

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"time"
)

// Follow calls load whenever watch says that something may have changed, and with asked when the process gets one of the
// signals. What could not be loaded is loaded again after a [Poll], since watch tells of a change once. Follow returns at
// once, and goes on until ctx ends or stop is called, which waits until a load that has begun is done.
func Follow(ctx context.Context, watch func(ctx context.Context, changed func()), load func(ctx context.Context, asked bool) (loaded bool), signals ...os.Signal) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	changed := make(chan struct{}, 1)
	retry := time.NewTimer(time.Hour)
	retry.Stop()
	asked := make(chan os.Signal, 1)
	if len(signals) > 0 { // without, Notify would take all signals
		signal.Notify(asked, signals...)
	}
	var running sync.WaitGroup
	running.Go(func() {
		watch(ctx, func() {
			select {
			case changed <- struct{}{}:
			default: // it is loaded anyway
			}
		})
	})
	running.Go(func() {
		defer signal.Stop(asked)
		defer retry.Stop()
		for {
			byHand := false
			select {
			case <-ctx.Done():
				return
			case <-retry.C:
			case <-changed:
			case <-asked:
				byHand = true
			}
			if !load(ctx, byHand) {
				retry.Reset(Poll)
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}
