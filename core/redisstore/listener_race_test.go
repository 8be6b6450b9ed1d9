package redisstore_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// lateConn hands answers on late, but not messages.
type lateConn struct {
	net.Conn
	subscribed atomic.Bool
}

func (c *lateConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("\r\nsubscribe\r\n")) {
		c.subscribed.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *lateConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.subscribed.Load() {
		time.Sleep(2 * time.Millisecond) // so that messages overtake answers
	}
	return n, err
}

// A denial that is older than a reset, and whose answer arrives after the reset's message, is
// repeated to nobody: whoever asks after the message is granted.
func TestAnAnswerOlderThanAMessageIsNotRepeated(t *testing.T) {
	t.Parallel()
	const quota, askers, rounds = 100_000, 8, 6
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	a := redisstore.New(server.Client(t), redisstore.Config{Prefix: prefix})
	options := *server.Client(t).Options()
	options.Dialer = func(context.Context, string, string) (net.Conn, error) {
		conn, err := net.Dial(server.Network(), server.Addr())
		return &lateConn{Conn: conn}, err
	}
	late := redis.NewClient(&options)
	t.Cleanup(func() { _ = late.Close() })
	b := redisstore.New(late, redisstore.Config{Prefix: prefix, DenialCache: redisstore.DenialCache{Age: forever}})
	rule := mustRule(t, core.Per(quota, hammerWindow).FixedWindow())
	listening(t, b)
	for round := range rounds {
		key := fmt.Sprint("k", round)
		take(t, a, checkOf(key, rule, quota))
		take(t, b, checkOf(key, rule, 1)) // leaves a notice
		var heard atomic.Bool
		var wg sync.WaitGroup
		for range askers {
			wg.Go(func() {
				// Requests of other costs are cached apart, so that some are always under way.
				for granted, cost := 0, int64(0); granted < 40; cost = (cost + 1) % 20 {
					after, checks, results := heard.Load(), []core.Check{checkOf(key, rule, 1+cost)}, make([]core.Result, 1)
					if err := b.Take(t.Context(), checks, results); err != nil {
						t.Error(err)
						return
					}
					switch {
					case results[0].Allowed:
						granted++
					case after:
						t.Errorf("round %d: %+v after the message", round, results[0])
						return
					}
				}
			})
		}
		before := b.Epoch(key)
		must.OK(t, a.Reset(t.Context(), []core.Check{checkOf(key, rule, 0)}))
		wait.Until(t, "the message comes", func() bool { return b.Epoch(key) != before })
		heard.Store(true)
		wg.Wait()
	}
}
