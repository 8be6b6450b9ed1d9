package adversary

import (
	"bytes"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// dialect is what a framework reads otherwise than RFC 9112 says, or where the RFC
// leaves it a choice. Each field is one difference. None of them touches on who is
// limited: that is in keys_test.go, and the same for all.
type dialect struct {
	framework string

	// buffer is how many bytes of a header block, or a trailer section, are read; 0 is
	// more than are sent here.
	buffer int

	// emptyLines: all empty lines before a start line are skipped, and not only the
	// CRs and LFs, up to four, that old clients send after the body of a POST.
	emptyLines bool

	// startLine reads the start line. It returns why it is refused.
	startLine func(m *message, line string) string

	// badField says why a field line is refused.
	badField func(name, value string, trailer bool) string

	// trim takes off the blanks that the framework takes off.
	trim func(value string, folded bool) string

	// unfold joins a line with the one that continues it. foldEnds reports a line
	// that begins with a blank and is refused as a field of its own.
	unfold   func(line, more string, again bool) string
	foldEnds func(more string) bool

	// framing finds out how the body is sent, and returns why the request is refused.
	framing func(m *message) string

	// chunkSize reads the line before a chunk. It is not ok where the line has not
	// arrived, or is torn: not such a line.
	chunkSize func(b []byte, excess *int) (size int, rest []byte, ok, torn bool)

	// trailers reads the trailer section, which ends a chunked body.
	trailers func(p *parser, m *message)

	// bodyFirst: the body is read before the application is called, which is not
	// called for one that is torn or does not arrive.
	bodyFirst bool

	// itself reports a request that the framework answers itself, before any
	// middleware; the connection goes on.
	itself func(m *message) bool

	// ends reports whether the connection ends after a request.
	ends func(m *message, answer answer) bool

	// losesItsPlace: after a field that goes on over several lines, the framework
	// reads some bytes of the connection twice, so that what it reads next can't be foretold.
	losesItsPlace bool

	// mergesTrailers: the application reads the trailers of a body like headers.
	mergesTrailers bool

	// cookies and query read what the application reads.
	cookies func(m *message, name string) []string
	query   func(m *message, name string) []string
}

// answer is what the connection needs to know of how a request was answered.
type answer struct {
	route   string // of the handler that ran, if one did
	streams bool   // its length is not known beforehand
	aborts  bool   // the handler panicked, and nobody has recovered
	read    bool   // the handler has read the body
}

func (p *parser) trailer(m *message) { p.trailers(p, m) }

// overNetHTTP is how net/http reads requests, for all frameworks over it.
func overNetHTTP(framework string) *dialect {
	d := &dialect{
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

// fiberMethods are those that Fiber routes. It answers others with 400.
var fiberMethods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"}

// overFastHTTP is how fasthttp reads requests, for Fiber.
func overFastHTTP() *dialect {
	return &dialect{
		framework:  "fiber",
		buffer:     4096,
		emptyLines: true,
		// Any bytes are a method, a target and a version. Without a version it is HTTP/1.0.
		startLine: func(m *message, line string) string {
			method, rest, ok := strings.Cut(line, " ")
			if !ok || method == "" {
				return "no start line"
			}
			m.method, m.target, m.proto = method, rest, "HTTP/1.0"
			defer func() {
				if m.target == "" {
					m.target = "/"
				}
			}()
			if i := strings.LastIndexByte(rest, ' '); i == 0 {
				return "no target"
			} else if i > 0 {
				m.target = rest[:i]
				if rest[i+1:] == "HTTP/1.1" {
					m.proto = "HTTP/1.1"
				}
			}
			return ""
		},
		// Any bytes are a name, also none, but for blanks; and a value.
		badField: func(name, _ string, _ bool) string {
			if strings.ContainsAny(name, " \t") {
				return "a blank in a name"
			}
			return ""
		},
		trim: func(value string, folded bool) string {
			if folded {
				return value
			}
			return strings.Trim(value, " ")
		},
		// Only the line break goes, and tabs become blanks. Of a value that begins on the
		// second line, blanks in front are a part.
		unfold: func(line, more string, again bool) string {
			if name, value, ok := strings.Cut(line, ":"); ok && !again {
				line = name + ":" + strings.TrimLeft(value, " ")
			}
			rest := strings.TrimLeft(more, "\t")
			return strings.ReplaceAll(line+strings.Repeat(" ", len(more)-len(rest))+rest, "\r", "")
		},
		foldEnds:  func(more string) bool { return strings.Contains(more, ":") },
		framing:   framingFastHTTP,
		chunkSize: chunkFastHTTP,
		trailers:  trailersFastHTTP,
		bodyFirst: true,
		itself:    func(m *message) bool { return !slices.Contains(fiberMethods, m.method) },
		ends: func(m *message, _ answer) bool {
			last, first := "", ""
			for i, f := range m.fields {
				if sameASCII(f.name, "Connection") {
					if last = f.raw; first == "" && f.raw != "close" {
						first = m.fields[i].raw
					}
				}
			}
			return last == "close" || m.proto != "HTTP/1.1" && !hasToken(strings.ReplaceAll(first, "\t", "?"), "keep-alive")
		},
		losesItsPlace:  true,
		mergesTrailers: true,
		cookies: func(m *message, name string) []string {
			values := cookiesFastHTTP(m.control("Cookie"), name)
			if len(values) > 0 {
				return values
			}
			trailers := &message{fields: m.trailers}
			if len(cookiesFastHTTP(trailers.control("Cookie"), name)) > 0 {
				return []string{"", "?"} // the application sees it
			}
			return nil
		},
		query: queryFastHTTP,
	}
}

// cookiesFastHTTP returns the cookies of a name. Only spaces are blanks around one: a
// tab is a part of its name or value, for the application as well.
func cookiesFastHTTP(lines []string, name string) (values []string) {
	for _, line := range lines {
		for _, pair := range strings.Split(line, ";") {
			found, value, ok := strings.Cut(pair, "=")
			if !ok {
				found, value = "", pair
			}
			if value = strings.Trim(value, " "); len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
				value = value[1 : len(value)-1]
			}
			if strings.Trim(found, " ") == name {
				values = append(values, value)
			}
		}
	}
	return values
}

// sameASCII is how fasthttp compares the names of the fields that it knows: bit 5
// counts in none of the bytes.
func sameASCII(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if a[i]|0x20 != b[i]|0x20 {
			return false
		}
	}
	return true
}

// framingFastHTTP: any transfer coding but "identity" is chunked, before HTTP/1.1
// too; of several lengths the last counts.
func framingFastHTTP(m *message) string {
	none := true
	for _, f := range m.fields {
		switch {
		case sameASCII(f.name, "Content-Length") && !m.chunked:
			n, err := strconv.ParseUint(f.raw, 10, 63)
			if err != nil || f.raw[0] == '+' {
				return "a length that is none"
			}
			m.length, none = int(n), false
		case sameASCII(f.name, "Transfer-Encoding") && f.raw != "identity":
			m.chunked = true
		case sameASCII(f.name, "Trailer") && f.raw != "":
			for _, name := range strings.Split(strings.TrimSuffix(f.raw, ","), ",") {
				if badTrailer(strings.Trim(name, " ")) {
					return "a trailer that must not be one"
				}
			}
		}
	}
	if m.chunked || none {
		m.length = 0
	}
	if m.length > 4<<20 {
		return "a body that is too long"
	}
	return ""
}

func badTrailer(name string) bool {
	return name == "" || slices.ContainsFunc([]string{
		"Authorization", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Content-Range", "Expect", "Host",
		"Keep-Alive", "Max-Forwards", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Range", "TE", "Trailer",
		"Transfer-Encoding", "WWW-Authenticate",
	}, func(bad string) bool { return sameASCII(bad, name) })
}

// chunkFastHTTP: whatever comes behind the digits is an extension.
func chunkFastHTTP(b []byte, _ *int) (size int, rest []byte, ok, torn bool) {
	size, digits, valid := hexadecimal(b, 15)
	if !valid || size > 4<<20 {
		return 0, nil, false, len(b) > 0
	}
	i := bytes.IndexByte(b[digits:], '\r')
	if i < 0 {
		return 0, nil, false, false
	}
	rest = b[digits+i+1:]
	if len(rest) == 0 || rest[0] != '\n' {
		return 0, nil, false, len(rest) > 0
	}
	return size, rest[1:], true, false
}

// trailersFastHTTP: the end of the connection ends the trailer section as well, and
// so does a line without a colon when none comes any more. What is there of it then
// is the next request. A second last chunk is passed over when the end of the section
// is looked for, and read again.
func trailersFastHTTP(p *parser, m *message) {
	from := 0
	if len(p.rest) > 0 && p.rest[0] == '0' {
		from = 3
	}
	all := p.rest[min(from, len(p.rest)):]
	for rest, first := all, true; ; first = false {
		line, after, ok := cutLine(rest)
		if !first && line != "" && isBlank(line[0]) {
			m.lost = true // it is read in vain before it has arrived, and changed by that
		}
		bare := ok && line != "" && !strings.Contains(line, ":") && (first || !isBlank(line[0]))
		switch {
		case bare && bytes.IndexByte(after, ':') >= 0:
			p.rest, m.torn = nil, true
			return
		case bare, !ok:
			if m.whole = len(p.rest) <= p.buffer; !m.whole {
				p.rest, m.torn = nil, true
			}
			return
		}
		if name, value, found := strings.Cut(line, ":"); found && !strings.ContainsAny(name, " \t") && !badTrailer(name) {
			m.trailers = append(m.trailers, field{name, strings.Trim(value, " "), strings.Trim(value, " \t")})
		}
		if rest = after; line == "" {
			all = all[:len(all)-len(after)]
			break
		}
	}
	trailer := p.section(all, true)
	if from+len(all) > p.buffer {
		trailer.refused = "too long"
	}
	if trailer.refused == "" && slices.ContainsFunc(trailer.fields, func(f field) bool { return f.name != "" && badTrailer(f.name) }) {
		trailer.refused = "a trailer that must not be one"
	}
	if trailer.refused != "" {
		p.rest, m.torn = nil, true
		return
	}
	m.trailers = trailer.fields
	p.rest, m.whole = p.rest[len(all):], true
}

// queryFastHTTP: a semicolon separates nothing, and what can't be unescaped stays.
func queryFastHTTP(m *message, name string) (values []string) {
	if losesTarget(m) {
		return nil
	}
	target, _, _ := strings.Cut(m.target, "#")
	_, query, _ := strings.Cut(target, "?")
	for _, pair := range strings.Split(query, "&") {
		found, value, _ := strings.Cut(pair, "=")
		if unescapeLeniently(found) == name {
			values = append(values, unescapeLeniently(value))
		}
	}
	return values
}

// losesTarget reports a target that has neither path nor query for Fiber: one with a
// control character, and one of a host that is none.
func losesTarget(m *message) bool {
	host := ""
	for _, f := range m.fields {
		if sameASCII(f.name, "Host") {
			host = f.raw
		}
	}
	if host == "" || strings.Contains(m.target, "://") {
		if scheme, rest, ok := strings.Cut(m.target, "//"); ok && !strings.Contains(scheme, "/") {
			host = rest[:min(len(rest), max(strings.IndexAny(rest+"/", "/?"), 0))]
		}
	}
	if _, after, ok := strings.Cut(host, "@"); ok {
		host = after
	}
	return hasControl(m.target) || !isHost(host)
}

// isHost reports whether fasthttp takes host for one.
func isHost(host string) bool {
	port := ""
	if strings.HasPrefix(host, "[") {
		i := strings.LastIndexByte(host, ']')
		if i < 0 {
			return false
		}
		port = host[i+1:]
	} else if i := strings.LastIndexByte(host, ':'); i >= 0 {
		port = host[i:]
	}
	return inPort.MatchString(port) && inHost.MatchString(host)
}

// What can be in a host, and behind it.
var (
	inPort = regexp.MustCompile("^(?::[0-9]*)?$")
	inHost = regexp.MustCompile("^(?:[-!$&'()*+,;=:\\[\\]<>\"._~0-9A-Za-z]|[^\\x00-\\x7f]|%25|%[89A-Fa-f][0-9A-Fa-f])*$")
)

// hasControl reports whether s holds a control character.
func hasControl(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c == 0x7f {
			return true
		}
	}
	return false
}

func unescapeLeniently(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '+':
			b.WriteByte(' ')
		case s[i] == '%' && i+2 < len(s):
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil && s[i+1] != '+' {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
			b.WriteByte('%')
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
