package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// The deadline of a check is its context's. What the client is set to neither ends a check before
// nor keeps it for longer.
func TestTheClientsTimeoutsAreNotThoseOfAStore(t *testing.T) {
	t.Parallel()
	const never = -2 // go-redis sets no deadlines at all then
	begin := func(t *testing.T, timeout time.Duration) (*redistest.Proxy, *redisstore.Store, core.Check) {
		t.Parallel()
		proxy := redistest.StartProxy(t, redistest.Shared(t))
		s := redisstore.New(proxy.ClientWith(t, &redis.Options{ReadTimeout: timeout, WriteTimeout: timeout}), redisstore.Config{Prefix: redistest.Prefix(t)})
		c := checkOf("k", mustRule(t, core.PerHour(10)), 1)
		take(t, s, c) // connects
		return proxy, s, c
	}
	t.Run("an answer that takes longer than the client would wait", func(t *testing.T) {
		proxy, s, c := begin(t, 50*time.Millisecond)
		proxy.Delay(200 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), forever)
		defer cancel()
		check.OK(t, s.Take(ctx, []core.Check{c}, make([]core.Result, 1)))
	})
	for name, left := range map[string]time.Duration{
		"no answer, and a client that would wait for ever": 500 * time.Millisecond,
		"the same, and nobody has set a deadline either":   0,
	} {
		t.Run(name, func(t *testing.T) {
			proxy, s, c := begin(t, never)
			s.BeAsPatientAsUsual()
			proxy.Blackhole(true)
			ctx := context.Background()
			if left > 0 {
				bounded, cancel := context.WithTimeout(ctx, left)
				defer cancel()
				ctx = bounded
			}
			ended := make(chan error, 1)
			go func() { ended <- s.Take(ctx, []core.Check{c}, make([]core.Result, 1)) }()
			select {
			case err := <-ended:
				var failed *store.Error
				if !errors.As(err, &failed) || failed.Class != store.ClassTimeout {
					t.Errorf("got %v, want a time-out", err)
				}
			case <-time.After(time.Minute):
				t.Error("the check does not end")
			}
		})
	}
}
