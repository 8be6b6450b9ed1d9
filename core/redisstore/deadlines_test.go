package redisstore

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// One timer looks after all that wait: each is told at its own deadline, in the queue and in a batch,
// whichever came first, and a deadline that is over already holds nobody.
func TestDeadlinesOfJobsThatWait(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s, n, rule := storeUnder(t, ordeal{before: func(context.Context) error {
		<-release // whatever the deadline
		return nil
	}}, 1000)
	n.connected.Store(true)
	n.typicalTimeout.Store(int64(time.Minute)) // or the node would look stuck
	var all sync.WaitGroup
	for i := range maxInFlight {
		all.Go(func() {
			ctx := endsAt{context.Background(), time.Now().Add(time.Minute)}
			if _, err := takeOne(ctx, s, "runs", rule); err != nil {
				t.Errorf("round trip %d: %v", i, err)
			}
		})
	}
	wait.Until(t, "round trips are under way", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.inFlight == maxInFlight
	})
	for _, left := range []time.Duration{80 * time.Millisecond, 300 * time.Millisecond, -time.Second, 20 * time.Millisecond, 20 * time.Millisecond, 0} {
		all.Go(func() {
			began := time.Now()
			_, err := takeOne(endsAt{context.Background(), began.Add(left)}, s, "waits", rule)
			if took := time.Since(began); !classIs(err, store.ClassTimeout) || took < left || took > left+slack {
				t.Errorf("with %v left: %v after %v", left, err, took)
			}
		})
	}
	wait.Until(t, "all deadlines are over", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(n.queue) == 6 && n.sweepAt == 0
	})
	close(release)
	all.Wait()
	n.quiet(t)
	n.mu.Lock()
	defer n.mu.Unlock()
	check.Equal(t, "batches still swept", len(n.flights), 0)
}
