package stdhttp

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// client observes a request's client while the handler runs: whether it breaks the request off,
// and for how long the handler waits for it. Handlers may read and write in goroutines that
// outlive them.
type client struct {
	body    io.ReadCloser
	began   time.Time
	reading atomic.Int64 // since when a read of the body has waited, as clock tells it; 0 if none does
	total   atomic.Int64 // nanoseconds that reads and writes took
	closed  atomic.Bool  // the handler has closed the body, which makes later reads fail
	broken  atomic.Bool  // a read or write failed, or the body was closed while the client kept it back
	late    atomic.Bool  // a write came after the time-out of an http.TimeoutHandler around the limiter
}

// watch observes the client by the request's body. r must be a copy that the limiter made. The
// body http.NoBody stays, since other code compares with it.
func (c *client) watch(r *http.Request) {
	c.began = time.Now()
	if r.Body != nil && r.Body != http.NoBody {
		c.body = r.Body
		r.Body = c
	}
}

// clock returns the time since the request began, and never 0.
func (c *client) clock() int64 { return int64(time.Since(c.began)) | 1 }

// Read reads the body.
func (c *client) Read(p []byte) (int, error) {
	from := c.clock()
	c.reading.Store(from)
	n, err := c.body.Read(p)
	c.reading.Store(0)
	c.total.Add(c.clock() - from)
	if err != nil && !errors.Is(err, io.EOF) && !c.closed.Load() {
		c.broken.Store(true)
	}
	return n, err
}

// Close closes the body.
func (c *client) Close() error {
	if c.keepsBack() {
		c.broken.Store(true)
	}
	c.closed.Store(true)
	return c.body.Close()
}

// keepsBack reports whether a read of the body has waited for at least half of the request's
// time. If the server has given up by now, that wait may be the reason. The reads of an upload
// that makes progress wait only briefly each.
func (c *client) keepsBack() bool {
	now, since := c.clock(), c.reading.Load()
	return since > 0 && !c.closed.Load() && now-since >= now/2
}

// broke reports whether the client broke the request off.
func (c *client) broke() bool { return c.broken.Load() || c.keepsBack() }

// waited returns how long the handler has waited for the client.
func (c *client) waited() time.Duration {
	total := c.total.Load()
	if since := c.reading.Load(); since > 0 {
		total += c.clock() - since
	}
	return time.Duration(total)
}

// wrote notes a write to the client that began at a time and has ended now.
func (c *client) wrote(from int64, err error) {
	c.total.Add(c.clock() - from)
	switch {
	case err == nil, errors.Is(err, http.ErrBodyNotAllowed), errors.Is(err, http.ErrContentLength), errors.Is(err, http.ErrHijacked):
		// The client is not the reason.
	case errors.Is(err, http.ErrHandlerTimeout):
		c.late.Store(true)
	default:
		c.broken.Store(true)
	}
}
