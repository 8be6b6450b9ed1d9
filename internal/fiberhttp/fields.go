package fiberhttp

import (
	"bytes"
	"unsafe"
)

// Source is a request as fasthttp has parsed it. What it returns may be fasthttp's buffers.
type Source interface {
	// Block returns the header block as it was received.
	Block() []byte

	// Host returns the host of the request's first line, else of its header.
	Host() []byte

	// Lines returns the values of a header whose name is in canonical form.
	Lines(name string) [][]byte

	// Visit calls add with each name and value of a kind.
	Visit(kind Kind, add func(name, value []byte))

	// VisitTrailer calls add with each name that a trailer has announced or, in some releases of fasthttp, has had.
	VisitTrailer(add func(name []byte))

	// ExactNames reports whether names of headers keep the spelling in which they were sent.
	ExactNames() bool

	// Streams reports whether bodies are read when a handler reads them.
	Streams() bool
}

// Fields finds the values that a request has under one name: lines of a header,
// cookies, or parameters of the query. Those found last are kept: keys ask for a second
// value after the first, and limits of one key for the same values.
type Fields struct {
	kind    Kind
	name    string
	found   [][]byte
	unclear bool     // found is unclear
	own     [][]byte // what the block has
	framing framing
	visit   func(key, value []byte) // adds to found; made once, since each would be an allocation
}

// Kind is where a field stands.
type Kind uint8

// The kinds of fields.
const (
	none Kind = iota
	Header
	Cookie
	Query
)

// framing says whether a trailer may have been added to the headers.
type framing uint8

const (
	unknownFraming framing = iota
	plain
	chunked
)

// unclear are the values of a header or cookie to which a trailer or a middleware may have added one,
// or whose lines have lost their order. A key that reads it is ambiguous, an address is unknown, and
// the first value is empty.
var unclear = [][]byte{{}, []byte("?")}

// maxKept is how many values a request keeps room for.
const maxKept = 64

// Init prepares new Fields.
func (f *Fields) Init() { f.visit = f.add }

// Reset forgets the request.
func (f *Fields) Reset() {
	*f = Fields{found: emptied(f.found), own: emptied(f.own), visit: f.visit}
}

// emptied returns values without elements, to be used again.
func emptied(values [][]byte) [][]byte {
	if cap(values) > maxKept {
		return nil
	}
	clear(values)
	return values[:0]
}

// Value returns the i-th value of a request. It is fasthttp's buffer.
func (f *Fields) Value(r Source, kind Kind, name string, i int) (string, bool) {
	if f.kind != kind || f.name != name {
		f.find(r, kind, name)
	}
	if i < 0 || i >= len(f.found) {
		return "", false
	}
	value := f.found[i]
	return unsafe.String(unsafe.SliceData(value), len(value)), true //nolint:gosec // G103: keys copy what they keep
}

// Unclear reports whether a trailer, or middleware, may have brought the header or cookie that was
// asked for last.
func (f *Fields) Unclear() bool { return f.unclear }

func (f *Fields) find(r Source, kind Kind, name string) {
	f.kind, f.name, f.found, f.unclear = kind, name, f.found[:0], false
	switch kind {
	case Header:
		f.findHeader(r)
	case Cookie:
		r.Visit(Cookie, f.visit)
		if len(f.found) > 0 && f.chunked(r) {
			received := block(r.Block())
			// Only if what was found says so were tabs trimmed.
			if f.own = received.cookies(f.own[:0], f.name, true); len(f.own) == 0 || !f.isIntact() {
				f.own = received.cookies(f.own[:0], f.name, false)
			}
			f.keepOwn(true, false) // once fasthttp has collected cookies, a trailer adds none
		}
	case Query:
		r.Visit(Query, f.visit)
	case none:
	}
}

// add is visit.
func (f *Fields) add(key, value []byte) {
	if string(key) == f.name || f.kind == Header && equalFold(key, f.name) {
		f.found = append(f.found, value)
	}
}

func (f *Fields) findHeader(r Source) {
	received := block(r.Block())
	switch f.name {
	case "Host":
		// It may be in the request's first line too, which wins (RFC 9112, section 3.2.2).
		if host := r.Host(); len(host) > 0 {
			f.found = append(f.found, host)
			f.findSecond(received)
		}
		return // no trailer adds one
	case "Cookie", "User-Agent", "Content-Type":
		if f.chunked(r) { // fasthttp may have made one line of all
			f.found = received.lines(f.found, f.name)
			return
		}
	}
	if r.ExactNames() {
		r.Visit(Header, f.visit)
		f.addApart(r)
	} else {
		f.found = append(f.found, r.Lines(f.name)...)
	}
	if len(f.found) == 0 {
		return
	}
	for i, value := range f.found {
		f.found[i] = trimBlanks(value)
	}
	if f.name == "User-Agent" || f.name == "Content-Type" {
		f.findSecond(received)
		return
	}
	streamed := r.Streams() && f.chunked(r)
	if len(f.found) > 1 || streamed || received.count(f.name, 1) == 0 {
		f.own = received.lines(f.own[:0], f.name)
		f.keepOwn(f.chunked(r), streamed)
	}
}

// addApart adds what a trailer has brought where fasthttp keeps it apart: from 1.75 on it is still read by its
// name, behind the lines of the header, but not visited with them.
func (f *Fields) addApart(r Source) {
	r.VisitTrailer(func(name []byte) {
		if !equalFold(name, f.name) {
			return
		}
		visited := 0
		r.Visit(Header, func(other, _ []byte) {
			if bytes.Equal(other, name) {
				visited++
			}
		})
		if all := r.Lines(string(name)); visited < len(all) {
			f.found = append(f.found, all[visited:]...)
		}
	})
}

// findSecond adds a second line of a header of which fasthttp keeps the last only.
func (f *Fields) findSecond(b block) {
	if b.count(f.name, 2) > 1 {
		f.found = append(f.found, nil)
	}
}

// chunked reports whether a trailer may have been added to the headers.
func (f *Fields) chunked(r Source) bool {
	if f.framing == unknownFraming {
		f.framing = plain
		if block(r.Block()).chunked() {
			f.framing = chunked
		}
	}
	return f.framing == chunked
}

// keepOwn looks for what the block has among what was found, which may be in another order, and
// with additions: fasthttp appends a trailer to the headers, and where it or middleware removes one,
// some versions fill the gap with the last. The trailer of a body that is not streamed comes before
// middleware can remove a line, and with it all lines of its name.
func (f *Fields) keepOwn(chunked, streamed bool) {
	own, found := len(f.own), len(f.found)
	switch intact := f.isIntact(); {
	case intact && (own == found || chunked && own > 0): // what follows may be a trailer's
		f.found = f.found[:own]
	case intact && !chunked: // what follows is middleware's
	case f.isReordered(chunked):
		f.found = append(f.found[:0], f.own...)
	case found == 1 && own > 0 && !streamed: // middleware has replaced it
	default:
		f.found, f.unclear = append(f.found[:0], unclear...), true
	}
}

// isIntact reports whether what was found begins with what the block has.
func (f *Fields) isIntact() bool {
	intact := len(f.own) <= len(f.found)
	for i := 0; intact && i < len(f.own); i++ {
		intact = bytes.Equal(f.found[i], f.own[i])
	}
	return intact
}

// isReordered reports whether the block has what was found, in another order. Behind that may be
// what a trailer has, if the body was chunked.
func (f *Fields) isReordered(chunked bool) bool {
	n := len(f.own)
	if n == 0 || n > len(f.found) || n < len(f.found) && !chunked || n > maxKept { // it compares each with each
		return false
	}
	found := f.found[:n]
	times := func(in [][]byte, value []byte) (n int) {
		for _, other := range in {
			if bytes.Equal(other, value) {
				n++
			}
		}
		return n
	}
	for _, value := range f.own {
		if times(f.own, value) != times(found, value) {
			return false
		}
	}
	return true
}
