// Package peek reads the beginning of a body, which others then read from its beginning.
package peek

import (
	"errors"
	"io"
	"slices"
)

// Body is a body of which the beginning was read. It is an [io.ReadCloser] that begins with it.
type Body struct {
	Head     []byte // the beginning; it must not change
	Complete bool   // Head is the whole body

	unread []byte // of Head, or of what stands in its place
	rest   io.ReadCloser
	err    error // that ended reading the beginning, or nil
}

// Begin reads at most a number of bytes of a body. It keeps one byte more if there is more. Memory grows with what
// arrives, not with what is announced.
func Begin(body io.ReadCloser, most int) *Body {
	head := make([]byte, 0, min(most+1, 512))
	var err error
	for len(head) <= most && err == nil {
		if len(head) == cap(head) {
			grown := make([]byte, len(head), min(2*cap(head), most+1))
			copy(grown, head)
			head = grown
		}
		var n int
		n, err = body.Read(head[len(head):cap(head)])
		head = head[:len(head)+n]
	}
	return &Body{Head: head, Complete: errors.Is(err, io.EOF) && len(head) <= most, unread: head, rest: body, err: err}
}

// Insert has the body have further bytes at a place in Head. Call it before the body is read.
func (b *Body) Insert(at int, text string) {
	b.unread = slices.Concat(b.Head[:at], []byte(text), b.Head[at:])
}

// Read implements [io.Reader].
func (b *Body) Read(p []byte) (int, error) {
	if len(b.unread) > 0 {
		n := copy(p, b.unread)
		if b.unread = b.unread[n:]; len(b.unread) == 0 {
			b.unread, b.Head = nil, nil
		}
		return n, nil
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.rest.Read(p)
}

// Close implements [io.Closer].
func (b *Body) Close() error { return b.rest.Close() }
