package redisstore

import (
	"context"
	"io"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/breaker"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// openBreaker fails checks until the breaker of the store's node is open, and a probe is planned: whoever opens it takes the
// turn a moment later. Nobody probes by a client that is closed.
func openBreaker(t *testing.T, s *Store, rule *core.Rule) *node {
	t.Helper()
	n := s.route.(*singleRoute).only
	wait.Until(t, "the breaker is open", func() bool {
		_, _ = takeOne(endsAt{context.Background(), time.Now().Add(store.DefaultTimeout)}, s, "k", rule)
		return n.breaker.IsOpen()
	})
	wait.Until(t, "a probe is planned", func() bool { return n.breaker.IsTaken() || n.closed.Load() })
	return n
}

// nobodyAsks has it be long since a check wanted the node, and returns when no probe is due. It says so again and again: a
// check that has failed can still be about to note that it wanted the node.
func (n *node) nobodyAsks(t *testing.T) {
	t.Helper()
	wait.Until(t, "the last probe is over", func() bool {
		n.asked.Store(monotonic() - int64(idleAfter) - 1)
		return !n.breaker.IsTaken()
	})
}

// A server that is back is found without a request: the first one is decided by it.
func TestABreakerClosesWithoutARequest(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := New(server.Client(t))
	s.OnEvent(func(core.Event) {})
	rule := mustRule(core.PerHour(10).Named("probed"))
	server.Kill()
	n := openBreaker(t, s, &rule)
	server.Restart(t)
	wait.Until(t, "the breaker closes without a request", func() bool { return !n.breaker.IsOpen() })
	if _, err := takeOne(t.Context(), s, "k", &rule); err != nil {
		t.Error(err)
	}
	if n.breaker.IsTaken() {
		t.Error("a node that answers is probed")
	}
}

// Probes come one at a time, at their pace, however many checks are refused.
func TestProbesKeepTheirPace(t *testing.T) {
	t.Parallel()
	var asked, atOnce, most atomic.Int64
	s, n, rule := storeUnder(t, ordeal{before: func(context.Context) error {
		asked.Add(1)
		most.Store(max(most.Load(), atOnce.Add(1)))
		defer atOnce.Add(-1)
		time.Sleep(10 * time.Millisecond) // so that another one would be seen beside it
		return io.ErrUnexpectedEOF
	}}, 10)
	openBreaker(t, s, rule)
	n.quiet(t)
	asked.Store(0)
	most.Store(0)
	start := time.Now()
	wait.Until(t, "there are some probes", func() bool {
		if _, err := takeOne(t.Context(), s, "k", rule); !classIs(err, store.ClassOpen) {
			t.Fatalf("got %v, want a breaker that is open", err)
		}
		return asked.Load() >= 4
	})
	if got, took := asked.Load(), time.Since(start); got > 1+int64(took/breaker.Pause) || most.Load() != 1 {
		t.Errorf("%d probes in %v, up to %d at once", got, took, most.Load())
	}
}

// Probes end a while after the last check, and the next check starts them again.
func TestProbesEndWhenNobodyAsks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := New(server.Client(t))
	s.OnEvent(func(core.Event) {})
	rule := mustRule(core.PerHour(10).Named("probed"))
	server.Kill()
	n := openBreaker(t, s, &rule)
	n.nobodyAsks(t)
	server.Restart(t)
	time.Sleep(2 * (breaker.Pause + breaker.Jitter)) // for a probe that must not come
	if !n.breaker.IsOpen() {
		t.Error("a probe closed the breaker of a node that nobody asks for")
	}
	if _, err := takeOne(t.Context(), s, "k", &rule); !classIs(err, store.ClassOpen) {
		t.Errorf("got %v, want a breaker that is open", err)
	}
	wait.Until(t, "a probe closes it", func() bool { return !n.breaker.IsOpen() })
}

// A closed client never answers again.
func TestProbesEndWithTheClient(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	s := New(client)
	s.OnEvent(func(core.Event) {})
	rule := mustRule(core.PerHour(10).Named("probed"))
	_ = client.Close()
	n := openBreaker(t, s, &rule)
	wait.Until(t, "the last probe is over", func() bool { return !n.breaker.IsTaken() })
}

// Neither an open breaker nor a client of any kind keeps anything of a store that the application has dropped.
func TestAStoreThatIsDroppedIsGarbage(t *testing.T) {
	t.Parallel()
	const nobody = "127.0.0.1:1" // listens there
	rule := mustRule(core.PerHour(10).Named("probed"))
	for name, client := range map[string]redis.UniversalClient{
		"one server": redis.NewClient(&redis.Options{Addr: nobody}),
		"Cluster":    redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nobody}}),
		"Ring":       redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"only": nobody}}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer client.Close()
			dropped := func() weak.Pointer[Store] {
				s := New(client)
				s.OnEvent(func(core.Event) {})
				if _, single := client.(*redis.Client); single {
					openBreaker(t, s, &rule)
				}
				return weak.Make(s)
			}()
			wait.Until(t, "the store is collected", func() bool {
				runtime.GC()
				return dropped.Value() == nil
			})
		})
	}
}
