package adversary

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// fiberMethods are those that Fiber routes. It answers others with 400.
var fiberMethods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"}

// OverFastHTTP is how fasthttp reads requests, for Fiber.
func OverFastHTTP() *Dialect {
	return &Dialect{
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
// is looked for, and read again, but refused where not all of it has arrived at once.
func trailersFastHTTP(p *parser, m *message) {
	from := 0
	if len(p.rest) > 0 && p.rest[0] == '0' {
		from, m.lost = 3, true
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
			m.trailers = append(m.trailers, field{name, strings.Trim(value, " "), strings.Trim(value, " \t"), strings.Trim(value, " \t")})
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
