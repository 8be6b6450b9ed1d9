package redistest

import (
	"bufio"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// dialTimeout bounds how long the proxy takes to connect to the server.
const dialTimeout = time.Minute

// proxyConn is one connection through a proxy.
type proxyConn struct {
	proxy  *Proxy
	client net.Conn
	done   chan struct{} // closed by close
	silent atomic.Bool   // something was swallowed: nothing passes any more

	mu     sync.Mutex
	server net.Conn // Guarded by mu; set once.
	closed bool     // Guarded by mu; final.
	fates  []fate   // Guarded by mu; of the requests whose replies are outstanding.
}

// close closes the connection on both sides, which ends the goroutines that serve it.
func (c *proxyConn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	close(c.done)
	_ = c.client.Close()
	if c.server != nil {
		_ = c.server.Close()
	}
}

// serve passes bytes on in both directions until the connection is closed.
func (c *proxyConn) serve() {
	defer c.proxy.forget(c)
	defer c.close()
	server, err := net.DialTimeout(c.proxy.to.network, c.proxy.to.addr, dialTimeout)
	if err != nil {
		return
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		_ = server.Close()
		return
	}
	c.server = server
	c.mu.Unlock()

	var replies sync.WaitGroup
	replies.Go(func() {
		defer c.close()
		c.replies(server)
	})
	c.requests(server)
	c.close()
	replies.Wait()
}

// requests passes requests on, until an error or a request that is dropped.
func (c *proxyConn) requests(server net.Conn) {
	for r := bufio.NewReader(c.client); ; {
		request, _, err := readMessage(r)
		if err != nil {
			return
		}
		if c.swallows() {
			continue
		}
		f := c.proxy.judge(request)
		if f == drop {
			return
		}
		// Before the request is sent, since its reply may come before this goroutine goes on.
		c.expect(f)
		if _, err := server.Write(request); err != nil {
			return
		}
	}
}

// replies passes replies on, until an error or a reply that is cut.
func (c *proxyConn) replies(server net.Conn) {
	arrived := &arrivals{conn: server}
	for r := bufio.NewReader(arrived); ; {
		reply, kind, err := readMessage(r)
		if err != nil {
			return
		}
		f := pass
		if kind != '>' { // a push answers no request
			f = c.next()
		}
		if !c.wait(arrived.last) {
			return
		}
		if c.swallows() {
			continue
		}
		if f == cut {
			after := min(c.proxy.get().cutAfter, len(reply)-1)
			_, _ = c.client.Write(reply[:after])
			c.proxy.countCut()
			return
		}
		if _, err := c.client.Write(reply); err != nil {
			return
		}
	}
}

// swallows reports whether bytes are to be lost: now, or because earlier ones were.
func (c *proxyConn) swallows() bool {
	if c.proxy.get().blackhole {
		c.silent.Store(true)
	}
	return c.silent.Load()
}

// wait holds a reply back, and reports whether the connection is still open.
func (c *proxyConn) wait(arrived time.Time) bool {
	d := time.Until(arrived.Add(c.proxy.get().delay))
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.done:
		return false
	}
}

// expect queues what is to happen to the reply of a request.
func (c *proxyConn) expect(f fate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fates = append(c.fates, f)
}

// next returns what is to happen to the next reply.
func (c *proxyConn) next() fate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.fates) == 0 {
		return pass // unasked, such as a farewell
	}
	f := c.fates[0]
	c.fates = c.fates[1:]
	return f
}

// arrivals notes when bytes arrived last.
type arrivals struct {
	conn net.Conn
	last time.Time
}

func (a *arrivals) Read(b []byte) (int, error) {
	n, err := a.conn.Read(b)
	a.last = time.Now()
	return n, err
}
