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

// Watcher hears what a handler sends, and when it waits for the client to read. A [Following] is one, and what
// [Measuring] returns.
type Watcher interface {
	// Clock is called when a write begins, for Wrote.
	Clock() int64

	// Wrote is called when a write has ended that began at from, also by a panic.
	Wrote(from int64, err error)

	// Sent is called with each status that is sent.
	Sent(code int)

	// Hijacked is called once the handler has taken the connection.
	Hijacked()
}

// Watch returns a writer for the handler, which notes what is sent. It has the optional methods
// that w has, such as Flush.
func (f *Following) Watch(w http.ResponseWriter) http.ResponseWriter {
	if !adapter.ReadsOutcome(f.decision) {
		return w
	}
	return watch(w, f)
}

func watch(w http.ResponseWriter, watcher Watcher) http.ResponseWriter {
	return httpsnoop.Wrap(w, httpsnoop.Hooks{
		WriteHeader: func(next httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
			return func(code int) {
				if code < http.StatusOK { // goes out at once; others wait for the body
					from := watcher.Clock()
					defer func() { watcher.Wrote(from, nil) }()
				}
				next(code)
				watcher.Sent(code)
			}
		},
		Write: func(next httpsnoop.WriteFunc) httpsnoop.WriteFunc {
			return func(b []byte) (n int, err error) {
				watcher.Sent(http.StatusOK)
				from := watcher.Clock()
				defer func() { watcher.Wrote(from, err) }()
				return next(b)
			}
		},
		ReadFrom: func(next httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
			return func(src io.Reader) (n int64, err error) {
				watcher.Sent(http.StatusOK)
				if !isFile(src) { // waiting for src is not waiting for the client
					return io.Copy(watchedWriter{w, watcher}, src)
				}
				from := watcher.Clock()
				defer func() { watcher.Wrote(from, err) }()
				return next(src)
			}
		},
		Flush: func(next httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			return func() {
				watcher.Sent(http.StatusOK)
				from := watcher.Clock()
				defer func() { watcher.Wrote(from, nil) }()
				next()
			}
		},
		Hijack: func(next httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) {
				conn, rw, err := next()
				if err == nil {
					watcher.Hijacked()
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

// watchedWriter is an io.Writer and nothing else.
type watchedWriter struct {
	w       io.Writer
	watcher Watcher
}

func (w watchedWriter) Write(b []byte) (n int, err error) {
	from := w.watcher.Clock()
	defer func() { w.watcher.Wrote(from, err) }()
	return w.w.Write(b)
}

// Clock returns the time at which a write begins.
func (f *Following) Clock() int64 { return f.client.clock() }

// Wrote notes how long a write waited for the client, and whether it failed.
func (f *Following) Wrote(from int64, err error) { f.client.wrote(from, err) }
