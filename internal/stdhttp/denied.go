package stdhttp

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/felixge/httpsnoop"

	"github.com/weblimit/weblimit/core"
)

// Denied has the application's hook answer a denial. A body without a status gets that of the
// decision, and a hook that writes nothing is answered for as usual: without either, net/http
// would send 200.
func Denied(w http.ResponseWriter, r *http.Request, d *core.Decision, hook func(http.ResponseWriter, *http.Request, core.Decision)) {
	if !Answered(w, d, func(w http.ResponseWriter) { hook(w, r, *d) }) {
		Deny(w, r, d)
	}
}

// Answered reports whether hook answers a denial on the writer that it is given. A body without a status gets that of the
// decision.
func Answered(w http.ResponseWriter, d *core.Decision, hook func(http.ResponseWriter)) (begun bool) {
	begin := func() {
		if !begun {
			begun = true
			w.WriteHeader(d.Status())
		}
	}
	hook(httpsnoop.Wrap(w, httpsnoop.Hooks{
		WriteHeader: func(next httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
			return func(code int) {
				begun = begun || code >= http.StatusOK || code == http.StatusSwitchingProtocols
				next(code)
			}
		},
		Write: func(next httpsnoop.WriteFunc) httpsnoop.WriteFunc {
			return func(b []byte) (int, error) {
				begin()
				return next(b)
			}
		},
		ReadFrom: func(next httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
			return func(src io.Reader) (int64, error) {
				begin()
				return next(src)
			}
		},
		Flush: func(next httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			return func() {
				begin()
				next()
			}
		},
		Hijack: func(next httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) {
				conn, rw, err := next()
				begun = begun || err == nil
				return conn, rw, err
			}
		},
	}))
	return begun
}
