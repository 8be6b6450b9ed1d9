package proxies

import (
	"cmp"
	"fmt"
	"strings"
)

// A forgery is a request that claims to come from another client.
type forgery struct {
	name     string
	method   string // GET, or POST where there is a body, if not set
	target   string // the path, if not set
	fields   []field
	body     string
	trailers []field // of a chunked body
}

type field struct{ name, value string }

// The addresses of the clients and of the proxies.
const (
	attacker = "127.0.0.66"
	honest   = "127.0.0.77"
	trusted  = "127.0.0.1" // where proxies connect from
)

// claimed is the address that the i-th request claims. Most requests claim one of their
// own. The others claim the honest client, the proxy, Cloudflare, an IPv6 address or
// something that is no address.
func claimed(i int) string {
	switch i % 16 {
	case 3:
		return honest
	case 5:
		return trusted
	case 7:
		return "173.245.48.5"
	case 9:
		return fmt.Sprintf("2001:db8:%x::1", i)
	case 11:
		return "unknown"
	}
	return fmt.Sprintf("198.51.%d.%d", i>>8, i&0xff)
}

// identities are headers that some proxy or application trusts.
var identities = []string{
	"X-Forwarded-For", "X-Real-IP", "Forwarded", "CF-Connecting-IP", "CF-Connecting-IPv6", "True-Client-IP",
	"X-Client-IP", "X-Cluster-Client-IP", "Fastly-Client-IP", "X-Original-Forwarded-For", "X-ProxyUser-IP",
}

// all returns each of these headers with the value, in the header's syntax.
func all(value string) (fields []field) {
	for _, name := range identities {
		fields = append(fields, field{name, valueFor(name, value)})
	}
	return fields
}

func valueFor(name, value string) string {
	switch {
	case name != "Forwarded":
		return value
	case strings.Contains(value, ":"):
		return `for="[` + value + `]:443";proto=https`
	}
	return "for=" + value
}

// forgeries are the well-formed shapes that the i-th request may have, over HTTP/1.1 and
// HTTP/2.
func forgeries(i int, path string) []forgery {
	a, b := claimed(i), claimed(i+1)
	shapes := []forgery{
		{name: "all at once", fields: all(a)},
		{name: "several lines", fields: append(append(all(a), all(b)...), all("")...)},
		{name: "lists", fields: []field{
			{"X-Forwarded-For", a + ", " + b + ",,"},
			{"X-Forwarded-For", b + "," + trusted},
			{"Forwarded", "for=" + a + ", for=" + trusted + ";by=" + trusted},
			{"X-Real-IP", a + ", " + b},
		}},
		{name: "the attacker and the proxy last", fields: []field{
			{"X-Forwarded-For", a + ", " + trusted}, {"X-Forwarded-For", trusted}, {"Forwarded", "for=" + a + ";for=" + trusted},
		}},
		{name: "an open quote", fields: []field{{"Forwarded", `for="` + a + `, for=`}, {"Forwarded", `for=` + a + `;host="\`}, {"X-Forwarded-For", `"` + a}}},
		{name: "upper and lower case", fields: []field{
			{"X-FORWARDED-FOR", a}, {"x-forwarded-for", b}, {"x-REAL-ip", a}, {"FORWARDED", "FOR=" + a}, {"cf-connecting-IP", a},
		}},
		{name: "underscores and dots", fields: []field{
			{"X_Forwarded_For", a}, {"X_Real_IP", a}, {"X-Forwarded_For", a}, {"X.Forwarded.For", a}, {"CF_Connecting_IP", a},
		}},
		{name: "blanks", fields: []field{{"X-Forwarded-For", " \t" + a + " \t"}, {"X-Real-IP", a + "\t"}, {"Forwarded", "\t for=" + a + " "}}},
		{name: "trailers", fields: []field{{"Trailer", "X-Forwarded-For, X-Real-IP, Forwarded"}}, body: "abc", trailers: all(a)},
		{name: "trailers that are not announced", body: "abc", trailers: append(all(a), all(b)...)},
		{name: "headers and trailers", fields: all(b), body: "abc", trailers: all(a)},
		{name: "trailers in lower case", body: "abc", trailers: []field{{"x-forwarded-for", a}, {"x-real-ip", a}, {"forwarded", "for=" + a}}},
		{name: "many entries", fields: []field{{"X-Forwarded-For", strings.Repeat(trusted+", ", 30) + a}}},
		{name: "too many entries", fields: []field{{"X-Forwarded-For", a + strings.Repeat(", "+trusted, 100)}}},
		{name: "many lines", fields: repeat(40, field{"X-Forwarded-For", a}, field{"X-Real-IP", a})},
		{name: "a huge value", fields: []field{{"X-Forwarded-For", strings.Repeat(a+",", 6000/(len(a)+1)) + a}}},
		{name: "absolute-form", target: "http://example.com" + path, fields: all(a)},
		{name: "another host", fields: append(all(a), field{"X-Forwarded-Host", a}, field{"X-Original-URL", path}, field{"X-Forwarded-Proto", "https"})},
		{name: "cookies and keys", fields: append(all(a), field{"Cookie", "ip=" + a}, field{"Via", "1.1 " + a}, field{"X-Forwarded", "for=" + a})},
	}
	for _, name := range identities {
		shapes = append(shapes, forgery{name: name, fields: []field{{name, valueFor(name, a)}}})
	}
	return shapes
}

func repeat(n int, fields ...field) (repeated []field) {
	for range n {
		repeated = append(repeated, fields...)
	}
	return repeated
}

// malformed are shapes that HTTP/2 cannot express and that proxies may refuse.
func malformed(i int) []forgery {
	a := claimed(i)
	return []forgery{
		{name: "hop-by-hop", fields: append(all(a), field{"Connection", "X-Real-Ip, X-Forwarded-For, Forwarded, CF-Connecting-IP"})},
		{name: "hop-by-hop, twice", fields: append(all(a), field{"Connection", "keep-alive"}, field{"Connection", "x-real-ip,forwarded"})},
		{name: "hop-by-hop by Proxy-Connection", fields: append(all(a), field{"Proxy-Connection", "X-Real-IP"}, field{"Keep-Alive", "X-Real-IP"})},
		{name: "hop-by-hop and trailers", fields: []field{{"Connection", "X-Real-IP, X-Forwarded-For"}, {"TE", "trailers"}}, body: "abc", trailers: all(a)},
		{name: "blank before the colon", fields: []field{{"X-Forwarded-For ", a}, {"X-Real-IP\t", a}}},
		{name: "folded", fields: []field{{"X-Forwarded-For", a + "\r\n " + a}, {"X-Real-IP", "\r\n\t" + a}}},
		{name: "a bare line feed", fields: []field{{"X-A", "b\nX-Forwarded-For: " + a + "\nX-Real-IP: " + a}}},
		{name: "a bare carriage return", fields: []field{{"X-A", "b\rX-Real-IP: " + a}}},
		{name: "a null byte", fields: []field{{"X-Real-IP", a + "\x00"}, {"X-Forwarded-For", "\x00"}}},
		{name: "no name", fields: []field{{"", a}, {"X-Forwarded-For", a}}},
		{name: "odd bytes in a name", fields: []field{{"X-Real-IP\x00", a}, {"\x0bX-Forwarded-For", a}, {"X-Real-IP\xa0", a}}},
		{name: "a header of 64 kB", fields: []field{{"X-Forwarded-For", strings.Repeat("127.0.0.1,", 6500) + a}}},
		{name: "folded trailers", body: "abc", trailers: []field{{"X-A", "b\r\n X-Real-IP: " + a}, {"X-Real-IP", a}}},
		{name: "an upgrade", fields: append(all(a), field{"Connection", "Upgrade, HTTP2-Settings"}, field{"Upgrade", "h2c"}, field{"HTTP2-Settings", "AAMAAABkAARAAAAAAAIAAAAA"})},
		{name: "a websocket", fields: append(all(a), field{"Connection", "Upgrade"}, field{"Upgrade", "websocket"}, field{"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}, field{"Sec-WebSocket-Version", "13"})},
		{name: "another host twice", target: "http://" + a + "/", fields: append(all(a), field{"Host", a})},
	}
}

// line returns the method and the target of the forgery's first line.
func (f forgery) line(path string) (method, target string) {
	method = "GET"
	if f.hasBody() {
		method = "POST"
	}
	return cmp.Or(f.method, method), cmp.Or(f.target, path)
}

func (f forgery) hasBody() bool { return f.body != "" || len(f.trailers) > 0 }

// http1 returns the forgery as an HTTP/1.1 request.
func (f forgery) http1(path string) []byte {
	var b strings.Builder
	method, target := f.line(path)
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: example.com\r\n", method, target)
	for _, h := range f.fields {
		fmt.Fprintf(&b, "%s: %s\r\n", h.name, h.value)
	}
	if f.hasBody() {
		b.WriteString("Transfer-Encoding: chunked\r\n\r\n")
		if f.body != "" {
			fmt.Fprintf(&b, "%x\r\n%s\r\n", len(f.body), f.body)
		}
		b.WriteString("0\r\n")
		for _, h := range f.trailers {
			fmt.Fprintf(&b, "%s: %s\r\n", h.name, h.value)
		}
	}
	b.WriteString("\r\n")
	return []byte(b.String())
}
