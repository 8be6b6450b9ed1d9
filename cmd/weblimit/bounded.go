package main

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/weblimit/weblimit/internal/redisclient"
)

// bounded returns a dialer whose connections fail if a server announces more than any answer to a
// command of ours can have. go-redis takes memory for what is announced, so that a few bytes could end
// this process.
func bounded(d redisclient.Dialer) redisclient.Dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := d(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &boundedConn{Conn: c}, nil
	}
}

// What answers to the commands of one request may have. The largest hold eight snapshots, or a hundred
// keys with their records.
const (
	maxReplyBytes    = 16 << 20
	maxReplyElements = 1 << 20
	maxReplyNested   = 1 << 14 // arrays and maps
	maxReplyLine     = 64 << 10
)

var errTooLarge = errors.New("the server announces more than Redis answers to this: is it a Redis?")

// boundedConn follows what is read as RESP. It looks at lengths that are announced, before go-redis takes memory for them.
type boundedConn struct {
	net.Conn
	asked atomic.Bool // something was written since the last read

	// Owned by whoever reads.
	skip                    int64 // bytes of a text that are left, with the end of its line
	line                    int   // bytes of the current line
	kind                    byte  // its first
	number                  int64 // that follows
	bytes, elements, nested int64 // announced since something was asked
}

func (c *boundedConn) Write(p []byte) (int, error) {
	c.asked.Store(true)
	return c.Conn.Write(p)
}

func (c *boundedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.asked.Swap(false) {
		c.bytes, c.elements, c.nested = 0, 0, 0
	}
	if !c.follow(p[:n]) {
		_ = c.Close()
		return 0, errTooLarge
	}
	return n, err
}

// follow reports whether what was read is within the bounds.
func (c *boundedConn) follow(p []byte) bool {
	for len(p) > 0 {
		if c.skip > 0 {
			n := min(c.skip, int64(len(p)))
			c.skip -= n
			p = p[n:]
			continue
		}
		b := p[0]
		p = p[1:]
		switch {
		case b == '\n':
			if !c.announced() {
				return false
			}
			c.line, c.kind, c.number = 0, 0, 0
			continue
		case c.line == 0:
			c.kind = b
		case b >= '0' && b <= '9' && c.number < maxReplyBytes:
			c.number = 10*c.number + int64(b-'0')
		case b == '-':
			c.kind = 0 // nothing: a length of -1
		}
		if c.line++; c.line > maxReplyLine {
			return false
		}
	}
	return true
}

// announced reads the end of a line.
func (c *boundedConn) announced() bool {
	switch c.kind {
	case '$', '=', '!':
		c.skip = c.number + 2
		c.bytes += c.skip
	case '*', '%', '~', '>', '|':
		c.elements += c.number
		c.nested++
	}
	return c.bytes <= maxReplyBytes && c.elements <= maxReplyElements && c.nested <= maxReplyNested
}
