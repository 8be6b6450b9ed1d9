package listen

import (
	"net"
	"sync"
	"sync/atomic"
)

// Bounded is a listener with a bound on open connections. Further ones are closed at once, so that their
// callers know, instead of waiting in a line that nobody serves.
type Bounded struct {
	net.Listener
	max     int64
	open    atomic.Int64
	refused atomic.Int64
}

// Bound returns the listener with a bound.
func Bound(l net.Listener, most int) *Bounded { return &Bounded{Listener: l, max: int64(most)} }

// Open returns how many connections are open.
func (b *Bounded) Open() int64 { return b.open.Load() }

// Refused returns how many connections were closed since there were too many.
func (b *Bounded) Refused() int64 { return b.refused.Load() }

// Accept implements [net.Listener].
func (b *Bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if b.open.Add(1) > b.max {
			b.open.Add(-1)
			b.refused.Add(1)
			_ = c.Close()
			continue
		}
		return &conn{Conn: c, of: b}, nil
	}
}

// conn has one of the places. It may be closed more than once, and leaves its place once.
type conn struct {
	net.Conn
	of   *Bounded
	once sync.Once
}

func (c *conn) Close() error {
	c.once.Do(func() { c.of.open.Add(-1) })
	return c.Conn.Close()
}
