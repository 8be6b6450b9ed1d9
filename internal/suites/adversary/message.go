package adversary

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// source makes requests from a grammar that favors what has broken other software.
type source struct {
	*rand.Rand
	setup *setup
}

func (s *source) chance(percent int) bool { return s.IntN(100) < percent }

func pick[T any](s *source, some ...T) T { return some[s.IntN(len(some))] }

// stream returns the bytes of one client: some requests, the last of which may be cut off.
func (s *source) stream() []byte {
	var b strings.Builder
	for range 1 + s.IntN(8) {
		b.WriteString(s.request())
	}
	raw := []byte(b.String())
	if s.chance(5) {
		raw = raw[:s.IntN(len(raw)+1)] // never finished
	}
	if s.chance(25) {
		raw = s.mutate(raw)
	}
	return raw
}

// request returns the bytes of one request.
func (s *source) request() string {
	eol := "\r\n"
	if s.chance(3) {
		eol = "\n"
	}
	preflight := s.chance(6)
	method := s.method()
	if preflight {
		method = "OPTIONS"
	}
	version := "HTTP/1.1"
	if s.chance(4) {
		version = pick(s, "HTTP/1.0", "HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "http/1.1", "HTTP/1.1 ", "")
	}
	var b strings.Builder
	if s.chance(2) {
		b.WriteString(pick(s, "\r\n", "\n", "\r\n\r\n", " "))
	}
	b.WriteString(method + " " + s.target() + " " + version + eol)
	lines := []string{"Host: " + pick(s, "example.com", "example.com:80", "[::1]")}
	if s.chance(3) {
		lines = append(lines[:0], pick(s, "Host:", "Host: a\r\nHost: b", "X-Host: example.com", "host:  example.com\t"))
	}
	if preflight {
		lines = append(lines, "Origin: https://app.example", "Access-Control-Request-Method: "+s.method())
	}
	for range s.IntN(6) {
		lines = append(lines, s.field())
	}
	framing, body := s.body(eol)
	lines = append(lines, framing...)
	if s.chance(6) {
		lines = append(lines, pick(s, "Connection: close", "Connection: keep-alive", "Connection: X-API-Key, X-Forwarded-For", "connection: Close", "Expect: 100-continue", "Expect: nothing", "Expect: 100-Continue", "Upgrade: h2c"))
	}
	s.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	for _, line := range lines {
		b.WriteString(line + eol)
	}
	b.WriteString(eol + body)
	return b.String()
}

func (s *source) method() string {
	if s.chance(5) {
		return pick(s, "BREW", "get", "PROPFIND", "M-SEARCH", "CONNECT", "TRACE", "POST", "G(T")
	}
	return pick(s, "GET", "GET", "GET", "POST", "POST", "HEAD", "PUT", "OPTIONS", "PATCH", "DELETE")
}

// target returns the path of a route or, less often, an attempt to bypass one.
func (s *source) target() string {
	path := pick(s, "/ok", "/ok", "/ok", "/items/7", "/items/8", "/read", "/as/alice", "/as/bob", "/nowhere", "/charge/2", "/fail", "/stream")
	if s.setup.hangUps {
		path = pick(s, "/ok", "/fail", "/panic", "/stream", "/stream", "/charge/3", "/charge/12", "/broken/12", "/broken/3", "/read")
		if s.chance(4) {
			path = "/gone"
		}
	}
	if s.chance(6) {
		path = pick(s, path+"/", strings.ToUpper(path), "/%6fk", "//ok", "/./ok", "/x/../ok", "/ok;v=1", "/ok%2f..%2fitems/7", "*", "/", "/items/", "/ok#x", "/items/a%20b")
	}
	for i := range s.IntN(4) {
		if !s.chance(40) {
			continue
		}
		path += pick(s, "?", "&", "&", ";")
		if i == 0 && !strings.Contains(path, "?") {
			path += "?"
		}
		path += pick(s, "api_key", "api_key", "api%5Fkey", "API_KEY", "x", "api_key+") + pick(s, "=", "=", "=", "", "%3d") + s.value(pick(s, "a", "b", "a%20", "+a", "a%zz", "%61", ""))
	}
	if s.chance(3) {
		return pick(s, "http://example.com", "http://u@other.example", "https://example.com:443", "HTTP://") + path
	}
	return path
}

// value adds blanks and characters that servers read in different ways.
func (s *source) value(v string) string {
	if s.chance(85) {
		return v
	}
	return pick(s, "", "\u00a0", "%a0", "\u2003", "\"") + v + pick(s, "", "\u00a0", "%09", "\"", "\x85", "\u0085")
}

// lies are fields in which a client could claim an identity.
var lies = []string{
	"X-API-Key", "X-API-Key", "Authorization", "Authorization", "Cookie", "Cookie", "X-Tenant", "X-Tenant",
	"X-Forwarded-For", "X-Forwarded-For", "X-Real-IP", "True-Client-IP", "CF-Connecting-IP", "CF-Connecting-IPv6", "Forwarded",
	"X-Bypass-Token", "X-HTTP-Method-Override", "X-Original-URL",
}

// lie returns the name of one of lies, often one that the limits read.
func (s *source) lie() string {
	if len(s.setup.reads) > 0 && s.chance(40) {
		return pick(s, s.setup.reads...)
	}
	return pick(s, lies...)
}

// field returns a line of the header block or the trailer section.
func (s *source) field() string {
	name := s.lie()
	value := s.fieldValue(name)
	if s.chance(20) {
		name = pick(s, strings.ToLower(name), strings.ToUpper(name), strings.ReplaceAll(name, "-", "_"), name+" ", name+"\t", "\t"+name, name+"\x00", "X"+name)
	}
	before, after := " ", ""
	if s.chance(15) {
		before, after = s.blanks(), s.blanks()
	}
	if s.chance(3) {
		after += "\r\n" + pick(s, " ", "\t", "   ", " \t ") + pick(s, "more", "", "x: y", s.fieldValue(name))
	}
	return name + ":" + before + value + after
}

func (s *source) blanks() string {
	return pick(s, "", " ", "\t", "  ", " \t ", "\t\t", "\u00a0", "\u2003", "\x0b", "\r", "\xa0")
}

func (s *source) fieldValue(name string) string {
	switch name {
	case "X-API-Key", "X-Tenant":
		return s.value(pick(s, "a", "b", "c", "", "a,b", "a b", "a|b", "{a}", "é", "\xff", strings.Repeat("k", 65), strings.Repeat("k", 64)))
	case "Authorization":
		return pick(s, "Bearer ", "Bearer ", "bearer ", "BEARER  ", "Bearer\t", "Basic ", "Bearer", "") + s.value(pick(s, "a", "b", "c", "", "a "))
	case "Cookie":
		var pairs []string
		for range 1 + s.IntN(3) {
			pairs = append(pairs, pick(s, "sid", "sid", "SID", "x", " sid ", "")+pick(s, "=", "=", "=", "==", "")+s.value(pick(s, "a", "b", `"a"`, "a b", "%61", "a+b", "a%", "")))
		}
		return strings.Join(pairs, pick(s, "; ", ";", ",", " ;\t", "; ;"))
	case "Forwarded":
		var elements []string
		for range 1 + s.IntN(3) {
			elements = append(elements, pick(s, "for=", "For=", "for=", "by=10.0.0.1;for=", "proto=http; for=", "for = ", "")+pick(s, s.address(), `"`+s.address()+`"`, `"`+s.address()+`:80";by=10.0.0.2`, "_hidden", "unknown", `"`, `"a\"b"`))
		}
		return strings.Join(elements, pick(s, ", ", ",", ";", " , "))
	case "X-Bypass-Token":
		return pick(s, token, token, token+"x", strings.ToUpper(token), "", " "+token)
	case "X-HTTP-Method-Override":
		return "GET"
	case "X-Original-URL":
		return "/ok"
	}
	addresses := []string{s.address()}
	for s.chance(40) {
		addresses = append(addresses, s.address())
	}
	if s.chance(1) {
		addresses = append(addresses, strings.Split(strings.Repeat("10.0.0.2,", 31+s.IntN(4)), ",")...)
		addresses = addresses[:len(addresses)-1]
	}
	return strings.Join(addresses, pick(s, ", ", ",", " ,\t", ",,"))
}

// address returns one of a few addresses in one of its notations.
func (s *source) address() string {
	return pick(s,
		"192.0.2.7", "192.0.2.8", "198.51.100.1", "10.0.0.2", "10.0.0.2", "::ffff:192.0.2.7", "192.0.2.7:80", "[2001:db8::7]:80", "2001:db8::7",
		"2001:DB8:0::7", "[::ffff:10.0.0.3]", "fe80::1%eth0", "240.1.2.3", "x", "", "192.0.2.007", "192.0.2.7:", "192.0.2.7:99999", "unknown", "192.0.2.7 ", "10.0.0.2:_p", "[192.0.2.7]",
	)
}

// body returns framing fields and the body.
func (s *source) body(eol string) (framing []string, body string) {
	text := pick(s, "", "hello", "GET /ok HTTP/1.1\r\nHost: x\r\nX-API-Key: smuggled\r\n\r\n", "0\r\n\r\n", strings.Repeat("b", 300))
	switch n := s.IntN(100); {
	case n < 55:
		return nil, ""
	case n < 72:
		return []string{fmt.Sprintf("Content-Length: %d", len(text))}, text
	case n < 78: // malformed lengths
		value := pick(s, "+%d", "%d ", "0%d", "%d, %d", "0x%x", "%d\r\nContent-Length: 0", "%d\r\nContent-Length: %[1]d", "\t%d", "-%d", "%d\x0b", "9%d")
		return []string{"Content-Length: " + strings.Split(fmt.Sprintf(value, len(text), len(text)), "%!(EXTRA")[0]}, text
	}
	framing = []string{pick(s, "Transfer-Encoding: chunked", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked", "transfer-encoding: Chunked", "Transfer-Encoding:chunked\t")}
	if s.chance(10) {
		framing = []string{pick(s, "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: identity", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding : chunked", "Transfer-Encoding: \x0bchunked", "Transfer-Encoding: xchunked", "Transfer_Encoding: chunked", "Transfer-Encoding:\r\n chunked")}
	}
	if s.chance(10) {
		framing = append(framing, fmt.Sprintf("Content-Length: %d", pick(s, len(text), 3, 0)))
	}
	var b strings.Builder
	for text != "" {
		n := 1 + s.IntN(len(text))
		size := fmt.Sprintf(pick(s, "%x", "%x", "%X", "0%x", "%x"), n)
		if s.chance(12) {
			size += pick(s, ";a=b", " ;a", ";\"\r\"", "\t", "; GET /ok", " ", ";\n", "z")
		}
		b.WriteString(size + "\r\n" + text[:n] + "\r\n")
		text = text[n:]
	}
	b.WriteString("0" + pick(s, "", "", "", ";x", "0", " ") + "\r\n")
	if s.chance(60) {
		var names []string
		for range 1 + s.IntN(3) {
			line := s.field()
			name, _, _ := strings.Cut(line, ":")
			names = append(names, name)
			b.WriteString(line + eol)
		}
		if s.chance(30) {
			framing = append(framing, "Trailer: "+strings.Join(names, ", "))
		}
		if s.chance(5) {
			b.WriteString(pick(s, "Transfer-Encoding: chunked", "Content-Length: 5", "Host: x", "no colon", "0") + eol)
		}
	}
	b.WriteString(pick(s, eol, eol, eol, eol, eol, eol, "", "\r"))
	return framing, b.String()
}
