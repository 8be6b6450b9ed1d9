package adversary

import (
	"bytes"
	"strings"
)

// message is one request as the oracle reads it.
type message struct {
	method, target, proto string

	fields   []field // of the header block, in order
	trailers []field // of a chunked body; they must not count as headers
	folded   bool    // a field has several lines
	lost     bool    // see dialect.losesItsPlace

	length  int  // of the body, unless it is chunked
	chunked bool //
	whole   bool // the body has arrived completely
	torn    bool // the body is malformed; its end is unknown

	refused string // why the framework refuses the request; "" if it does not
}

// field is a line of the header block.
type field struct {
	name  string
	raw   string // as the framework trims it
	value string // without the blanks around it (RFC 9110, section 5.5)

	begins string // the part of value in the first line, if other lines continue it
}

// http11 reports whether the version is HTTP/1.1 or later.
func (m *message) http11() bool { return m.proto >= "HTTP/1.1" }

// lines returns the values of a field in their order.
func (m *message) lines(name string) (values []string) {
	for _, f := range m.fields {
		if equalFoldASCII(f.name, name) {
			values = append(values, f.value)
		}
	}
	return values
}

// control returns the values of a framing field, as the framework trims them.
func (m *message) control(name string) (values []string) {
	for _, f := range m.fields {
		if equalFoldASCII(f.name, name) {
			values = append(values, f.raw)
		}
	}
	return values
}

// firstOf returns the first value, or "" if there is none.
func firstOf(values []string) string {
	if len(values) > 0 {
		return values[0]
	}
	return ""
}

// parser cuts a client's bytes into requests, according to RFC 9112 and a dialect.
type parser struct {
	*Dialect
	rest []byte
	last string // method of the previous request
}

// next reads the next request. It returns nil if no further request is complete. Bytes
// after a refused or malformed request are never read.
func (p *parser) next() *message {
	before := len(p.rest)
	p.skipEmptyLines()
	if len(p.rest) == 0 {
		return nil
	}
	block, ok := p.block()
	if !ok {
		return nil
	}
	m := new(message)
	if p.buffer > 0 && before-len(p.rest)+len(block) > p.buffer {
		m.refused = "it is too long"
		return m
	}
	line, lines, _ := cutLine(block)
	if p.crlf && !p.endsInCRLF(lines, before) {
		m.refused = "it does not end"
		return m
	}
	if m.refused = p.startLine(m, line); m.refused != "" {
		return m
	}
	p.last = m.method
	header := p.section(lines, false)
	m.fields, m.folded, m.lost = header.fields, header.folded, header.lost
	if m.refused = header.refused; m.refused != "" {
		return m
	}
	if m.refused = p.framing(m); m.refused != "" {
		return m
	}
	m.lost = m.lost || p.losesItsPlace && m.folded && (m.chunked || m.length > 0) // the body cannot be predicted either
	p.rest = p.rest[len(block):]
	p.body(m)
	return m
}

// endsInCRLF reports whether an empty line behind a CRLF has arrived, as far as the buffer reaches,
// of which the bytes up to the start line are a part.
func (p *parser) endsInCRLF(lines []byte, before int) bool {
	if bytes.HasPrefix(lines, []byte("\r\n")) {
		return true
	}
	room := p.buffer - (before - len(p.rest))
	from := cap(p.rest) - cap(lines) // both end where the connection does
	return bytes.Contains(p.rest[from:max(from, min(len(p.rest), room))], []byte("\r\n\r\n"))
}

// cutLine cuts the first line from b. A line ends in LF or CRLF (RFC 9112, section 2.2).
func cutLine(b []byte) (line string, rest []byte, ok bool) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		return "", nil, false
	}
	return strings.TrimSuffix(string(b[:i]), "\r"), b[i+1:], true
}

// block returns the start line and the header block, with the empty line that ends
// it. It reports false if that has not arrived.
func (p *parser) block() ([]byte, bool) {
	rest := p.rest
	for first := true; ; first = false {
		line, after, ok := cutLine(rest)
		if !ok {
			return nil, false
		}
		if rest = after; line == "" && !first {
			return p.rest[:len(p.rest)-len(rest)], true
		}
		if first && line == "" { // without a start line, no block follows
			return p.rest[:len(p.rest)-len(rest)], true
		}
	}
}

// skipEmptyLines skips empty lines before a start line, as many as the framework skips.
func (p *parser) skipEmptyLines() {
	for n := 0; len(p.rest) > 0; n++ {
		switch c := p.rest[0]; {
		case p.emptyLines && c == '\n':
			p.rest = p.rest[1:]
		case p.emptyLines && c == '\r' && len(p.rest) > 1 && p.rest[1] == '\n':
			p.rest = p.rest[2:]
		case !p.emptyLines && p.last == "POST" && n < 4 && (c == '\n' || c == '\r'):
			p.rest = p.rest[1:]
		default:
			return
		}
	}
}

// section is a header block or a trailer section.
type section struct {
	fields  []field
	folded  bool
	lost    bool
	refused string
}

// section reads the lines of a section.
func (p *parser) section(block []byte, trailer bool) (s section) {
	for {
		line, rest, ok := cutLine(block)
		if !ok || line == "" {
			return s
		}
		block = rest
		if isBlank(line[0]) {
			s.refused = "the line continues nothing"
			return s
		}
		if !strings.Contains(line, ":") {
			s.refused = "a line without a colon"
			return s
		}
		_, begins, _ := strings.Cut(line, ":")
		last, unfolded := "", false
		for len(block) > 0 && isBlank(block[0]) {
			more, rest, ok := cutLine(block)
			if !ok {
				break
			}
			if p.foldEnds(more) {
				s.lost = s.lost || p.losesItsPlace && strings.HasSuffix(last, " ")
				s.refused = "a blank before a name"
				return s
			}
			line, last, block, s.folded, unfolded = p.unfold(line, more, unfolded), more, rest, true, true
		}
		s.lost = s.lost || p.losesItsPlace && strings.HasSuffix(last, " ")
		name, value, _ := strings.Cut(line, ":")
		if s.refused = p.badField(name, value, trailer); s.refused != "" {
			return s
		}
		s.fields = append(s.fields, field{name, p.trim(value, unfolded), strings.Trim(value, " \t"), strings.Trim(begins, " \t")})
	}
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// body reads the part of the body that has arrived.
func (p *parser) body(m *message) {
	if !m.chunked {
		n := min(m.length, len(p.rest))
		p.rest, m.whole = p.rest[n:], n == m.length
		return
	}
	excess := 0
	for {
		size, rest, ok, torn := p.chunkSize(p.rest, &excess)
		if !ok {
			p.rest, m.torn = nil, torn
			return
		}
		p.rest = rest
		if size == 0 {
			break
		}
		if size+2 > len(p.rest) {
			short := p.rest[min(size, len(p.rest)):]
			p.rest, m.torn = nil, len(short) > 0 && short[0] != '\r'
			return
		}
		if string(p.rest[size:size+2]) != "\r\n" {
			p.rest, m.torn = nil, true
			return
		}
		p.rest = p.rest[size+2:]
	}
	p.trailers(p, m)
}

// hexadecimal reads the hexadecimal digits at the start of b.
func hexadecimal(b []byte, most int) (n, digits int, ok bool) {
	for _, c := range b {
		d := strings.IndexByte("0123456789abcdef", c|0x20)
		if '0' <= c && c <= '9' {
			d = int(c - '0')
		} else if c < 'A' {
			d = -1
		}
		if d < 0 {
			break
		}
		if digits++; digits > most {
			return 0, digits, false
		}
		n = n<<4 | d
	}
	return n, digits, digits > 0
}

// isToken reports whether s is a token (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	for _, c := range []byte(s) {
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' {
			continue
		}
		if strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// hasToken reports whether a comma-separated list has a token. Case does not matter.
func hasToken(list, token string) bool {
	for _, s := range strings.Split(list, ",") {
		if strings.EqualFold(strings.Trim(s, " \t"), token) {
			return true
		}
	}
	return false
}
