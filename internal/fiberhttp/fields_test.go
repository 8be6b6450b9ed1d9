package fiberhttp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
)

// parsed is a request whose header block and parsed headers a test sets.
type parsed struct {
	block    string
	lines    []string // of X-A, in the order that fasthttp has
	cookies  []string // named sid
	exact    bool     // names keep their spelling
	visited  int      // how many of the lines are visited; 0 for all. The others came in a trailer, which is kept apart
	streamed bool
}

func (p parsed) Block() []byte         { return []byte(p.block) }
func (p parsed) Host() []byte          { return []byte("example.com") }
func (p parsed) Lines(string) [][]byte { return slices.Collect(bytesOf(p.lines)) }
func (p parsed) ExactNames() bool      { return p.exact }
func (p parsed) Streams() bool         { return p.streamed }

func (p parsed) VisitTrailer(add func(name []byte)) { add([]byte("X-A")) }

func (p parsed) Visit(kind Kind, add func(name, value []byte)) {
	if kind == Header {
		for i, line := range p.lines {
			if p.visited == 0 || i < p.visited {
				add([]byte("X-A"), []byte(line))
			}
		}
		return
	}
	for cookie := range bytesOf(p.cookies) {
		add([]byte("sid"), cookie)
	}
}

func bytesOf(values []string) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for _, value := range values {
			if !yield([]byte(value)) {
				return
			}
		}
	}
}

// all returns all values, "unclear" if they are.
func all(f *Fields, p parsed, kind Kind, name string) string {
	var values []string
	for i := 0; ; i++ {
		value, ok := f.Value(p, kind, name, i)
		if !ok {
			break
		}
		values = append(values, value)
	}
	if f.Unclear() {
		return "unclear"
	}
	return strings.Join(values, " ")
}

// Versions of fasthttp from 1.69 on fill the gap that a removed header leaves with the last one.
// They do so themselves for the Transfer-Encoding of an empty body. A client that can choose the
// order of X-Forwarded-For is any client it likes.
func TestLinesInTheOrderOfTheBlock(t *testing.T) {
	t.Parallel()
	const chunkedLine = "Transfer-Encoding: chunked\r\n"
	for _, tt := range []struct {
		name  string
		block string // of X-A
		lines string // as parsed
		plain string // want
		chunk string // want, if the body is chunked
	}{
		{"unchanged", "a", "a", "a", "a"},
		{"two lines", "a b", "a b", "a b", "a b"},
		{"two lines in another order", "a b", "b a", "a b", "a b"},
		{"four lines in another order", "a b c a", "a c a b", "a b c a", "a b c a"},
		{"a line more: of middleware, or of a trailer", "a", "a x", "a x", "a"},
		{"a line more in front", "a", "x a", "unclear", "unclear"},
		{"two lines and one more in front", "a b", "x a b", "unclear", "unclear"},
		{"two lines and one more, in another order", "a b", "b a x", "unclear", "a b"},
		{"not in the block", "", "x", "x", "unclear"},
		{"replaced", "a", "m", "m", "m"},
		{"replaced with a line more", "a", "m x", "unclear", "unclear"},
		{"one for two", "a b", "m", "m", "m"},
		{"one of two replaced", "a b", "m b", "unclear", "unclear"},
		{"removed", "a", "", "", ""},
	} {
		for framing, want := range map[string]string{"": tt.plain, chunkedLine: tt.chunk} {
			block := "Host: example.com\r\n" + framing
			for value := range strings.FieldsSeq(tt.block) {
				block += "X-A: " + value + "\r\n"
			}
			var f Fields
			f.Init()
			p := parsed{block: block + "\r\n", lines: strings.Fields(tt.lines)}
			for range 2 {
				check.Equal(t, fmt.Sprintf("%s, chunked %v", tt.name, framing != ""), all(&f, p, Header, "X-A"), want)
				f.Reset()
			}
		}
	}
}

// fasthttp from 1.75 on keeps trailers apart, but an application still reads them by their names.
func TestTrailersThatAreKeptApart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ block, lines, want string }{
		{"X-A: a\r\nX-B: b\r\n", "a x", "a"},
		{"X-A: a\r\n", "m x", "unclear"}, // middleware has replaced it before the trailer came
	} {
		var f Fields
		f.Init()
		p := parsed{block: "Transfer-Encoding: chunked\r\n" + tt.block + "\r\n", lines: strings.Fields(tt.lines), exact: true, visited: 1}
		check.Equal(t, tt.block, all(&f, p, Header, "X-A"), tt.want)
	}
}

// A line of a stream's trailer may stand in the place of one that was removed before.
func TestLinesOfStreams(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{"a": "a", "x": "unclear"} {
		var f Fields
		f.Init()
		p := parsed{block: "Transfer-Encoding: chunked\r\nX-A: a\r\n\r\n", lines: []string{line}, streamed: true}
		check.Equal(t, line, all(&f, p, Header, "X-A"), want)
	}
}

func TestCookiesInTheOrderOfTheBlock(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ block, cookies, want string }{
		{"sid=a", "a", "a"},
		{`x=1;  sid ="a" ;y`, "a", "a"},
		{"sid=a; sid=b", "b a", "a b"},
		{"sid=a", "a x", "a"},
		{"sid=a", "x a", "unclear"},
		{"sid=a", "plain", "plain"},
		{"\tsid=a\t", "a", "a"}, // as fasthttp 1.71 trims it
		{"\tsid=a; sid=b", "b", "b"},
		{"other=a", "x", "unclear"},
	} {
		var f Fields
		f.Init()
		p := parsed{block: "Transfer-Encoding: chunked\r\nCookie: " + tt.block + "\r\n\r\n", cookies: strings.Fields(tt.cookies)}
		check.Equal(t, fmt.Sprintf("%s, parsed as %s", tt.block, tt.cookies), all(&f, p, Cookie, "sid"), tt.want)
	}
}

// Thousands of lines, however mixed up, are no work that grows with their square.
func TestManyLinesAreNotComparedEachWithEach(t *testing.T) {
	t.Parallel()
	const lines = maxKept + 1
	p := parsed{block: strings.Repeat("X-A: a\r\n", lines-1) + "X-A: b\r\n\r\n", lines: append([]string{"b"}, slices.Repeat([]string{"a"}, lines-1)...)}
	var f Fields
	f.Init()
	check.Equal(t, "lines of X-A", all(&f, p, Header, "X-A"), "unclear")
}
