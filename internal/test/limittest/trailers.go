package limittest

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// A client may send fields after a chunked body. They come after the lines that a proxy
// wrote and are not headers.

// bodies of chunked requests: fasthttp forgets that an empty one was chunked.
var bodies = []string{"abc", ""}

// trailed are addresses and credentials in headers, each with the value that a client
// sends in a trailer instead.
var trailed = []struct {
	name  string
	key   keyfuncs.Func
	block []string
	lie   func(i int) string
}{
	{"TrustedProxies", keyfuncs.ClientIP(keyfuncs.TrustedProxies(keyfuncs.Loopback)), []string{"X-Forwarded-For: 192.0.2.7"}, xForwardedFor},
	{"HopCount", keyfuncs.ClientIP(keyfuncs.HopCount(1)), []string{"X-Forwarded-For: 192.0.2.7"}, xForwardedFor},
	{"XRealIP", keyfuncs.ClientIP(keyfuncs.XRealIP(keyfuncs.Loopback)), []string{"X-Real-IP: 192.0.2.7"}, func(i int) string { return "X-Real-IP: " + claimed(i) }},
	{"SingleHeader", keyfuncs.ClientIP(keyfuncs.SingleHeader("True-Client-IP", keyfuncs.Loopback)), []string{"True-Client-IP: 192.0.2.7"}, func(i int) string { return "true-client-ip: " + claimed(i) }},
	{"Forwarded", keyfuncs.ClientIP(keyfuncs.Forwarded(keyfuncs.Loopback)), []string{"Forwarded: for=192.0.2.7"}, func(i int) string { return "Forwarded: for=" + claimed(i) }},
	{
		"Cloudflare", keyfuncs.ClientIP(keyfuncs.Cloudflare(keyfuncs.Loopback)),
		[]string{"X-Forwarded-For: 173.245.48.5", "CF-Connecting-IP: 192.0.2.7"},
		func(i int) string { return "CF-Connecting-IP: " + claimed(i) },
	},
	{
		"Cloudflare by the proxy in between", keyfuncs.ClientIP(keyfuncs.Cloudflare(keyfuncs.Loopback)),
		[]string{"X-Forwarded-For: 192.0.2.7"},
		func(i int) string { return "X-Forwarded-For: 173.245.48.5\r\nCF-Connecting-IP: " + claimed(i) },
	},
	{"a header", keyfuncs.Header("X-Tenant"), []string{"X-Tenant: a"}, func(i int) string { return fmt.Sprint("X-Tenant: ", i) }},
	{"an API key", keyfuncs.APIKey(), []string{"X-API-Key: a"}, func(i int) string { return fmt.Sprint("X-API-Key: ", i) }},
	{"a cookie", keyfuncs.Cookie("sid"), []string{"Cookie: sid=a"}, func(i int) string { return fmt.Sprint("Cookie: sid=", i) }},
	{"User-Agent", keyfuncs.Header("User-Agent"), []string{"User-Agent: a"}, func(i int) string { return fmt.Sprint("User-Agent: ", i) }},
	{"X-HTTP-Method-Override", keyfuncs.Method(), nil, func(int) string { return "X-HTTP-Method-Override: PUT\r\nX-Method-Override: PUT" }},
}

// forbidden matches trailer fields that frameworks with [Differences.Fasthttp] may refuse.
var forbidden = regexp.MustCompile(`^(X-Forwarded-|X-Real-IP|Cookie)`)

func xForwardedFor(i int) string { return "X-Forwarded-For: " + claimed(i) }

// refusedTrailers may not be in a trailer (RFC 9110, section 6.5.1). Servers refuse
// the request or drop the field.
var refusedTrailers = []struct {
	key  keyfuncs.Func
	name string
}{
	{keyfuncs.APIKey("Authorization"), "Authorization: Bearer "},
	{keyfuncs.Header("Host"), "Host: "},
	{keyfuncs.Header("Content-Type"), "Content-Type: text/"},
}

// countsHeader handles POST and counts the requests that have a header.
func countsHeader(n *atomic.Int64, name string) []Route {
	return []Route{{Method: "POST", Path: "/", Handle: func(c Call) {
		if c.Header(name) != "" {
			n.Add(1)
		}
		hello(c)
	}}}
}

var trailers = []scenario{
	{"trap 47: a trailer changes no key that the header block gives", func(e *env) {
		const quota, tries = 2, 6
		for _, tt := range trailed {
			for _, body := range bodies {
				s := e.serve(App{
					Layers: e.configured(core.Config{Limits: []core.Limit{core.PerDay(quota).By(tt.key).OnMissingKey(core.SkipLimit)}}),
					Routes: posts,
				})
				base, passed, refused := s.server.Listen(e), 0, 0
				for i := range tries {
					switch r := e.send(base, chunkedRequest(body, tt.block, tt.lie(i))); {
					case r.status == http.StatusOK:
						passed++
					case r.status == http.StatusBadRequest && e.differs.Fasthttp && forbidden.MatchString(tt.lie(0)):
						refused++
					}
				}
				want := quota
				if refused > 0 {
					want = 0
				}
				equal(e, fmt.Sprintf("%s, body %q: passed of %d", tt.name, body, tries), passed, want)
				if refused > 0 && !e.differs.RunsUnread { // nothing was charged
					for range quota {
						e.passes(tt.name+", without a body", e.send(base, plainRequest(tt.block...)))
					}
				}
				r := e.send(base, plainRequest(tt.block...))
				if tt.block != nil {
					e.denied(tt.name+", without a body", r)
				}
			}
		}
	}},
	{"the lines of a header keep their order in a chunked request", func(e *env) {
		// fasthttp moves the last line of all into the place of one that it removes, such as
		// Transfer-Encoding of an empty body: here the proxy's line before the client's.
		const quota, tries = 2, 6
		for _, tt := range []struct {
			key  keyfuncs.Func
			line string
		}{
			{keyfuncs.ClientIP(keyfuncs.TrustedProxies(keyfuncs.Loopback)), "X-Forwarded-For: "},
			{keyfuncs.ClientIP(keyfuncs.HopCount(1)), "X-Forwarded-For: "},
			{keyfuncs.ClientIP(keyfuncs.Forwarded(keyfuncs.Loopback)), "Forwarded: for="},
		} {
			for _, body := range bodies {
				s := e.serve(App{Layers: e.layer(core.PerDay(quota).By(tt.key)), Routes: posts})
				base, passed := s.server.Listen(e), 0
				for i := range tries {
					if r := e.send(base, chunkedRequest(body, []string{tt.line + claimed(i), tt.line + "192.0.2.7"})); r.status == http.StatusOK {
						passed++
					}
				}
				equal(e, fmt.Sprintf("%q, body %q: passed of %d", tt.line, body, tries), passed, quota)
			}
		}
	}},
	{"trap 47: fields that a trailer may not have change no key", func(e *env) {
		const quota, tries = 2, 6
		for _, tt := range refusedTrailers {
			for _, body := range bodies {
				var blocks []string
				if !strings.HasPrefix(tt.name, "Host") {
					blocks = []string{tt.name + "a"}
				}
				s := e.serve(App{Layers: e.layer(core.PerDay(quota).By(tt.key).OnMissingKey(core.SkipLimit)), Routes: posts})
				base, passed := s.server.Listen(e), 0
				for i := range tries {
					if r := e.send(base, chunkedRequest(body, blocks, fmt.Sprint(tt.name, i))); r.status == http.StatusOK {
						passed++
					}
				}
				if passed > quota {
					e.Errorf("%q, body %q: %d passed, want at most %d", tt.name, body, passed, quota)
				}
			}
		}
	}},
	{"trap 47: a trailer brings nobody into an exempt network", func(e *env) {
		s := e.serve(App{
			Layers: e.configured(core.Config{
				Limits: []core.Limit{core.PerDay(1).By(keyfuncs.Everyone())},
				Bypass: []keyfuncs.Condition{keyfuncs.TrustedProxies(keyfuncs.Loopback).FromCIDR("198.51.100.0/24"), keyfuncs.Tokens("X-Bypass-Token", bypassToken)},
			}),
			Routes: posts,
		})
		base := s.server.Listen(e)
		block := []string{"X-Forwarded-For: 192.0.2.7", "X-Bypass-Token: none"}
		request := chunkedRequest("abc", block, "X-Forwarded-For: 198.51.100.1", "X-Bypass-Token: "+bypassToken)
		first := e.send(base, request)
		e.passes("first", first)
		if first.status == http.StatusBadRequest && e.differs.Fasthttp {
			request = chunkedRequest("abc", block, "X-Bypass-Token: "+bypassToken)
			if !e.differs.RunsUnread { // nothing was charged
				e.passes("first that is read", e.send(base, request))
			}
		}
		e.denied("second", e.send(base, request))
	}},
	{"trap 47: a credential in a trailer alone is no free pass", func(e *env) {
		const quota, tries = 2, 6
		for _, body := range bodies {
			for _, key := range []keyfuncs.Func{keyfuncs.APIKey("X-API-Key"), keyfuncs.First(keyfuncs.APIKey("X-API-Key"), keyfuncs.Header("X-Tenant"))} {
				var seen atomic.Int64
				s := e.serve(App{
					Layers: e.layer(core.PerDay(quota).By(key).OnMissingKey(core.SkipLimit)),
					Routes: countsHeader(&seen, "X-API-Key"),
				})
				base := s.server.Listen(e)
				for i := range tries {
					e.send(base, chunkedRequest(body, []string{fmt.Sprint("X-Tenant: ", i)}, "X-API-Key: s3cret"))
				}
				if seen.Load() > quota {
					e.Errorf("body %q: the application saw the key %d times, want at most %d", body, seen.Load(), quota)
				}
			}
		}
	}},
	{"trap 47: over HTTP/2 a trailer is no header either", func(e *env) {
		s := e.serve(App{
			Layers: e.configured(core.Config{Limits: []core.Limit{core.PerDay(2).By(keyfuncs.ClientIP(keyfuncs.TrustedProxies(keyfuncs.Loopback)))}}),
			Routes: posts,
		})
		base, client := s.server.Listen(e), e.clientHTTP2()
		passed := 0
		for i := range 6 {
			r, err := http.NewRequestWithContext(e.Context(), "POST", base+"/", strings.NewReader("abc"))
			if err != nil {
				e.Fatal(err)
			}
			r.Header.Set("X-Forwarded-For", "192.0.2.7")
			r.Trailer = http.Header{"X-Forwarded-For": {claimed(i)}}
			res, err := client.Do(r)
			if e.differs.OnlyHTTP1 {
				if err == nil {
					_ = res.Body.Close()
					e.Fatal("HTTP/2 was answered")
				}
				continue
			}
			if err != nil {
				e.Fatal(err)
			}
			equal(e, "protocol", res.ProtoMajor, 2)
			if e.read(res).status == http.StatusOK {
				passed++
			}
			_ = res.Body.Close()
		}
		// The handler may answer before the trailer arrives. The server then closes the
		// connection, and the client tries again.
		if passed > 2 {
			e.Errorf("%d passed, want at most 2", passed)
		}
		if !e.differs.OnlyHTTP1 {
			e.denied("without a trailer", e.fetch(client, "GET", base+"/", with("X-Forwarded-For", "192.0.2.7")))
		}
	}},
}

const bypassToken = "0123456789abcdef0123456789abcdef"
