package fibertest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

const tenant = "X-Tenant"

// unclear are the lines of a header that a trailer may have made.
var unclear = []string{"", "?"}

// What a chunked request shows of a header that middleware has changed and a trailer has added to, and
// how a key over it fares.
func (s suite[C]) chunkedHeaders(t *testing.T) {
	t.Parallel()
	type test struct {
		name           string
		block, trailer []string
		change         func(C)
		want           []string
		presence       keyfuncs.Presence
	}
	removes := func(c C) { s.f.Request(c).Del(tenant) }
	replaces := func(c C) { s.f.Request(c).Set(tenant, "m") }
	tests := []test{
		{"nothing", nil, nil, nil, nil, keyfuncs.Missing},
		{"a line", []string{"a"}, nil, nil, []string{"a"}, keyfuncs.Present},
		{"two lines", []string{"a", "b"}, nil, nil, []string{"a", "b"}, keyfuncs.Ambiguous},
		{"a line and a trailer", []string{"a"}, []string{"x"}, nil, []string{"a"}, keyfuncs.Present},
		{"two lines and a trailer", []string{"a", "b"}, []string{"x"}, nil, []string{"a", "b"}, keyfuncs.Ambiguous},
		{"a trailer", nil, []string{"x"}, nil, unclear, keyfuncs.Ambiguous},
		{"several trailers", nil, []string{"x", "y", "z"}, nil, unclear, keyfuncs.Ambiguous},
		{"a line that middleware removed", []string{"a"}, []string{"x"}, removes, nil, keyfuncs.Missing},
		{"a line that middleware replaced", []string{"a"}, nil, replaces, []string{"m"}, keyfuncs.Present},
		{"a line that middleware replaced and a trailer", []string{"a"}, []string{"x"}, replaces, unclear, keyfuncs.Ambiguous},
		{"a line that middleware removed and set", []string{"a"}, []string{"x"}, func(c C) { removes(c); replaces(c) }, []string{"m"}, keyfuncs.Present},
		{"a line that middleware made", nil, nil, replaces, unclear, keyfuncs.Ambiguous},
		{"a length that middleware made", nil, []string{"x"}, func(c C) { s.f.Request(c).SetContentLength(3) }, unclear, keyfuncs.Ambiguous},
	}
	if s.fasthttp.apart {
		// What middleware sets goes to the trailer, and nobody sees it.
		for i := range tests {
			if tests[i].name == "a line that middleware replaced and a trailer" {
				tests[i].want, tests[i].presence = []string{"a"}, keyfuncs.Present
			}
		}
	}
	if !s.fasthttp.refuses() {
		tests = append(tests, test{"an encoding that middleware removed", []string{"a"}, []string{"x"}, func(c C) {
			s.f.Request(c).Del("Transfer-Encoding")
			s.f.Request(c).Del("Content-Length")
		}, []string{"a"}, keyfuncs.Present})
	}
	for _, tt := range tests {
		for _, options := range []Options[C]{{}, {ExactNames: true}, {NoPreParse: true}} {
			for _, body := range []string{"abc", ""} {
				t.Run(fmt.Sprintf("%s/%v %v %q", tt.name, options.ExactNames, options.NoPreParse, body), func(t *testing.T) {
					t.Parallel()
					// For an empty body a new fasthttp removes the encoding by itself, and with two
					// lines the order changes.
					vague := s.fasthttp.refuses() && body == ""
					r := chunkedPost(body)
					r.Header[tenant] = tt.block
					if tt.trailer != nil {
						r.Trailer = http.Header{tenant: tt.trailer}
					}
					s.changed(t, options, r, tt.change, func(_ C, r keyfuncs.Request) {
						if got := Values(r, tenant); !slices.Equal(got, tt.want) && (!vague || !slices.Equal(got, unclear)) {
							t.Errorf("lines: %q, want %q", got, tt.want)
						}
						if _, p := keyfuncs.Header(tenant).Key(r); p != tt.presence && (!vague || p != keyfuncs.Ambiguous) {
							t.Errorf("the key is %v, want %v", p, tt.presence)
						}
					})
				})
			}
		}
	}
}

// chunkedPost is a request whose body is sent in chunks.
func chunkedPost(body string) *http.Request {
	return httptest.NewRequest("POST", "/items/1", io.MultiReader(strings.NewReader(body)))
}

// changed is seen after middleware has changed the request.
func (s suite[C]) changed(t *testing.T, options Options[C], r *http.Request, change func(C), read func(C, keyfuncs.Request)) {
	t.Helper()
	s.seen(t, options, r, func(c C, in keyfuncs.Request) {
		if change != nil {
			change(c)
		}
		read(c, in)
	})
}

// Where bodies are streams a trailer comes when somebody reads the body, which may be
// after middleware has removed what the client sent.
func (s suite[C]) trailersOfStreams(t *testing.T) {
	t.Parallel()
	readAll := func(c C) { _ = c.Body() }
	for _, tt := range []struct {
		name   string
		block  []string
		change func(C)
		want   []string
	}{
		{"before the body is read", []string{"a"}, nil, []string{"a"}},
		{"before the body is read, without a line", nil, nil, nil},
		{"afterwards", []string{"a"}, readAll, []string{"a"}},
		{"afterwards, without a line", nil, readAll, unclear},
		{"in place of a line", []string{"a"}, func(c C) {
			s.f.Request(c).Del(tenant)
			readAll(c)
		}, unclear},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := chunkedPost("abc")
			r.Header[tenant] = tt.block
			r.Trailer = http.Header{tenant: {"x"}}
			s.changed(t, Options[C]{StreamRequestBody: true}, r, tt.change, func(c C, r keyfuncs.Request) {
				check.Slices(t, "lines", Values(r, tenant), tt.want)
				readAll(c)
			})
		})
	}
}

// Cookies of a trailer come behind those of the block, or are refused by fasthttp.
func (s suite[C]) cookies(t *testing.T) {
	t.Parallel()
	decrypts := func(c C) { s.f.Request(c).SetCookie("sid", "plain") }
	removes := func(c C) { s.f.Request(c).DelCookie("sid") }
	for _, tt := range []struct {
		name    string
		block   []string
		change  func(C)
		alone   string            // the key without a trailer: the value, or "" for that of without
		without keyfuncs.Presence // of a key without a value
		beside  keyfuncs.Presence // of the key beside a cookie in a trailer
	}{
		{"a cookie", []string{"sid=a"}, nil, "a", 0, keyfuncs.Present},
		{"a cookie in quotes", []string{`x=1;  sid ="a" ;y`}, nil, "a", 0, keyfuncs.Present},
		{"two cookies", []string{"sid=a; x=1", "sid=b"}, nil, "", keyfuncs.Ambiguous, keyfuncs.Ambiguous},
		{"none", nil, nil, "", keyfuncs.Missing, keyfuncs.Ambiguous},
		{"another cookie", []string{"other=a; sidd=b"}, nil, "", keyfuncs.Missing, keyfuncs.Ambiguous},
		{"one that middleware decrypted", []string{"sid=a"}, decrypts, "plain", 0, keyfuncs.Ambiguous},
		{"one that middleware removed", []string{"sid=a"}, removes, "", keyfuncs.Missing, keyfuncs.Missing},
	} {
		for _, trailer := range []bool{false, true} {
			if trailer && s.fasthttp.refuses() {
				continue // it refuses the request
			}
			t.Run(fmt.Sprintf("%s, beside a trailer: %v", tt.name, trailer), func(t *testing.T) {
				t.Parallel()
				value, presence := tt.alone, tt.without
				if value != "" {
					presence = keyfuncs.Present
				}
				r := chunkedPost("abc")
				r.Header["Cookie"] = tt.block
				if trailer {
					r.Trailer = http.Header{"Cookie": {"sid=x"}}
					if presence = tt.beside; presence != keyfuncs.Present {
						value = ""
					}
				}
				s.changed(t, Options[C]{}, r, tt.change, func(_ C, r keyfuncs.Request) {
					key, p := keyfuncs.Cookie("sid").Key(r)
					check.Equal(t, "presence", p, presence)
					check.Equal(t, "key", key, keyfuncs.Encode("cookie.sid", value))
				})
			})
		}
	}
}

// Middleware that removes a header brings the trailer's line before that of the block.
func (s suite[C]) removedHeader(t *testing.T) {
	t.Parallel()
	if !s.fasthttp.reorders {
		t.Skip("fasthttp keeps the order")
	}
	r := chunkedPost("abc")
	r.Header["A-Debug"], r.Header[tenant] = []string{"1"}, []string{"a"}
	r.Trailer = http.Header{tenant: {"x"}}
	s.changed(t, Options[C]{}, r, func(c C) { s.f.Request(c).Del("A-Debug") }, func(c C, r keyfuncs.Request) {
		check.Equal(t, "what Fiber shows, or this tests nothing", c.Get(tenant), "x")
		_, p := keyfuncs.Header(tenant).Key(r)
		check.Equal(t, "the key", p, keyfuncs.Ambiguous)
	})
}

// c.IP reads the header that a trailer may have made.
func (s suite[C]) ipOfATrailer(t *testing.T) {
	t.Parallel()
	for _, validates := range []bool{false, true} {
		for block, want := range map[string]string{"192.0.2.7": "192.0.2.7", "": ""} {
			r := chunkedPost("abc")
			r.RemoteAddr = "10.0.0.1:1"
			if block != "" {
				r.Header["Fastly-Client-Ip"] = []string{block}
			}
			r.Trailer = http.Header{"Fastly-Client-Ip": {"198.51.100.1"}}
			options := Options[C]{ProxyHeader: "fastly-client-ip", Proxies: []string{"10.0.0.1"}, EnableIPValidation: validates}
			s.seen(t, options, r, func(_ C, r keyfuncs.Request) {
				addr, ok := keyfuncs.Framework().Addr(r)
				if got := addr.String(); ok != (want != "") || ok && got != want {
					t.Errorf("block %q: %q, %v", block, got, ok)
				}
			})
		}
	}
}

// The body of a denied request that nobody has read is no further request: a client
// behind a proxy could write all headers of that one.
func (s suite[C]) deniedStream(t *testing.T) {
	t.Parallel()
	for _, config := range []Config[C]{{}, {Denied: func(c C, d core.Decision) error { return c.SendStatus(d.Status()) }}} {
		app, ran := s.f.App(Options[C]{StreamRequestBody: true}), 0
		app.Use("", s.f.New(core.ForLimits(core.NewMemory(), []core.Limit{
			core.PerDay(1).By(keyfuncs.ClientIP(keyfuncs.TrustedProxies("10.0.0.0/8"))),
		}), config))
		app.Add("", "/", func(c C) error {
			ran++
			_ = c.Body()
			return nil
		})
		hidden := "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100.1\r\n\r\n"
		for range 3 {
			for _, body := range []io.Reader{strings.NewReader(hidden), io.MultiReader(strings.NewReader("0\r\n\r\n" + hidden))} {
				r := httptest.NewRequest("POST", "/", body)
				r.RemoteAddr = "10.0.0.1:1"
				r.Header["X-Forwarded-For"] = []string{"192.0.2.7"}
				serveOnce(t, app, r)
			}
		}
		check.Equal(t, "handlers that ran", ran, 1)
	}
}

// fasthttp keeps the last line of these; other servers keep both or refuse the request.
func (s suite[C]) keptOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		lines []string
		want  keyfuncs.Presence
	}{
		{"User-Agent", []string{"a", "b"}, keyfuncs.Ambiguous},
		{"User-Agent", []string{"a"}, keyfuncs.Present},
		{"Content-Type", []string{"a", "b"}, keyfuncs.Ambiguous},
		{"Content-Type", []string{"a"}, keyfuncs.Present},
		{"Host", nil, keyfuncs.Present},
	} {
		r := item()
		switch {
		case len(tt.lines) == 2 && tt.name == "User-Agent": // of which net/http sends the first line only
			r.Header["user-agent"] = tt.lines[1:]
			r.Header[tt.name] = tt.lines[:1]
		case tt.lines != nil:
			r.Header[tt.name] = tt.lines
		}
		s.seen(t, Options[C]{}, r, func(_ C, r keyfuncs.Request) {
			_, p := keyfuncs.Header(tt.name).Key(r)
			check.Equal(t, fmt.Sprintf("the key of %s %q", tt.name, tt.lines), p, tt.want)
		})
	}
}

// Where Fiber keeps names as they were sent, they still compare as HTTP says.
func (s suite[C]) namesWithoutCase(t *testing.T) {
	t.Parallel()
	for _, exact := range []bool{false, true} {
		r := item()
		r.Header["X-API-key"] = []string{"a"}
		r.Header["x-tenant"] = []string{"a"}
		r.Header[tenant] = []string{"b"}
		s.seen(t, Options[C]{ExactNames: exact}, r, func(_ C, r keyfuncs.Request) {
			if key, p := keyfuncs.APIKey("X-API-Key").Key(r); p != keyfuncs.Present || key != keyfuncs.Encode("apikey", "a") {
				t.Errorf("exact %v: key %q, %v", exact, key, p)
			}
			if _, p := keyfuncs.Header(tenant).Key(r); p != keyfuncs.Ambiguous {
				t.Errorf("exact %v: two lines in different case are %v", exact, p)
			}
		})
	}
}
