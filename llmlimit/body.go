package llmlimit

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
)

// body is the body of an answer, which is read as it passes, and settled once: at its end, when it fails, or when it is
// closed.
type body struct {
	rest    io.ReadCloser
	meter   *Meter
	context context.Context
	spent   Spent
	limit   int64           // tokens of output behind which the stream ends; 0 for none
	after   func(err error) // what else settling means, or nil

	mu      sync.Mutex
	reader  *Reader // nil if nothing can be read. Guarded by mu.
	settled bool    // Guarded by mu.
	cut     bool    // the stream was ended. Guarded by mu.
	texted  bool    // the event that is read has text. Guarded by mu.
	last    []byte  // what is still to be passed on then. Guarded by mu.
}

// Read passes bytes on as they come, after it has read them.
func (b *body) Read(p []byte) (int, error) {
	if n, cut := b.readLast(p); cut {
		if n == 0 && len(p) > 0 {
			return 0, io.EOF
		}
		return n, nil
	}
	n, err := b.rest.Read(p)
	if n > 0 && b.note(p[:n], &n) {
		_ = b.rest.Close() // so that the provider stops
		return n, nil
	}
	if err != nil {
		b.settle(err)
	}
	return n, err
}

func (b *body) readLast(p []byte) (n int, cut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cut {
		n = copy(p, b.last)
		b.last = b.last[n:]
	}
	return n, b.cut
}

// note reads bytes, and reports whether the stream ends behind the first n of them.
func (b *body) note(p []byte, n *int) (cut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reader == nil || b.settled {
		return false
	}
	for at := 0; at < len(p); {
		pieces := b.reader.tally.pieces
		read, event := b.reader.next(p[at:])
		at += read
		b.texted = b.texted || b.reader.tally.pieces > pieces
		if !event {
			continue
		}
		over := b.limit > 0 && b.texted && !b.reader.tally.ended && b.reader.output() > b.limit
		b.texted = false
		if over {
			b.cut, b.spent.EndedAtLimit, *n = true, true, at
			b.last = b.reader.ending(b.spent.Call.responses)
			b.settleLocked(nil)
			return true
		}
	}
	return false
}

// Close implements [io.Closer].
func (b *body) Close() error {
	b.settle(nil)
	return b.rest.Close()
}

func (b *body) settle(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settleLocked(err)
}

func (b *body) settleLocked(err error) {
	if b.settled {
		return
	}
	b.settled = true
	var told Report
	var written int64
	if b.reader != nil {
		told, written = b.reader.Report(), b.reader.tally.written()
	}
	b.spent.complete(told, written)
	b.meter.settle(b.context, &b.spent)
	if b.after != nil {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		b.after(err)
	}
	b.reader = nil // a body may be kept for longer
}

// output returns the output so far, as it was told or else estimated.
func (r *Reader) output() int64 { return max(r.Report().Output, r.tally.written()) }

// wrap has the body of an answer read and settled. It changes res.
func (m *Meter) wrap(ctx context.Context, res *http.Response, c *Call, after func(error)) {
	b := &body{
		rest: res.Body, meter: m, context: ctx, after: after, reader: NewReader(c.API, res.Header),
		spent: Spent{Call: *c, Status: res.StatusCode, Trusted: res.Request != nil && m.trusts(res.Request.URL)},
	}
	if m.config.EndAtEstimate && b.reader != nil && (b.reader.form != whole || c.API == Gemini && c.Stream) {
		b.limit = max(c.Output, 1)
		res.ContentLength = -1
		res.Header.Del("Content-Length")
	}
	if b.rest == nil {
		b.rest = http.NoBody
	}
	res.Body = b
}
