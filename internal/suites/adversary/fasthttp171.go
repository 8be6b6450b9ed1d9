package adversary

import (
	"bytes"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// OverFastHTTP171 is how fasthttp 1.71 reads requests, for Fiber 3. It reads most of HTTP as
// net/http does, and refuses more. star says that the limiter is in Use("*"), which also sees
// requests without a path.
func OverFastHTTP171(star bool) *Dialect {
	d, std := OverFastHTTP(), OverNetHTTP("fiber")
	d.losesItsPlace = false
	d.reports = true
	d.crlf = true
	d.startLine = func(m *message, line string) string {
		var ok bool
		if m.method, line, ok = strings.Cut(line, " "); !ok || !isToken(m.method) {
			return "no method"
		}
		if m.target, m.proto, ok = strings.Cut(line, " "); !ok || m.target == "" {
			return "no target"
		}
		version, ok := strings.CutPrefix(m.proto, "HTTP/")
		if !ok || len(version) != 3 || version[1] != '.' || !isDigit(version[0]) || !isDigit(version[2]) {
			return "no version"
		}
		scheme, _, absolute := strings.Cut(m.target, "://")
		switch {
		case hasControl(m.target):
			return "a control character in the target"
		case m.target == "*", m.target[0] == '/':
		case absolute && !isScheme(scheme):
			return "no scheme"
		case !absolute && m.method != "CONNECT":
			return "no target"
		}
		return ""
	}
	// In a trailer, blanks before the colon go, and so does a line without a name.
	d.badField = func(name, value string, trailer bool) string {
		if trailer {
			value = ""
			if name = strings.TrimRight(name, " "); name == "" {
				return "no name"
			}
		} else if strings.TrimRight(name, " ") != name {
			return "a blank before the colon"
		}
		return std.badField(strings.ReplaceAll(name, " ", "x"), value, trailer)
	}
	d.itself = func(m *message) bool {
		return !slices.Contains(fiberMethods, m.method) || !star && !hasPath171(m)
	}
	d.trim, d.unfold, d.foldEnds = std.trim, std.unfold, std.foldEnds
	d.framing = framingFastHTTP171
	d.chunkSize = chunkFastHTTP171
	d.trailers = trailersFastHTTP171
	return d
}

func isScheme(s string) bool {
	for i, c := range []byte(s) {
		switch {
		case c|0x20 >= 'a' && c|0x20 <= 'z':
		case i > 0 && (isDigit(c) || strings.IndexByte("+-.", c) >= 0):
		default:
			return false
		}
	}
	return s != ""
}

// framingFastHTTP171: a length and a host may be there once only. Of a length and chunks, the
// chunks count.
func framingFastHTTP171(m *message) string {
	lengths, hosts := 0, 0
	for _, f := range m.fields {
		switch {
		case sameASCII(f.name, "Host"):
			if hosts++; f.raw == "" && m.proto == "HTTP/1.1" || hosts > 1 {
				return "no host, or several"
			}
		case sameASCII(f.name, "Content-Length"):
			n, err := strconv.ParseUint(f.raw, 10, 63)
			if lengths++; err != nil || lengths > 1 {
				return "a length that is none, or several"
			}
			m.length = int(n)
		case sameASCII(f.name, "Transfer-Encoding") && sameASCII(f.raw, "chunked"):
			m.chunked = true
		case sameASCII(f.name, "Transfer-Encoding") && !sameASCII(f.raw, "identity"):
			return "another transfer coding"
		case sameASCII(f.name, "Trailer") && f.raw != "":
			for _, name := range strings.Split(strings.TrimSuffix(f.raw, ","), ",") {
				if name = strings.Trim(name, " \t"); !isToken(name) || badTrailer171(name) {
					return "a trailer that must not be one"
				}
			}
		}
	}
	if hosts == 0 && m.proto == "HTTP/1.1" {
		return "no host"
	}
	if m.chunked {
		m.length = 0
	}
	if m.length > 4<<20 {
		return "a body that is too long"
	}
	if !hasHost171(m) {
		return "a host that is none"
	}
	return ""
}

// hasHost171 reports whether the host of the target, or else of the header, can be one.
func hasHost171(m *message) bool {
	host := firstOf(m.control("Host"))
	if scheme, authority, _, ok := absolute171(m); ok {
		if host = authority; scheme != "" && !isScheme(scheme) {
			return false
		}
	}
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		if strings.Trim(host[:i], "-._:~!$&'()*+,;=%@0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			return false
		}
		host = host[i+1:]
	}
	if inside, _, ok := strings.Cut(strings.TrimPrefix(host, "["), "]"); ok && host[0] == '[' {
		addr, err := netip.ParseAddr(inside)
		return err == nil && addr.Is6() && isHost(host)
	}
	return !strings.ContainsAny(host, "[]") && strings.Count(host, ":") < 2 && isHost(host)
}

// absolute171 returns the parts of a target that names its host, which it may do without a scheme
// if the header has none.
func absolute171(m *message) (scheme, host, path string, ok bool) {
	if firstOf(m.control("Host")) != "" && !strings.Contains(m.target, "://") {
		return "", "", "", false
	}
	scheme, path, ok = strings.Cut(m.target, "//")
	if !ok || strings.Contains(scheme, "/") {
		return "", "", "", false
	}
	if i := strings.IndexAny(path, "/?#"); i >= 0 {
		return strings.TrimSuffix(scheme, ":"), path[:i], path[i:], true
	}
	return strings.TrimSuffix(scheme, ":"), path, "/", true
}

// hasPath171 reports whether the target has a path. Fiber finds neither middleware nor routes for
// other requests, but for those that are registered as "*".
func hasPath171(m *message) bool {
	_, _, path, ok := absolute171(m)
	if !ok {
		path = m.target
	}
	return strings.HasPrefix(path, "/")
}

// badTrailer171: names of addresses and cookies are no trailers, either.
func badTrailer171(name string) bool {
	lower := strings.ToLower(name)
	return badTrailer(name) || strings.HasPrefix(lower, "x-forwarded") || strings.HasPrefix(lower, "x-real-ip") ||
		slices.Contains([]string{"cookie", "set-cookie", "location"}, lower)
}

// chunkFastHTTP171: behind the digits, blanks or an extension may come.
func chunkFastHTTP171(b []byte, _ *int) (size int, rest []byte, ok, torn bool) {
	size, digits, valid := hexadecimal(b, 15)
	if !valid || size > 4<<20 {
		return 0, nil, false, len(b) > 0
	}
	line, rest, ok := bytes.Cut(b[digits:], []byte("\r"))
	if !ok || len(rest) == 0 || rest[0] != '\n' || bytes.IndexByte(line, '\n') >= 0 {
		return 0, nil, false, true
	}
	if len(line) > 0 && line[0] != ';' && len(bytes.Trim(line, " \t")) > 0 {
		return 0, nil, false, true
	}
	return size, rest[1:], true, false
}

// trailersFastHTTP171 looks for the end first, in what its buffer holds.
func trailersFastHTTP171(p *parser, m *message) {
	if bytes.HasPrefix(p.rest, []byte("\r\n")) {
		p.rest, m.whole = p.rest[2:], true
		return
	}
	if !bytes.Contains(p.rest[:min(len(p.rest), p.buffer)], []byte("\r\n\r\n")) {
		p.rest, m.torn = nil, true
		return
	}
	block, rest := cutBlock(p.rest)
	trailer := p.section(block, true)
	for i := range trailer.fields {
		f := &trailer.fields[i]
		if f.name = strings.TrimRight(f.name, " "); badTrailer171(f.name) {
			trailer.refused = "a trailer that must not be one"
		}
	}
	if m.trailers = trailer.fields; trailer.refused != "" {
		p.rest, m.torn = nil, true
		return
	}
	p.rest, m.whole = rest, true
}
