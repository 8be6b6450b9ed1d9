package stdhttp

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/felixge/httpsnoop"

	"github.com/weblimit/weblimit/core/adapter"
)

// MeasureBody replaces r's body by one that notes when the handler waits for the client.
func MeasureBody(work adapter.Work, r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &measuredBody{r.Body, work}
	}
}

// measuredBody notes when it waits for the client. Close can wait, too: net/http reads some of
// the rest of the body.
type measuredBody struct {
	io.ReadCloser
	work adapter.Work
}

func (b *measuredBody) Read(p []byte) (int, error) {
	b.work.Wait()
	defer b.work.Resume()
	return b.ReadCloser.Read(p)
}

func (b *measuredBody) Close() error {
	b.work.Wait()
	defer b.work.Resume()
	return b.ReadCloser.Close()
}

// MeasureWriter returns a writer that notes when it waits for the client to read. It
// has the methods that w has beyond those of an http.ResponseWriter.
func MeasureWriter(work adapter.Work, w http.ResponseWriter) http.ResponseWriter {
	return httpsnoop.Wrap(w, httpsnoop.Hooks{
		WriteHeader: func(next httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
			return func(code int) {
				work.Wait()
				defer work.Resume()
				next(code)
			}
		},
		Write: func(next httpsnoop.WriteFunc) httpsnoop.WriteFunc {
			return func(b []byte) (int, error) {
				work.Wait()
				defer work.Resume()
				return next(b)
			}
		},
		Flush: func(next httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			return func() {
				work.Wait()
				defer work.Resume()
				next()
			}
		},
		ReadFrom: func(next httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
			return func(src io.Reader) (int64, error) {
				if !isFile(src) { // waiting for src is not waiting for the client
					return io.Copy(measuredWriter{w, work}, src)
				}
				work.Wait()
				defer work.Resume()
				return next(src)
			}
		},
		Hijack: func(next httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) {
				conn, rw, err := next()
				if err == nil {
					work.Forget()
				}
				return conn, rw, err
			}
		},
	})
}

// isFile reports whether the system can send src by itself.
func isFile(src io.Reader) bool {
	if part, ok := src.(*io.LimitedReader); ok {
		src = part.R
	}
	_, ok := src.(*os.File)
	return ok
}

// measuredWriter is an io.Writer and nothing else.
type measuredWriter struct {
	w    io.Writer
	work adapter.Work
}

func (m measuredWriter) Write(b []byte) (int, error) {
	m.work.Wait()
	defer m.work.Resume()
	return m.w.Write(b)
}

// Measure has next serve a request that load measures.
func Measure(work adapter.Work, w http.ResponseWriter, r *http.Request, next http.Handler) {
	defer work.End() // also if the handler panics
	MeasureBody(work, r)
	next.ServeHTTP(MeasureWriter(work, w), r)
}
