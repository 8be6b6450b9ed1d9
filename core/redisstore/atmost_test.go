package redisstore_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
)

// A batch that did not fit is in the denial cache. Repeated from there it says what was left then,
// and not what is left now.
func TestABatchIsNotHeldBackByADenialOfAMomentAgo(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]redisstore.Config{
		"denial cache":           {},
		"denial cache, prefetch": {Prefetch: redisstore.Prefetch{Fraction: 0.5}},
		"without a denial cache": {DenialCache: redisstore.DenialCache{Disabled: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config.Prefix = redistest.Prefix(t)
			store := redisstore.New(redistest.Shared(t).Client(t), config)
			l := must.Get(core.New(core.Config{Store: store, Timeout: time.Minute, Limits: []core.Limit{core.PerSecond(20).By(keyfuncs.Everyone())}}))(t)
			began, sum := time.Now(), int64(0)
			for range 8 {
				granted, d := l.AllowKeyAtMost(t.Context(), "k", 20)
				sum += granted
				if granted == 20 {
					continue
				}
				if d.RetryAfter > 50*time.Millisecond {
					t.Fatalf("one more fits after %v", d.RetryAfter)
				}
				time.Sleep(d.RetryAfter + time.Millisecond) // the store's clock is another one
				if granted, d = l.AllowKeyAtMost(t.Context(), "k", 20); granted == 0 {
					t.Fatalf("after RetryAfter none is granted: %v", d)
				}
				sum += granted
			}
			if most := 20 + int64(time.Since(began)/(50*time.Millisecond)) + 1; sum > most {
				t.Errorf("granted %d units, want at most %d", sum, most)
			}
		})
	}
}

// Consumers of several processes compete. No unit is granted twice, and none is lost.
func TestBatchesOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t).Client(t), redistest.Prefix(t)
	limit := core.Per(1000, hammerWindow).FixedWindow().By(keyfuncs.Everyone())
	var sum atomic.Int64
	done := make(chan error)
	for range 4 {
		go func() {
			store := redisstore.New(client, redisstore.Config{Prefix: prefix})
			l, err := core.New(core.Config{Store: store, Timeout: time.Minute, Limits: []core.Limit{limit}})
			if err == nil {
				for range 40 {
					granted, _ := l.AllowKeyAtMost(context.Background(), "k", 37)
					sum.Add(granted)
				}
			}
			done <- err
		}()
	}
	for range 4 {
		check.OK(t, <-done)
	}
	if sum.Load() != 1000 {
		t.Errorf("granted %d of 1000 units", sum.Load())
	}
}
