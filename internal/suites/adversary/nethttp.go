package adversary

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// OverNetHTTP is how net/http reads requests, for all frameworks over it.
func OverNetHTTP(framework string) *Dialect {
	d := &Dialect{
		framework: framework,
		startLine: func(m *message, line string) string {
			parts := strings.SplitN(line, " ", 3)
			if len(parts) < 3 {
				return "no start line"
			}
			m.method, m.target, m.proto = parts[0], parts[1], parts[2]
			if !isToken(m.method) {
				return "no method"
			}
			version, ok := strings.CutPrefix(m.proto, "HTTP/")
			if !ok || len(version) != 3 || version[1] != '.' || !isDigit(version[0]) || !isDigit(version[2]) {
				return "no version"
			}
			target := m.target
			if m.method == http.MethodConnect && !strings.HasPrefix(target, "/") {
				target = "http://" + target
			}
			if _, err := url.ParseRequestURI(target); err != nil {
				return "no target"
			}
			if version[0] != '1' {
				return "another version"
			}
			return ""
		},
		// In a trailer a name may hold blanks.
		badField: func(name, value string, trailer bool) string {
			if trailer {
				name = strings.ReplaceAll(name, " ", "x")
			}
			if !isToken(name) {
				return "no name"
			}
			for _, c := range []byte(value) {
				if c < ' ' && c != '\t' || c == 0x7f {
					return "a control character"
				}
			}
			return ""
		},
		// The blank for the last line break stays.
		trim: func(value string, folded bool) string {
			if value = strings.TrimLeft(value, " \t"); folded {
				return value
			}
			return strings.TrimRight(value, " \t")
		},
		unfold: func(line, more string, again bool) string {
			if !again {
				line = strings.Trim(line, " \t")
			}
			return line + " " + strings.Trim(more, " \t")
		},
		foldEnds:  func(string) bool { return false },
		framing:   framingNetHTTP,
		chunkSize: chunkNetHTTP,
		trailers: func(p *parser, m *message) {
			if bytes.HasPrefix(p.rest, []byte("\r\n")) {
				p.rest, m.whole = p.rest[2:], true
				return
			}
			// It looks for the end first, in what its buffer holds.
			if !bytes.Contains(p.rest[:min(len(p.rest), 4096)], []byte("\r\n\r\n")) {
				p.rest, m.torn = nil, true
				return
			}
			block, rest := cutBlock(p.rest)
			trailer := p.section(block, true)
			if m.trailers = trailer.fields; trailer.refused != "" {
				p.rest, m.torn = nil, true
				return
			}
			p.rest, m.whole = rest, true
		},
		// "OPTIONS *" is about the server, which answers it itself.
		itself:  func(m *message) bool { return m.method == http.MethodOptions && m.target == "*" },
		ends:    endsNetHTTP,
		cookies: cookiesNetHTTP,
		query: func(m *message, name string) (values []string) {
			target := m.target
			if m.method == http.MethodConnect && !strings.HasPrefix(target, "/") {
				target = "http://" + target
			}
			u, err := url.ParseRequestURI(target)
			if err != nil {
				return nil
			}
			all, _ := url.ParseQuery(u.RawQuery)
			return all[name]
		},
	}
	if framework == "gin" {
		// Gin unescapes what net/http finds, and takes what it can't unescape for empty.
		d.cookies = func(m *message, name string) []string {
			values := cookiesNetHTTP(m, name)
			for i, value := range values {
				values[i], _ = url.QueryUnescape(value)
			}
			return values
		}
	}
	return d
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// cutBlock cuts off the lines up to the first that is empty, with it.
func cutBlock(b []byte) (block, rest []byte) {
	rest = b
	for {
		line, after, ok := cutLine(rest)
		if !ok {
			return b, nil
		}
		if rest = after; line == "" {
			return b[:len(b)-len(rest)], rest
		}
	}
}

func framingNetHTTP(m *message) string {
	hosts := m.control("Host")
	switch {
	case len(hosts) > 1:
		return "two hosts"
	case len(hosts) == 0 && m.http11() && m.method != http.MethodConnect:
		return "no host"
	}
	if len(hosts) == 1 && strings.ContainsFunc(hosts[0], func(c rune) bool {
		return c > '~' || c < '!' || strings.ContainsRune("\"#/<>?@\\^`{|}", c)
	}) {
		return "a host that is none"
	}
	codings := m.control("Transfer-Encoding")
	if m.http11() && len(codings) > 0 { // before HTTP/1.1 there was no such field
		if len(codings) > 1 || !equalFoldASCII(codings[0], "chunked") {
			return "a transfer coding that it does not know"
		}
		m.chunked = true
	}
	lengths := m.lines("Content-Length")
	for _, length := range lengths {
		n, err := strconv.ParseUint(length, 10, 63)
		if err != nil || strings.TrimSpace(length) != length || length != lengths[0] || length[0] == '+' {
			return "a length that is none"
		}
		if m.length = int(n); m.chunked { // which wins
			m.length = 0
		}
	}
	if m.chunked {
		for _, names := range m.control("Trailer") {
			for _, name := range strings.Split(names, ",") {
				switch http.CanonicalHeaderKey(strings.Trim(name, " \t\r\n")) {
				case "Transfer-Encoding", "Content-Length", "Trailer":
					return "a trailer that must not be one"
				}
			}
		}
	}
	if expect := firstOf(m.control("Expect")); expect != "" && !loosely(expect, "100-continue") {
		return "an expectation that it can't meet"
	}
	return ""
}

// loosely reports whether a value has a token, in any case. It ends at a blank as
// well as at a comma.
func loosely(value, token string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(value, func(c rune) bool { return c == ' ' || c == '\t' || c == ',' }), func(s string) bool {
		return equalFoldASCII(s, token)
	})
}

func equalFoldASCII(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

func chunkNetHTTP(b []byte, excess *int) (size int, rest []byte, ok, torn bool) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		return 0, nil, false, len(b) > 4096
	}
	line := b[:i+1]
	if !bytes.HasSuffix(line, []byte("\r\n")) || bytes.IndexByte(line, '\r') != i-1 || i-1 >= 4096 {
		return 0, nil, false, true
	}
	text, _, _ := strings.Cut(strings.TrimRight(string(line[:i-1]), " \t"), ";")
	size, digits, valid := hexadecimal([]byte(text), 16)
	if !valid || digits != len(text) || size < 0 {
		return 0, nil, false, true
	}
	if *excess = max(*excess+len(line)-16-2*size, 0); *excess > 16<<10 { // it is nearly all overhead
		return 0, nil, false, true
	}
	return size, b[i+1:], true, false
}

func endsNetHTTP(m *message, a answer) bool {
	switch {
	case a.aborts, m.torn:
		return true
	case loosely(firstOf(m.control("Expect")), "100-continue") && m.http11() && (m.chunked || m.length > 0) && !a.read:
		return true // nobody has asked for the body, which may come or not
	case m.http11():
		return loosely(firstOf(m.control("Connection")), "close") || slices.ContainsFunc(m.control("Connection"), func(s string) bool { return hasToken(s, "close") })
	}
	return !loosely(firstOf(m.control("Connection")), "keep-alive") || a.streams && m.method != http.MethodHead
}

// cookiesNetHTTP returns the cookies of a name that net/http does not pass over.
func cookiesNetHTTP(m *message, name string) (values []string) {
	for _, line := range m.lines("Cookie") {
		for _, pair := range strings.Split(line, ";") {
			found, value, _ := strings.Cut(strings.Trim(pair, " \t\r\n"), "=")
			if strings.Trim(found, " \t\r\n") != name {
				continue
			}
			if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
				value = value[1 : len(value)-1]
			}
			if !strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c > '~' || c == '"' || c == '\\' }) {
				values = append(values, value)
			}
		}
	}
	return values
}
