package limittest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/race"
)

// ServeConn serves one connection until it ends, as servers over fasthttp do.
type ServeConn func(net.Conn) error

// Exchange sends a request over its own connection in memory. The server sees
// r.RemoteAddr as the peer, and [ConnContext] returns r's context for the connection.
func Exchange(serve ServeConn, r *http.Request) (*http.Response, error) {
	var request bytes.Buffer
	if err := r.Write(&request); err != nil {
		return nil, fmt.Errorf("writing the request: %w", err)
	}
	c := &conn{peer: peerAddr(r.RemoteAddr), ctx: r.Context(), read: request.Read}
	if err := serve(c); err != nil {
		return nil, fmt.Errorf("serving the connection: %w", err)
	}
	return http.ReadResponse(bufio.NewReader(&c.written), r)
}

// ConnContext returns the context of the request that [Exchange] has sent over a
// connection, for frameworks that give handlers no context of their own.
func ConnContext(c net.Conn) context.Context {
	if c, ok := c.(*conn); ok {
		return c.ctx
	}
	return context.Background()
}

// BenchmarkConn serves "GET /" b.N times on one connection in memory.
func BenchmarkConn(b *testing.B, serve ServeConn) {
	request := getRequest(b)
	b.ReportAllocs()
	err := serve(&conn{peer: peerAddr("192.0.2.1:1234"), forget: true, read: func(p []byte) (int, error) {
		if !b.Loop() {
			return 0, io.EOF
		}
		return copy(p, request), nil
	}})
	if err != nil {
		b.Fatal(err)
	}
}

// AllocsConn is [Allocs] for connections: it returns the allocations per request on a
// connection that is kept open.
func AllocsConn(t *testing.T, serve ServeConn) int {
	t.Helper()
	race.Skip(t)
	const requests = 1000
	request := getRequest(t)
	return int(testing.AllocsPerRun(10, func() {
		left := requests
		err := serve(&conn{peer: peerAddr("192.0.2.1:1234"), forget: true, read: func(p []byte) (int, error) {
			if left == 0 {
				return 0, io.EOF
			}
			left--
			return copy(p, request), nil
		}})
		if err != nil {
			t.Fatal(err)
		}
	}) / requests)
}

// getRequest is the request that once serves, as bytes on the wire.
func getRequest(tb testing.TB) []byte {
	tb.Helper()
	var request bytes.Buffer
	must.OK(tb, httptest.NewRequest("GET", "/", nil).Write(&request))
	return request.Bytes()
}

// conn is the server's end of a connection. Its client sends what Read returns.
type conn struct {
	read    func([]byte) (int, error)
	written bytes.Buffer
	forget  bool // discard what is written
	peer    net.Addr
	ctx     context.Context
}

func (c *conn) Read(p []byte) (int, error) { return c.read(p) }

func (c *conn) Write(p []byte) (int, error) {
	if c.forget {
		return len(p), nil
	}
	return c.written.Write(p)
}

func (c *conn) Close() error                     { return nil }
func (c *conn) LocalAddr() net.Addr              { return peerAddr("192.0.2.2:80") }
func (c *conn) RemoteAddr() net.Addr             { return c.peer }
func (c *conn) SetDeadline(time.Time) error      { return nil }
func (c *conn) SetReadDeadline(time.Time) error  { return nil }
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// peerAddr returns addr as a TCP address if it is one, and as a unix socket otherwise.
func peerAddr(addr string) net.Addr {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return &net.UnixAddr{Name: addr, Net: "unix"}
	}
	return net.TCPAddrFromAddrPort(ap)
}
