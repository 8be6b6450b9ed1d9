package proxies

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weblimit/weblimit/internal/suites/frameworks"
	"github.com/weblimit/weblimit/keyfuncs"
)

// SharedConnections sends requests of many clients at once: a proxy sends the requests of many clients over a few connections to the application.
// Each client gets its own quota, whichever client used the connection before.
func SharedConnections(t *testing.T, all []frameworks.Framework) {
	t.Helper()
	everyPair(t, all, func(t *testing.T, p *proxy, f frameworks.Framework) {
		r := newRoute(t, "/", keyfuncs.TrustedProxies(trusted))
		front, stop := behind(t, f, p, "tcp", []*Route{r})
		manyClients(t, front, r)
		stop()
	})
}

// manyClients sends requests from many addresses at the same time, some over HTTP/2, and
// fails the test unless each address gets its quota.
func manyClients(t *testing.T, front *started, r *Route) {
	t.Helper()
	const clients = 24
	var passed atomic.Int64
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			from := fmt.Sprintf("127.0.1.%d", i+1)
			var got map[int]int
			if i%2 == 0 {
				got = pipeline(t, from, front.addr, pause, bytesOf(forgery{}.http1(r.Path), 2*quota))
			} else {
				got = streams(t, from, front.addr, r.Path, pause, make([]forgery, 2*quota))
			}
			if got[http.StatusOK] != quota || got[http.StatusTooManyRequests] != quota {
				t.Errorf("client %s got %v, want %d of each", from, got, quota)
			}
			passed.Add(int64(got[http.StatusOK]))
		})
	}
	wg.Wait()
	if ran := r.ran.Load(); ran != clients*quota || ran != passed.Load() {
		t.Errorf("%d requests reached the handler and %d passed, want %d", ran, passed.Load(), clients*quota)
	}
}

// ProxyProtocol sends forgeries where a line in front names the client: on a listener that reads the PROXY protocol, the peer of a connection is the client. A
// client cannot change that by its headers.
func ProxyProtocol(t *testing.T, all []frameworks.Framework) {
	t.Helper()
	for _, f := range all {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			l := listen(t, "tcp")
			front := haproxy.start(t, l.Addr(), "server app 127.0.0.1:8080", "server app 127.0.0.1:8080 send-proxy")
			r := newRoute(t, "/", keyfuncs.Peer())
			shared := newRoute(t, "/shared", keyfuncs.Peer())
			stop := serve(t, f, proxyListener{l}, []*Route{r, shared})
			forge(t, front, r)
			manyClients(t, front, shared)
			front.stop()
			stop()
			r.settle(t)
		})
	}
}

// proxyListener reads the PROXY protocol, version 1, on every connection.
type proxyListener struct{ net.Listener }

func (l proxyListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &proxyConn{Conn: conn, read: bufio.NewReader(conn)}, nil
}

// proxyConn is a connection that begins with a line about its client.
type proxyConn struct {
	net.Conn
	read   *bufio.Reader
	once   sync.Once
	client net.Addr // after once
	err    error
}

func (c *proxyConn) begin() error {
	c.once.Do(func() {
		line, err := c.read.ReadString('\n')
		if err != nil {
			c.err = err
			return
		}
		words := strings.Fields(line) // PROXY TCP4 client proxy port port
		if len(words) != 6 || words[0] != "PROXY" {
			c.err = errors.New("no line of the PROXY protocol")
			return
		}
		c.client, c.err = net.ResolveTCPAddr("tcp", net.JoinHostPort(words[2], words[4]))
	})
	return c.err
}

func (c *proxyConn) Read(p []byte) (int, error) {
	if err := c.begin(); err != nil {
		return 0, io.EOF
	}
	return c.read.Read(p)
}

func (c *proxyConn) RemoteAddr() net.Addr {
	if c.begin() != nil {
		return c.Conn.RemoteAddr()
	}
	return c.client
}
