package redisstore

// Connections of a process that is starved; see starved.go.

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// lookAgain is how long a connection is read once more after its deadline, if the process
	// was not late. What lies in the socket is read at once.
	lookAgain = time.Millisecond

	// maxLooks bounds how often a connection is read once more, if the process is late each time.
	maxLooks = 4

	// defaultDialTimeout is that of go-redis.
	defaultDialTimeout = 5 * time.Second
)

// NewDialer returns a function for the Dialer field of a client's options, of whatever kind the client is.
// It connects as the options say, by their Dialer if they have one, else as go-redis does, within their
// DialTimeout (defaults to 5 seconds) and with their TLSConfig. It reads no other field.
//
// Its connections look once more when a deadline has passed. That is for a process that had no processor for
// longer than a check's deadline, because it was stopped, throttled or overloaded: replies that came meanwhile
// are read and decide, instead of the limits' outage actions. A server that does not answer
// is given up a millisecond later than with other connections, and up to a tenth of a second later in a process
// that is starved.
//
// The function may be called concurrently. Options that are changed later change nothing.
func NewDialer(o *redis.Options) func(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := o.Dialer
	if dial == nil {
		dial = redis.NewDialer(&redis.Options{DialTimeout: cmp.Or(o.DialTimeout, defaultDialTimeout), TLSConfig: o.TLSConfig})
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		late := &lateConn{Conn: c}
		if _, ok := sysConn(c); ok {
			return &lateSysConn{late}, nil
		}
		return late, nil
	}
}

// lateConn is a connection that is used once more when its deadline has passed. It leaves alone
// deadlines that have passed when they are set: those say that somebody wants it to end.
type lateConn struct {
	net.Conn
	reads, writes due
}

// due is a deadline in nanoseconds of the monotonic clock; 0 if there is none.
type due struct{ atomic.Int64 }

func (d *due) set(t time.Time) {
	if left := time.Until(t); left > 0 {
		d.Store(monotonic() + int64(left))
	} else {
		d.Store(0)
	}
}

// SetDeadline implements [net.Conn].
func (c *lateConn) SetDeadline(t time.Time) error {
	c.reads.set(t)
	c.writes.set(t)
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline implements [net.Conn].
func (c *lateConn) SetReadDeadline(t time.Time) error {
	c.reads.set(t)
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements [net.Conn].
func (c *lateConn) SetWriteDeadline(t time.Time) error {
	c.writes.set(t)
	return c.Conn.SetWriteDeadline(t)
}

// Read implements [net.Conn].
func (c *lateConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	return c.reads.again(b, c.Conn.Read, c.Conn.SetReadDeadline, err)
}

// Write implements [net.Conn].
func (c *lateConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	more, err := c.writes.again(b[n:], c.Conn.Write, c.Conn.SetWriteDeadline, err)
	return n + more, err
}

// again reads or writes again after err, which says that the deadline has passed: once in any case, and
// more often as long as this process is late.
func (d *due) again(b []byte, use func([]byte) (int, error), setDeadline func(time.Time) error, err error) (n int, _ error) {
	at := d.Load()
	for times := 0; at != 0 && times < maxLooks; times++ {
		more := extended(origin.Add(time.Duration(at)))
		if more == 0 && times > 0 {
			break
		}
		more = max(more, lookAgain)
		at = monotonic() + int64(more)
		if setDeadline(time.Now().Add(more)) != nil {
			break
		}
		var used int
		used, err = use(b[n:])
		if n += used; n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	return n, err
}

// lateSysConn is a lateConn that go-redis can check for whether it was closed.
type lateSysConn struct{ *lateConn }

// SyscallConn implements [syscall.Conn].
func (c *lateSysConn) SyscallConn() (syscall.RawConn, error) {
	s, _ := sysConn(c.Conn)
	return s.SyscallConn()
}

// sysConn returns the connection of the operating system.
func sysConn(c net.Conn) (syscall.Conn, bool) {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = over.NetConn()
	}
	s, ok := c.(syscall.Conn)
	return s, ok
}
