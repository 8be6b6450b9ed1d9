package redisstore_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Whichever process makes the charge that reaches a level, there is one event per level.
func TestUsageEventsOnceOverAllProcesses(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	var mu sync.Mutex
	events := map[string]map[float64]int{}
	var all sync.WaitGroup
	for range 4 { // each as in a process of its own: with its own client, store and limiter
		limiter, err := core.New(core.Config{
			Store: redisstore.New(server.Client(t), redisstore.Config{Prefix: prefix}),
			Limits: []core.Limit{
				core.PerBillingMonth(100, farDay(), time.UTC).By(keyfuncs.Everyone()).Named("month"),
				core.Per(100, hammerWindow).FixedWindow().WarnAt(0.5, 1).By(keyfuncs.Everyone()).Named("window"),
			},
			Timeout: time.Minute,
			OnWarning: func(_ context.Context, w core.Warning) {
				mu.Lock()
				defer mu.Unlock()
				if events[w.Limit] == nil {
					events[w.Limit] = map[float64]int{}
				}
				events[w.Limit][w.Level]++
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			all.Go(func() {
				for range 20 {
					limiter.AllowKey(context.Background(), "tenant:1", 1)
				}
			})
		}
	}
	all.Wait()
	for limit, levels := range map[string][]float64{"month": {0.8, 0.9, 1}, "window": {0.5, 1}} {
		if len(events[limit]) != len(levels) {
			t.Errorf("%s: levels %v, want %v", limit, events[limit], levels)
		}
		for _, level := range levels {
			if n := events[limit][level]; n != 1 {
				t.Errorf("%s: %d events of %v, want 1", limit, n, level)
			}
		}
	}
}

// farMidnight is a time zone in which it is about noon.
func farMidnight() *time.Location {
	return time.FixedZone("", (12-time.Now().UTC().Hour())*60*60)
}

// farDay is a day of the month that does not begin soon.
func farDay() int {
	return (time.Now().UTC().Day()+13)%28 + 1
}
