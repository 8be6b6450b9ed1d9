package costs

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/redistest"
)

// wire counts what goes over connections that call scripts.
type wire struct {
	server *redistest.Server
	client *redis.Client

	writes, out, in atomic.Int64

	// held, if not nil, keeps script calls from being written until it is closed.
	held atomic.Pointer[chan struct{}]
}

func newWire(t *testing.T) *wire {
	t.Helper()
	w := &wire{server: redistest.Start(t)}
	w.client = redis.NewClient(&redis.Options{Dialer: w.dial, Network: w.server.Network(), Addr: w.server.Addr()})
	t.Cleanup(func() { _ = w.client.Close() })
	return w
}

func (w *wire) dial(context.Context, string, string) (net.Conn, error) {
	c, err := net.Dial(w.server.Network(), w.server.Addr())
	return &conn{Conn: c, wire: w}, err
}

// conn counts from its first script call on: what else a client sends is its own affair, such as a
// greeting, and the listener's subscription.
type conn struct {
	net.Conn
	wire  *wire
	calls atomic.Bool
}

func (c *conn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("evalsha")) {
		if held := c.wire.held.Load(); held != nil {
			<-*held
		}
		c.calls.Store(true)
		c.wire.writes.Add(1)
	}
	if c.calls.Load() {
		c.wire.out.Add(int64(len(b)))
	}
	return c.Conn.Write(b)
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.calls.Load() {
		c.wire.in.Add(int64(n))
	}
	return n, err
}

// usage is what checks have cost so far.
type usage struct{ trips, calls, commands, out, in int64 }

func (w *wire) usage(t *testing.T) usage {
	t.Helper()
	u := usage{trips: w.writes.Load(), out: w.out.Load(), in: w.in.Load()}
	for name, s := range w.server.Commandstats(t) {
		command, _, _ := strings.Cut(name, "|")
		switch command {
		case "evalsha", "eval":
			u.calls += s.Calls
		case "hello", "client", "info", "ping", "subscribe", "ssubscribe": // of connections
		default:
			u.commands += s.Calls // within scripts
		}
	}
	return u
}

func (u usage) since(before usage) usage {
	return usage{u.trips - before.trips, u.calls - before.calls, u.commands - before.commands, u.out - before.out, u.in - before.in}
}
