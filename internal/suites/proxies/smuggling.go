package proxies

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/suites/frameworks"
	"github.com/weblimit/weblimit/keyfuncs"
)

// SmuggledRequests sends requests inside others: a proxy and an application could parse these requests differently, so that the
// application sees a request that the proxy has not seen. None gains a client anything.
func SmuggledRequests(t *testing.T, all []frameworks.Framework) {
	t.Helper()
	everyPair(t, all, func(t *testing.T, p *proxy, f frameworks.Framework) {
		r := newRoute(t, "/", keyfuncs.TrustedProxies(trusted))
		front, stop := behind(t, f, p, "tcp", []*Route{r})
		plain := bytesOf(forgery{}.http1(r.Path), quota)
		pipeline(t, attacker, front.addr, pause, plain) // uses up the attacker's quota
		smuggle(t, front, r)
		got := pipeline(t, honest, front.addr, pause, plain)
		stop()
		r.settle(t)
		if got[http.StatusOK] != quota {
			t.Errorf("the honest client got %v, want %d", got, quota)
		}
	})
}

// smuggle sends each of the requests below on a connection of its own.
func smuggle(tb testing.TB, front *started, r *Route) {
	tb.Helper()
	const atOnce = 16
	// Many get no answer, because some proxies wait for the rest of the request.
	const pause = 100 * time.Millisecond
	var wg sync.WaitGroup
	places := make(chan struct{}, atOnce)
	each := func(send func()) {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			send()
		})
	}
	for _, request := range smuggled(r.Path) {
		each(func() { pipeline(tb, attacker, front.addr, pause, [][]byte{[]byte(request)}) })
	}
	for _, f := range downgraded(r.Path) {
		each(func() { streams(tb, attacker, front.addr, r.Path, pause, []forgery{f}) })
	}
	wg.Wait()
}

// hidden is the request inside the others. It claims its own address.
func hidden(path string) string {
	const claim = "198.51.100.1"
	return "GET " + path + " HTTP/1.1\r\nHost: example.com\r\nX-Forwarded-For: " + claim + "\r\n\r\n"
}

// smuggled returns HTTP/1.1 requests with another request inside.
func smuggled(path string) (raw []string) {
	inner := hidden(path)
	last := "0\r\n\r\n" + inner // after the last chunk
	whole := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(inner), inner)
	length := func(of string) string { return fmt.Sprintf("Content-Length: %d\r\n", len(of)) }
	const chunked = "Transfer-Encoding: chunked\r\n"
	add := func(framing, body string) {
		raw = append(raw, "POST "+path+" HTTP/1.1\r\nHost: example.com\r\n"+framing+"\r\n"+body)
	}

	// Content-Length together with chunks.
	add(length(last)+chunked, last)
	add(chunked+length(last), last)
	add(chunked+"Content-Length: 4\r\n", whole)

	// Chunked encodings that only one of the two may recognize.
	for _, encoding := range []string{
		"Transfer-Encoding : chunked", "Transfer-Encoding:\tchunked", "Transfer-Encoding: xchunked",
		"Transfer-Encoding: chunked, identity", "Transfer-Encoding: identity, chunked",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: x", "Transfer-Encoding:\r\n chunked",
		`Transfer-Encoding: "chunked"`, "Transfer-Encoding: chunked;q=1", "Transfer-Encoding: chunked,",
		"Transfer_Encoding: chunked", "X: y\nTransfer-Encoding: chunked", "Transfer-Encoding: \x0bchunked",
		"Transfer-Encoding: CHUNKED", "TRANSFER-ENCODING: chunked, chunked",
	} {
		add(encoding+"\r\n"+length(last), last)
		add(encoding+"\r\n", last)
	}

	// Lengths that the two may read differently.
	for _, lengths := range []string{
		"Content-Length: +0\r\n", "Content-Length: 0, 0\r\n", "Content-Length: 0\r\n" + length(inner),
		length(inner) + "Content-Length: 0\r\n", "Content-Length: -1\r\n", "Content-Length: 0x0\r\n",
		"Content-Length : 0\r\n", "Content-Length: \r\n", "Content_Length: 0\r\n" + length(inner),
		"Content-Length: 0 0\r\n", "Content-Length: 18446744073709551616\r\n",
		"Content-Length: 0\r\nConnection: Content-Length\r\n", length(inner) + "Connection: Content-Length\r\n",
		length(inner) + "Expect: 100-continue\r\n",
	} {
		add(lengths, inner)
	}

	// Chunks whose end is ambiguous.
	for _, size := range []string{
		"0;x=\n", "0;x=\"\r\n\r\n", "00000000000000000\r\n", "0x0\r\n", "+0\r\n", "-0\r\n", " 0\r\n", "0 \r\n",
		"0\n", "0\r", "10000000000000000\r\n", "0_0\r\n", "\r\n0\r\n",
	} {
		add(chunked, size+"\r\n"+inner)
		add(chunked, "1\r\nx\r\n"+size+"\n"+inner)
	}
	add(chunked, "1\r\nxx\r\n"+last)
	add(chunked, "1\r\nx\n"+last)

	// Trailers that contain a request or framing headers.
	add(chunked, "0\r\nX-A: b\n\n"+inner)
	add(chunked, "0\r\n"+inner)
	add(chunked, "0\r\n"+length(inner)+chunked+"\r\n"+inner)

	// Malformed request lines.
	for _, line := range []string{
		"GET " + path, "GET " + path + " HTTP/1.0", "GET " + path + " HTTP/0.9", "GET " + path + " HTTP/2.0",
		"GET " + path + "  HTTP/1.1", "GET\t" + path + "\tHTTP/1.1", "\r\n\r\nGET " + path + " HTTP/1.1",
	} {
		raw = append(raw, line+"\r\nHost: example.com\r\n"+length(inner)+"\r\n"+inner)
	}
	return raw
}

// downgraded returns HTTP/2 requests that would become two if a proxy wrote them as
// HTTP/1.1 without checks.
func downgraded(path string) (forged []forgery) {
	inner := hidden(path)
	add := func(body string, fields ...field) { forged = append(forged, forgery{fields: fields, body: body}) }

	add("0\r\n\r\n"+inner, field{"transfer-encoding", "chunked"})
	add(inner, field{"content-length", "0"})
	add(inner, field{"content-length", "1"}, field{"content-length", "0"})
	add(inner, field{"content-length", "0"}, field{"connection", "content-length"})
	add("", field{"content-length", "1000"})
	add("0\r\n\r\n"+inner, field{"x", "y\r\ntransfer-encoding: chunked"})
	for _, end := range []string{"\r\n", "\n", "\r", "\x00", "\r\n\r\n", "\n\n"} {
		add("", field{"x", "y" + end + end + inner})
		add("", field{"x", "y" + end + "x-forwarded-for: 198.51.100.1"})
		add("", field{"x" + end + "x-forwarded-for: 198.51.100.1", "y"})
		add("", field{"x: y" + end + end + strings.TrimSuffix(inner, "\r\n") + "x", "y"})
	}
	add("", field{"connection", "x-forwarded-for, x-real-ip"}, field{"x-forwarded-for", "198.51.100.1"})
	add("", field{"host", "other.example.com"}, field{"x-forwarded-for", "198.51.100.1"})
	add("", field{":path", path}, field{":x-forwarded-for", "198.51.100.1"})
	add("", field{"upgrade", "h2c"}, field{"connection", "upgrade"}, field{"http2-settings", "AAMAAABkAARAAAAAAAIAAAAA"})
	first := strings.TrimSuffix(inner, "\r\n") + "x: y"
	return append(forged,
		forgery{method: "GET " + path + " HTTP/1.1\r\nHost: example.com\r\n\r\nGET"},
		forgery{method: first + "\r\n\r\nGET"},
		forgery{target: path + " HTTP/1.1\r\nHost: example.com\r\n\r\n" + first},
		forgery{target: path + " HTTP/1.1\r\nX-Forwarded-For: 198.51.100.1\r\nX: y"},
		forgery{target: path + " HTTP/1.1"},
		forgery{method: "CONNECT"},
		forgery{method: "PRI", target: "*", body: "SM\r\n\r\n"},
	)
}
