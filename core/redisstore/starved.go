package redisstore

// A process that is starved: it had no processor when a deadline passed, because it was stopped
// or throttled, or has more to do than processors. Its timers fire before it has looked at its
// connections, so a deadline that passed meanwhile says nothing of the server, whose reply may
// lie in the socket. Each of the functions below looks once more, and then goes on for as long as the
// process was late, within bounds: a server that does not answer is still noticed.

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core/store"
)

const (
	// lateAfter is how late a process is that counts as starved. An idle one is late by
	// some 0.1 ms.
	lateAfter = 2 * time.Millisecond

	// lookAgain is how long a connection is read once more after its deadline, if the process
	// was not late. What lies in the socket is read at once.
	lookAgain = time.Millisecond

	// maxExtension bounds by how much a deadline is extended at a time.
	maxExtension = 25 * time.Millisecond

	// maxLooks bounds how often a connection is read once more, if the process is late each
	// time, and maxPutOffs how often an owner's deadline is extended. An owner waits for two round
	// trips at most, its own and the one before. Each needs the processor to be sent, to be read,
	// up to maxLooks times again, and to be handed on.
	maxLooks   = 4
	maxPutOffs = 2 * (maxLooks + 4)
)

// extended returns for how much longer to wait for what was due at a time, which is now: for as long
// as the process is late, or 0.
func extended(due time.Time) time.Duration {
	// All that were ready before go first, such as the goroutine that reads the answer.
	runtime.Gosched()
	if late := time.Since(due); late >= lateAfter {
		return min(late, maxExtension)
	}
	return 0
}

// waitLonger is for an owner whose context is over. It reports whether the job was done, or leads a
// batch, while the process made up for its delay.
func (j *job) waitLonger(ctx context.Context) bool {
	due, bounded := ctx.Deadline()
	for times := 0; bounded && times < maxPutOffs; times++ {
		more := extended(due)
		if more == 0 {
			break
		}
		due = time.Now().Add(more)
		t := time.NewTimer(more)
		select {
		case <-j.signal:
			t.Stop()
			return true
		case <-t.C:
		}
	}
	return false
}

// sweepLater puts off a sweep that is due, for as long as the process is late. It reports whether it did.
func (n *node) sweepLater() bool {
	n.mu.Lock()
	due, times := n.sweepAt, n.putOff
	n.mu.Unlock()
	if due == 0 {
		return false
	}
	more := time.Duration(0)
	if times < maxPutOffs {
		more = extended(origin.Add(time.Duration(due)))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if more == 0 {
		n.putOff = 0
		return false
	}
	if n.sweepAt == due { // else another sweep is planned already
		n.putOff++
		n.sweepAt = 0
		n.expect(monotonic() + int64(more))
	}
	return true
}

// timeFor returns how much time a round trip has that begins now, for the owner of a job: until its
// deadline, or, if that has passed because the process was late, half the usual time, so that it still says
// something of the server. It returns 0 if there is none. A request has that half once, or its
// round trips to a slow server, one after the other, would each have it. Only a limiter's
// deadline is known to have begun in the future.
func (n *node) timeFor(ctx context.Context, ends time.Time, j *job) time.Duration {
	left := time.Until(ends)
	if left > 0 {
		return left
	}
	if _, ok := ctx.(store.Deadline); !ok || -left < lateAfter {
		return 0
	}
	now := monotonic()
	if j.lateEnds == 0 {
		j.lateEnds = now + int64(n.usualTimeout()/2)
	}
	return max(time.Duration(j.lateEnds-now), 0)
}

// wasStarved reports whether an answer that took nearly all of its time, or more, did so because
// of this process.
func (n *node) wasStarved(took, had time.Duration) bool {
	if took >= had+lookAgain+lateAfter && !n.ownTimeouts { // nobody waits for that long, unless for a processor
		return true
	}
	began := time.Now()
	runtime.Gosched()
	return time.Since(began) >= lateAfter
}

// secondLook has a client's connections look once more when a deadline has passed.
type secondLook struct{}

// DialHook implements [redis.Hook].
func (secondLook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := next(ctx, network, addr)
		if err != nil {
			return c, err
		}
		switch c.(type) {
		case *lateConn, *lateSysConn: // by another store on the same client
			return c, nil
		}
		late := &lateConn{Conn: c}
		if _, ok := sysConn(c); ok {
			return &lateSysConn{late}, nil
		}
		return late, nil
	}
}

// ProcessHook implements [redis.Hook].
func (secondLook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements [redis.Hook].
func (secondLook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
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
