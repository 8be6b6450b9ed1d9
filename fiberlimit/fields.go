package fiberlimit

import (
	"bytes"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/utils"
)

// fields finds the values that a request has under one name: lines of a header,
// cookies, or parameters of the query. Those found last are kept: keys ask for a second
// value after the first, and limits of one key for the same values.
type fields struct {
	kind    fieldKind
	name    string
	found   [][]byte
	unclear bool // found is unclear
	framing framing
	visit   func(key, value []byte) // adds to found; made once, since each would be an allocation
}

type fieldKind uint8

const (
	noField fieldKind = iota
	headerField
	cookieField
	queryField
)

// framing says whether a trailer may have been added to the headers.
type framing uint8

const (
	unknownFraming framing = iota
	plain
	chunked
)

// unclear are the values of a header or cookie that a chunked request has but its header block has
// not: a trailer or a middleware has added it. A key that reads it is ambiguous, an address is
// unknown, and the first value is empty.
var unclear = [][]byte{{}, []byte("?")}

// maxKept is how many values a request keeps room for.
const maxKept = 64

// reset forgets the request.
func (f *fields) reset() {
	if cap(f.found) > maxKept {
		f.found = nil
	}
	clear(f.found)
	*f = fields{found: f.found[:0], visit: f.visit}
}

// value returns the i-th value.
func (f *fields) value(r *request, kind fieldKind, name string, i int) (string, bool) {
	if f.kind != kind || f.name != name {
		f.find(r.c, r.settings, kind, name)
	}
	if i < 0 || i >= len(f.found) {
		return "", false
	}
	return utils.UnsafeString(f.found[i]), true
}

func (f *fields) find(c *fiber.Ctx, s *settings, kind fieldKind, name string) {
	f.kind, f.name, f.found, f.unclear = kind, name, f.found[:0], false
	switch kind {
	case headerField:
		f.findHeader(c, s)
	case cookieField:
		f.findCookies(c)
	case queryField:
		c.Context().QueryArgs().VisitAll(f.visit)
	case noField:
	}
}

// add is visit.
func (f *fields) add(key, value []byte) {
	if string(key) == f.name || f.kind == headerField && equalFold(key, f.name) {
		f.found = append(f.found, value)
	}
}

func (f *fields) findHeader(c *fiber.Ctx, s *settings) {
	header := &c.Request().Header
	received := block(header.RawHeaders())
	switch f.name {
	case fiber.HeaderHost:
		// It may be in the request's first line too, which wins (RFC 9112, section 3.2.2).
		if host := c.Context().URI().Host(); len(host) > 0 {
			f.found = append(f.found, host)
			f.findSecond(received)
		}
		return // no trailer adds one
	case fiber.HeaderCookie, fiber.HeaderUserAgent, fiber.HeaderContentType:
		if f.chunked(c) { // fasthttp may have made one line of all
			f.found = received.lines(f.found, f.name)
			return
		}
	}
	if s.exactNames {
		header.VisitAll(f.visit)
	} else {
		f.found = append(f.found, header.PeekAll(f.name)...)
	}
	if len(f.found) == 0 {
		return
	}
	for i, value := range f.found {
		f.found[i] = trimBlanks(value)
	}
	if f.name == fiber.HeaderUserAgent || f.name == fiber.HeaderContentType {
		f.findSecond(received)
		return
	}
	if s.streams {
		if f.chunked(c) {
			f.keepEqual(received)
		}
		return
	}
	// Lines of a trailer come behind those of the block, since fasthttp reads it before
	// any middleware can remove a line.
	if n := received.count(f.name, len(f.found)); n < len(f.found) && f.chunked(c) {
		f.keep(n)
	}
}

// findSecond adds a second line of a header of which fasthttp keeps the last only.
func (f *fields) findSecond(b block) {
	if b.count(f.name, 2) > 1 {
		f.found = append(f.found, nil)
	}
}

func (f *fields) findCookies(c *fiber.Ctx) {
	header := &c.Request().Header
	header.VisitAllCookie(f.visit)
	if len(f.found) > 0 && f.chunked(c) {
		f.keep(block(header.RawHeaders()).countCookies(f.name))
	}
}

// chunked reports whether a trailer may have been added to the headers.
func (f *fields) chunked(c *fiber.Ctx) bool {
	if f.framing == unknownFraming {
		f.framing = plain
		if block(c.Request().Header.RawHeaders()).chunked() {
			f.framing = chunked
		}
	}
	return f.framing == chunked
}

// keepEqual keeps the lines that equal those of the block. If bodies are streams, a trailer is added
// when the body is read, and can replace a line that was removed.
func (f *fields) keepEqual(b block) {
	n := 0
	for {
		name, value, ok := b.next()
		if !ok {
			f.keep(n)
			return
		}
		if !equalFold(name, f.name) {
			continue
		}
		if n < len(f.found) && !bytes.Equal(f.found[n], trimLine(value)) {
			f.keep(0)
			return
		}
		n++
	}
}

// keep keeps the first n values. With none left they are unclear.
func (f *fields) keep(n int) {
	switch {
	case n == 0:
		f.found, f.unclear = append(f.found[:0], unclear...), true
	case n < len(f.found):
		f.found = f.found[:n]
	}
}
