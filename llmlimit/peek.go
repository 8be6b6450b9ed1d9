package llmlimit

import (
	"errors"
	"io"
)

// peeked is the beginning of a body.
type peeked struct {
	head     []byte
	complete bool      // it is the whole body
	body     *replayed // that begins with it
}

// peek reads at most a number of bytes, and returns them with a body that begins with them. Memory grows with what
// arrives, not with what is announced.
func peek(body io.ReadCloser, most int) peeked {
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
	r := &replayed{head: head, rest: body, err: err}
	return peeked{head: head, complete: errors.Is(err, io.EOF) && len(head) <= most, body: r}
}

// replayed is a body of which the beginning was read.
type replayed struct {
	head []byte
	rest io.ReadCloser
	err  error // that ended reading the beginning, or nil
}

func (r *replayed) Read(p []byte) (int, error) {
	if len(r.head) > 0 {
		n := copy(p, r.head)
		r.head = r.head[n:]
		if len(r.head) == 0 {
			r.head = nil
		}
		return n, nil
	}
	if r.err != nil {
		return 0, r.err
	}
	return r.rest.Read(p)
}

func (r *replayed) Close() error { return r.rest.Close() }
