package ginlimit

import (
	"bufio"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/stdhttp"
)

// follow calls the rest of the chain for a request with a reservation. If a handler leaves errors
// and sends nothing, a middleware further out is expected to render them, and the status that is
// sent then counts.
func follow(c *gin.Context, d *core.Decision) {
	f := stdhttp.Follow(d, c.Request)
	defer f.Unwind()
	w := c.Writer
	if adapter.ReadsOutcome(d) {
		c.Writer = &writer{w, f}
	}
	c.Next()
	var err error
	if last := c.Errors.Last(); last != nil {
		err = last.Err
	}
	if w.Written() {
		f.Sent(w.Status())
	}
	status := w.Status()
	if err != nil && status < http.StatusBadRequest {
		status = http.StatusInternalServerError
	}
	f.End(stdhttp.Ending{Err: err, Status: status, Rendered: err == nil})
}

// measure returns middleware by which load measures the handlers behind it.
func measure(load *core.Load) gin.HandlerFunc {
	return func(c *gin.Context) {
		work := load.Begin(request{c})
		defer work.End() // also if the handler panics
		stdhttp.MeasureBody(work, c.Request)
		c.Writer = &writer{c.Writer, stdhttp.Measuring(work)}
		c.Next()
	}
}

// writer tells a watcher what is sent, also after the handler has returned.
type writer struct {
	gin.ResponseWriter
	watcher stdhttp.Watcher
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writer) Write(b []byte) (n int, err error) {
	from := w.watcher.Clock()
	defer func() { w.watcher.Wrote(from, err) }()
	n, err = w.ResponseWriter.Write(b)
	w.watcher.Sent(w.Status())
	return n, err
}

func (w *writer) WriteString(s string) (n int, err error) {
	from := w.watcher.Clock()
	defer func() { w.watcher.Wrote(from, err) }()
	n, err = w.ResponseWriter.WriteString(s)
	w.watcher.Sent(w.Status())
	return n, err
}

func (w *writer) WriteHeaderNow() {
	from := w.watcher.Clock()
	defer func() { w.watcher.Wrote(from, nil) }()
	w.ResponseWriter.WriteHeaderNow()
	w.watcher.Sent(w.Status())
}

func (w *writer) Flush() {
	from := w.watcher.Clock()
	defer func() { w.watcher.Wrote(from, nil) }()
	w.ResponseWriter.Flush()
	w.watcher.Sent(w.Status())
}

func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := w.ResponseWriter.Hijack()
	if err == nil {
		w.watcher.Hijacked()
	}
	return conn, rw, err
}
