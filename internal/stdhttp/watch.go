package stdhttp

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/felixge/httpsnoop"

	"github.com/weblimit/weblimit/core/adapter"
)

// Watch returns a writer for the handler, which notes what is sent. It has the optional methods
// that w has, such as Flush.
func (f *Following) Watch(w http.ResponseWriter) http.ResponseWriter {
	if !adapter.ReadsOutcome(f.decision) {
		return w
	}
	return httpsnoop.Wrap(w, httpsnoop.Hooks{
		WriteHeader: func(next httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
			return func(code int) {
				next(code)
				f.Sent(code)
			}
		},
		Write: func(next httpsnoop.WriteFunc) httpsnoop.WriteFunc {
			return func(b []byte) (int, error) {
				f.Sent(http.StatusOK)
				from := f.Clock()
				n, err := next(b)
				f.Wrote(from, err)
				return n, err
			}
		},
		ReadFrom: func(next httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
			return func(src io.Reader) (int64, error) {
				f.Sent(http.StatusOK)
				if !isFile(src) { // waiting for src is not waiting for the client
					return io.Copy(watchedWriter{w, f}, src)
				}
				from := f.Clock()
				n, err := next(src)
				f.Wrote(from, err)
				return n, err
			}
		},
		Flush: func(next httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			return func() {
				f.Sent(http.StatusOK)
				from := f.Clock()
				next()
				f.Wrote(from, nil)
			}
		},
		Hijack: func(next httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) {
				conn, rw, err := next()
				if err == nil {
					f.Hijacked()
				}
				return conn, rw, err
			}
		},
	})
}

// watchedWriter is an io.Writer and nothing else.
type watchedWriter struct {
	w io.Writer
	f *Following
}

func (w watchedWriter) Write(b []byte) (int, error) {
	from := w.f.Clock()
	n, err := w.w.Write(b)
	w.f.Wrote(from, err)
	return n, err
}

// Clock returns the time at which a write begins, for [Following.Wrote].
func (f *Following) Clock() int64 { return f.client.clock() }

// Wrote notes how long a write that began at from waited for the client, and whether it failed.
func (f *Following) Wrote(from int64, err error) { f.client.wrote(from, err) }
