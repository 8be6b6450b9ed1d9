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
		c.Writer = &writer{ResponseWriter: w, following: f}
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

// writer reports to following what is sent, also after the handler has returned, and hijacking.
type writer struct {
	gin.ResponseWriter
	following *stdhttp.Following
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writer) Write(b []byte) (int, error) {
	from := w.following.Clock()
	n, err := w.ResponseWriter.Write(b)
	w.wrote(from, err)
	return n, err
}

func (w *writer) WriteString(s string) (int, error) {
	from := w.following.Clock()
	n, err := w.ResponseWriter.WriteString(s)
	w.wrote(from, err)
	return n, err
}

func (w *writer) WriteHeaderNow() {
	w.ResponseWriter.WriteHeaderNow()
	w.following.Sent(w.Status())
}

func (w *writer) Flush() {
	from := w.following.Clock()
	w.ResponseWriter.Flush()
	w.wrote(from, nil)
}

func (w *writer) wrote(from int64, err error) {
	w.following.Wrote(from, err)
	w.following.Sent(w.Status())
}

func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := w.ResponseWriter.Hijack()
	if err == nil {
		w.following.Hijacked()
	}
	return conn, rw, err
}
