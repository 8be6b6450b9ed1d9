package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// tracer is a hook that notes what passes, as traces and metrics do.
type tracer struct {
	mu      sync.Mutex
	passed  []string // "begin evalsha", "end evalsha", "begin evalsha+get"; guarded by mu
	request any      // of the last context. Guarded by mu.
	fails   error    // what it answers in place of Redis. Guarded by mu.
}

// requestKey is what a request's context is asked for.
type requestKey struct{}

func (*tracer) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *tracer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h.around(ctx, cmd.Name(), func() error { return next(ctx, cmd) })
	}
}

func (h *tracer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var names []string
		for _, cmd := range cmds {
			names = append(names, cmd.Name())
		}
		return h.around(ctx, strings.Join(names, "+"), func() error { return next(ctx, cmds) })
	}
}

func (h *tracer) around(ctx context.Context, what string, next func() error) error {
	h.mu.Lock()
	h.passed = append(h.passed, "begin "+what)
	h.request = ctx.Value(requestKey{})
	fails := h.fails
	h.mu.Unlock()
	if fails != nil {
		return fails
	}
	err := next()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.passed = append(h.passed, "end "+what)
	return err
}

// take returns what has passed, and forgets it.
func (h *tracer) take() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	passed := h.passed
	h.passed = nil
	return strings.Join(passed, ", ")
}

func (h *tracer) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fails = err
}

// With whatever release of go-redis, hooks of the client see each round trip once, as part of the request that
// makes it.
func TestHooksOfTheClientSeeRoundTrips(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	var outer, inner tracer
	client.AddHook(&outer)
	client.AddHook(&inner)
	backend := redisstore.New(client, redisstore.Config{Prefix: redistest.Prefix(t)})
	redisstore.New(client, redisstore.Config{Prefix: redistest.Prefix(t)})
	rule := mustRule(t, core.PerDay(10))
	take(t, backend, checkOf("k", rule, 1)) // Redis may not know the script, nor that of the exchange
	must.Do(backend.Exchange().Collect(t.Context()))(t)
	outer.take()
	inner.take()

	ctx := context.WithValue(t.Context(), requestKey{}, "of a user")
	must.OK(t, backend.Take(ctx, []core.Check{checkOf("k", rule, 1)}, make([]core.Result, 1)))
	for _, h := range []*tracer{&outer, &inner} {
		check.Equal(t, "what a hook has seen", h.take(), "begin evalsha, end evalsha")
		check.Equal(t, "the request that a hook has seen", h.request, any("of a user"))
	}

	_, err := backend.Exchange().Collect(t.Context())
	check.OK(t, err)
	check.Equal(t, "what a hook has seen of an exchange", outer.take(), "begin evalsha, end evalsha")

	check.OK(t, client.Ping(t.Context()).Err())
	check.Equal(t, "what a hook has seen of the application", outer.take(), "begin ping, end ping")

	outer.fail(errors.New("the circuit is open"))
	_, err = takeOne(t, backend, checkOf("k", rule, 1))
	if err == nil || !strings.Contains(err.Error(), "the circuit is open") {
		t.Errorf("a check whose round trip was refused by a hook: %v", err)
	}
	check.Equal(t, "what came through a hook that refuses", inner.take(), "begin evalsha, end evalsha, begin ping, end ping")
	outer.fail(nil)
	check.Equal(t, "remain after a refused round trip", peek(t, backend, checkOf("k", rule, 1)).Remaining, 8)
}

// On a Cluster and on a Ring, hooks belong to the clients of the nodes.
func TestHooksOfNodesSeeRoundTrips(t *testing.T) {
	t.Parallel()
	t.Run("Cluster", func(t *testing.T) {
		t.Parallel()
		client := redistest.SharedCluster(t).Client(t)
		var h tracer
		client.OnNewNode(func(c *redis.Client) { c.AddHook(&h) })
		backend := redisstore.New(client, redisstore.Config{Prefix: redistest.Prefix(t)})
		rule := mustRule(t, core.PerDay(10))
		take(t, backend, checkOf("k", rule, 1))
		h.take()
		take(t, backend, checkOf("k", rule, 1))
		check.Equal(t, "what a hook has seen", h.take(), "begin evalsha, end evalsha")
		// Two slots of one node are one round trip.
		for i := 0; ; i++ {
			take(t, backend, checkOf(fmt.Sprint("a", i), rule, 1), checkOf(fmt.Sprint("b", i), rule, 1), checkOf(fmt.Sprint("c", i), rule, 1))
			seen := strings.Split(h.take(), ", ")
			if slices.Contains(seen, "begin evalsha+evalsha") && slices.Contains(seen, "end evalsha+evalsha") {
				break
			}
			if i == 500 {
				t.Fatalf("a hook has seen no pipeline, but %v", seen)
			}
		}
	})
	t.Run("Ring", func(t *testing.T) {
		t.Parallel()
		client := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"only": redistest.Shared(t).Addr()}})
		t.Cleanup(func() { _ = client.Close() })
		var h tracer
		must.OK(t, client.ForEachShard(t.Context(), func(_ context.Context, c *redis.Client) error {
			c.AddHook(&h)
			return nil
		}))
		backend := redisstore.New(client, redisstore.Config{Prefix: redistest.Prefix(t)})
		rule := mustRule(t, core.PerDay(10))
		take(t, backend, checkOf("k", rule, 1))
		h.take()
		take(t, backend, checkOf("k", rule, 1))
		check.Equal(t, "what a hook has seen", h.take(), "begin evalsha, end evalsha")
	})
}
