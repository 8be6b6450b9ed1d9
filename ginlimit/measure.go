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

// measure returns middleware by which load measures the handlers behind it.
func measure(load *core.Load) gin.HandlerFunc {
	return func(c *gin.Context) {
		work := adapter.Begin(load, request{c})
		defer work.End() // also if the handler panics
		stdhttp.MeasureBody(work, c.Request)
		c.Writer = &measured{c.Writer, work}
		c.Next()
	}
}

// measured is a writer that notes when it waits for the client to read.
type measured struct {
	gin.ResponseWriter
	work adapter.Work
}

// Unwrap is for http.ResponseController.
func (m *measured) Unwrap() http.ResponseWriter { return m.ResponseWriter }

func (m *measured) Write(b []byte) (int, error) {
	m.work.Wait()
	defer m.work.Resume()
	return m.ResponseWriter.Write(b)
}

func (m *measured) WriteString(s string) (int, error) {
	m.work.Wait()
	defer m.work.Resume()
	return m.ResponseWriter.WriteString(s)
}

func (m *measured) WriteHeaderNow() {
	m.work.Wait()
	defer m.work.Resume()
	m.ResponseWriter.WriteHeaderNow()
}

func (m *measured) Flush() {
	m.work.Wait()
	defer m.work.Resume()
	m.ResponseWriter.Flush()
}

func (m *measured) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := m.ResponseWriter.Hijack()
	if err == nil {
		m.work.Forget()
	}
	return conn, rw, err
}
