package grpclimit

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// callStream is the stream that a handler gets: its context has the decision, the rate limit
// headers go out with what is sent first, and it is noted what the client does.
type callStream struct {
	grpc.ServerStream
	exchange *exchange
	timed    bool // the outcome will be read
}

// Context returns the context with the decision.
func (s *callStream) Context() context.Context { return s.exchange }

// SendHeader implements [grpc.ServerStream].
func (s *callStream) SendHeader(md metadata.MD) error {
	s.exchange.beforeSending()
	return s.ServerStream.SendHeader(md)
}

// SendMsg implements [grpc.ServerStream].
func (s *callStream) SendMsg(m any) error {
	s.exchange.beforeSending()
	if !s.timed {
		return s.ServerStream.SendMsg(m)
	}
	from := time.Now()
	err := s.ServerStream.SendMsg(m)
	s.exchange.client.waited.Add(int64(time.Since(from)))
	return err
}

// RecvMsg implements [grpc.ServerStream].
func (s *callStream) RecvMsg(m any) error {
	if !s.timed {
		return s.ServerStream.RecvMsg(m)
	}
	c := &s.exchange.client
	from := time.Now()
	c.reading.Store(from.UnixNano())
	err := s.ServerStream.RecvMsg(m)
	c.reading.Store(0)
	c.waited.Add(int64(time.Since(from)))
	if err != nil && !errors.Is(err, io.EOF) {
		c.broken.Store(true)
	}
	return err
}

// beforeSending sets the header metadata. If the handler has sent its own past the stream, by
// grpc.SendHeader, there will be trailers.
func (x *exchange) beforeSending() {
	if x.response == &x.own {
		_ = x.own.send(x.setHeader)
	}
}

// client is what a stream shows of its client. Handlers may read and write in goroutines that
// outlive them.
type client struct {
	waited  atomic.Int64 // nanoseconds that reads and writes took
	reading atomic.Int64 // since when a read waits, in nanoseconds since the epoch; 0 if none does
	broken  atomic.Bool  // a read failed: the client is gone, or its message can't be read
}

// wait returns how long the handler has waited for the client.
func (c *client) wait() time.Duration {
	total := time.Duration(c.waited.Load())
	if since := c.reading.Load(); since > 0 {
		total += max(time.Since(time.Unix(0, since)), 0)
	}
	return total
}
