package gateways

import (
	"strings"
	"testing"
)

// Headers about the connection, the body and the host are the gateway's business. They make neither the
// subrequest an error, nor the limiter one that is away.
func TestOddHeaders(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p *program) {
		s := p.usedUp(t, p.policies[len(p.policies)-1])
		const get, end = "GET /things HTTP/1.1\r\n", "\r\n\r\n"
		for _, lines := range []string{
			"Expect: 100-continue", "Expect: 200-ok", "Expect: 100-continue, x", "Expect:", "Expect: 100-continue\r\nExpect: x",
			"TE: trailers", "TE: gzip, chunked", "Trailer: X-Forwarded-For", "Transfer-Encoding: chunked\r\n\r\n0",
			"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Forwarded-For: 198.51.100.1", "Transfer-Encoding: identity", "Transfer-Encoding: gzip, chunked\r\n\r\n0",
			"Transfer-Encoding: \x0bchunked\r\nContent-Length: 4\r\n\r\n0", "Content-Length: 0", "Content-Length: 5\r\n\r\nhello", "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
			"Content-Length: +5\r\n\r\nhello", "Content-Length: 99999999999999999999", "Content-Length: 1000000", "Content-Length: 44\r\n\r\nGET /v1/auth/api HTTP/1.1\r\nHost: weblimit",
			"Connection: close", "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
			"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA", "Upgrade: h2c", "Upgrade: TLS/1.0",
			"Connection: X-Forwarded-Uri, X-Forwarded-Method, X-Forwarded-For, X-Forwarded-Host, Host, Weblimit-Token", "Connection: x-forwarded-uri",
			"Connection: keep-alive, X-Real-IP", "Proxy-Connection: close", "Keep-Alive: timeout=0", "Proxy-Authorization: Basic eDp5", "Authorization: Bearer x", "Authorization: Basic eDp5",
			"Content-Encoding: gzip", "Accept-Encoding: gzip, br, zstd", "Range: bytes=0-0", "If-Match: *", "If-None-Match: *", "If-Modified-Since: Mon, 01 Jan 2035 00:00:00 GMT", "If-Range: x",
			"Accept-Language: " + strings.Repeat("de, ", 2000), "Cookie: " + strings.Repeat("a=b; ", 1400), "Cookie: =;;;=\xff; a", "Max-Forwards: 0", "Via: 1.1 weblimit", "Date: x",
			"Origin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors", "Purpose: prefetch", "HTTP2-Settings: x", "Alt-Used: x", "Early-Data: 1", "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			"X-Accel-Redirect: /x", "X-Http-Method-Override: OPTIONS", "X-Forwarded-Proto: x", "X-Forwarded-Port: x", "X-Forwarded-Prefix: /x", "X-Forwarded-Server: x", "X-Forwarded-Tls-Client-Cert: x",
			"Weblimit-Token: x\r\nWeblimit-Token: y", "X-Forwarded-For: " + strings.Repeat("1.1.1.1, ", 500) + "1.1.1.1", "X-Forwarded-For:", "X-Forwarded-Uri:", "X-Forwarded-Method: G T",
		} {
			s.refuses(t, lines[:min(len(lines), 60)], get+"Host: example.com\r\n"+lines+end)
			s.refuses(t, "HEAD with "+lines[:min(len(lines), 60)], "HEAD /things HTTP/1.1\r\nHost: example.com\r\n"+lines+end)
		}
		for _, host := range []string{
			"", "EXAMPLE.com", "example.com.", "example.com:443", "example.com:0", "example.com:99999", "example.com:x", "user@example.com", "example.com/x", "exa mple.com", "[::1]", "[::1", "::1", "127.0.0.1",
			"example.com, other.example", "exa%6dple.com", "xn--", "a_b.example", "-", ".", "..", strings.Repeat("a.", 500), "ex\xc3\xa4mple.com", "example.com\tx", "*", "weblimit", "localhost",
		} {
			s.refuses(t, "Host "+host[:min(len(host), 60)], get+"Host: "+host+end)
		}
		s.refuses(t, "no host", "GET /things HTTP/1.0\r\n\r\n")
		s.refuses(t, "two hosts", get+"Host: example.com\r\nHost: other.example"+end)
		s.refuses(t, "another host in the target", "GET http://other.example/things HTTP/1.1\r\nHost: example.com"+end)
		if got := s.ask(t, s.client(t, s.bystander), 5); got.limited != 5 {
			t.Errorf("another client: %+v", got)
		}
		s.refusedNone(t)
	})
}
