package stdhttp

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"

	"github.com/felixge/httpsnoop"

	"github.com/weblimit/weblimit/core"
)

// Following finds out how a request ends, and settles its decision then. It is
// made only for requests that have something reserved.
type Following struct {
	decision *core.Decision
	outcome  core.Outcome // as far as it is known
	open     bool         // the handler has returned, and what it returned is still to be rendered
}

// Follow begins to follow a request.
func Follow(d *core.Decision) *Following { return &Following{decision: d} }

// Watch returns a writer that tells of the response, for the handler to write to.
// It has the methods that w has beyond those of an http.ResponseWriter.
func (f *Following) Watch(w http.ResponseWriter) http.ResponseWriter {
	if !f.decision.Observes() {
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
				return next(b)
			}
		},
		ReadFrom: func(next httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
			return func(src io.Reader) (int64, error) {
				f.Sent(http.StatusOK)
				return next(src)
			}
		},
		Flush: func(next httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			return func() {
				f.Sent(http.StatusOK)
				next()
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

// Sent notes a status that was sent, of which the first counts that is final.
func (f *Following) Sent(code int) {
	if f.outcome.Status != 0 || code < 200 && code != http.StatusSwitchingProtocols {
		return
	}
	f.outcome.Status = code
	if f.open {
		f.open = false
		f.decision.Settle(f.outcome)
	}
}

// Hijacked notes that the handler took the connection.
func (f *Following) Hijacked() {
	f.outcome.Hijacked = true
	f.Sent(http.StatusSwitchingProtocols)
}

// End settles after the handler has returned, or panicked if returned is false.
// status is what the framework will send if nothing was sent yet. rendered says
// that this is for sure: else somebody further out may still turn err into another,
// which is waited for until the request's context ends with the request.
func (f *Following) End(ctx context.Context, err error, returned bool, status int, rendered bool) {
	o := &f.outcome
	o.Err, o.Panicked, o.Canceled = err, !returned, ctx.Err() != nil
	switch {
	case o.Status != 0:
	case !returned:
		o.Status = http.StatusInternalServerError
	case rendered || !f.decision.Observes():
		o.Status = status
	default:
		f.open = true
		foreseen := *o
		foreseen.Status = status
		context.AfterFunc(ctx, func() { f.decision.Settle(foreseen) })
		return
	}
	f.decision.Settle(*o)
}
