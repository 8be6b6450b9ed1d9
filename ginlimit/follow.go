package ginlimit

import (
	"bufio"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/stdhttp"
)

// follow has the rest of the chain handle a request that has something reserved.
// A handler that left errors and sent nothing expects a middleware further out to
// render them: then the status is that which is sent.
func follow(c *gin.Context, d *core.Decision) {
	f := stdhttp.Follow(d)
	w := c.Writer
	if d.Observes() {
		c.Writer = &writer{ResponseWriter: w, following: f}
	}
	returned := false
	defer func() {
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
		f.End(c.Request.Context(), err, returned, status, err == nil)
	}()
	c.Next()
	returned = true
}

// writer tells of what is sent after the handler has returned, and of hijacking.
type writer struct {
	gin.ResponseWriter
	following *stdhttp.Following
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writer) Write(b []byte) (int, error) {
	defer w.sent()
	return w.ResponseWriter.Write(b)
}

func (w *writer) WriteString(s string) (int, error) {
	defer w.sent()
	return w.ResponseWriter.WriteString(s)
}

func (w *writer) WriteHeaderNow() {
	defer w.sent()
	w.ResponseWriter.WriteHeaderNow()
}

func (w *writer) Flush() {
	defer w.sent()
	w.ResponseWriter.Flush()
}

func (w *writer) sent() { w.following.Sent(w.Status()) }

func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := w.ResponseWriter.Hijack()
	if err == nil {
		w.following.Hijacked()
	}
	return conn, rw, err
}
