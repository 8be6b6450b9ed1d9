package fiber3limit

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v3"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Trap 47. What a chunked request shows of a header that middleware has changed and a
// trailer has added to, and how a key over it fares.
func TestTrap47HeadersOfChunkedRequests(t *testing.T) {
	t.Parallel()
	const name = "X-Tenant"
	for _, tt := range []struct {
		name     string
		block    []string
		trailer  []string
		change   func(fiber.Ctx)
		want     []string
		presence keyfuncs.Presence
	}{
		{"nothing", nil, nil, nil, nil, keyfuncs.Missing},
		{"a line", []string{"a"}, nil, nil, []string{"a"}, keyfuncs.Present},
		{"two lines", []string{"a", "b"}, nil, nil, []string{"a", "b"}, keyfuncs.Ambiguous},
		{"a line and a trailer", []string{"a"}, []string{"x"}, nil, []string{"a"}, keyfuncs.Present},
		{"two lines and a trailer", []string{"a", "b"}, []string{"x"}, nil, []string{"a", "b"}, keyfuncs.Ambiguous},
		{"a trailer", nil, []string{"x"}, nil, []string{"", "?"}, keyfuncs.Ambiguous},
		{"several trailers", nil, []string{"x", "y", "z"}, nil, []string{"", "?"}, keyfuncs.Ambiguous},
		{"a line that middleware removed", []string{"a"}, []string{"x"}, func(c fiber.Ctx) { c.Request().Header.Del(name) }, nil, keyfuncs.Missing},
		{"a line that middleware replaced", []string{"a"}, nil, func(c fiber.Ctx) { c.Request().Header.Set(name, "m") }, []string{"m"}, keyfuncs.Present},
		{"a line that middleware replaced and a trailer", []string{"a"}, []string{"x"}, func(c fiber.Ctx) { c.Request().Header.Set(name, "m") }, []string{"", "?"}, keyfuncs.Ambiguous},
		{"a line that middleware removed and set", []string{"a"}, []string{"x"}, func(c fiber.Ctx) {
			c.Request().Header.Del(name)
			c.Request().Header.Set(name, "m")
		}, []string{"m"}, keyfuncs.Present},
		{"a line that middleware made", nil, nil, func(c fiber.Ctx) { c.Request().Header.Set(name, "m") }, []string{"", "?"}, keyfuncs.Ambiguous},
		{"a length that middleware made", nil, []string{"x"}, func(c fiber.Ctx) { c.Request().Header.SetContentLength(3) }, []string{"", "?"}, keyfuncs.Ambiguous},
	} {
		for _, config := range []fiber.Config{{}, {DisableHeaderNormalizing: true}, {DisablePreParseMultipartForm: true}} {
			for _, body := range []string{"abc", ""} {
				t.Run(fmt.Sprintf("%s/%v %v %q", tt.name, config.DisableHeaderNormalizing, config.DisablePreParseMultipartForm, body), func(t *testing.T) {
					t.Parallel()
					r := chunkedPost(body)
					r.Header[name] = tt.block
					if tt.trailer != nil {
						r.Trailer = http.Header{name: tt.trailer}
					}
					posted(t, config, r, tt.change, func(_ fiber.Ctx, r keyfuncs.Request) {
						// For an empty body fasthttp removes the encoding by itself, and with two
						// lines the order changes.
						if got := values(r, name); !slices.Equal(got, tt.want) && (body != "" || !slices.Equal(got, []string{"", "?"})) {
							t.Errorf("lines: %q, want %q", got, tt.want)
						}
						if _, p := keyfuncs.Header(name).Key(r); p != tt.presence && (body != "" || p != keyfuncs.Ambiguous) {
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

// posted is seen for POST, after middleware has changed the request.
func posted(t *testing.T, config fiber.Config, r *http.Request, change func(fiber.Ctx), read func(fiber.Ctx, keyfuncs.Request)) {
	t.Helper()
	routed(t, config, fiber.MethodPost, r, func(c fiber.Ctx, in keyfuncs.Request) {
		if change != nil {
			change(c)
		}
		read(c, in)
	})
}

// values are copies of all lines of a header.
func values(r keyfuncs.Request, name string) []string {
	var all []string
	for i := 0; ; i++ {
		value, ok := r.Header(name, i)
		if !ok {
			return all
		}
		all = append(all, strings.Clone(value))
	}
}

// Where bodies are streams a trailer comes when somebody reads the body, which may be
// after middleware has removed what the client sent.
func TestTrap47TrailersOfStreams(t *testing.T) {
	t.Parallel()
	readAll := func(c fiber.Ctx) { _ = c.Body() }
	for _, tt := range []struct {
		name   string
		block  []string
		change func(fiber.Ctx)
		want   []string
	}{
		{"before the body is read", []string{"a"}, nil, []string{"a"}},
		{"before the body is read, without a line", nil, nil, nil},
		{"afterwards", []string{"a"}, readAll, []string{"a"}},
		{"afterwards, without a line", nil, readAll, []string{"", "?"}},
		{"in place of a line", []string{"a"}, func(c fiber.Ctx) {
			c.Request().Header.Del("X-Tenant")
			readAll(c)
		}, []string{"", "?"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := chunkedPost("abc")
			r.Header["X-Tenant"] = tt.block
			r.Trailer = http.Header{"X-Tenant": {"x"}}
			posted(t, fiber.Config{StreamRequestBody: true}, r, tt.change, func(c fiber.Ctx, r keyfuncs.Request) {
				if got := values(r, "X-Tenant"); !slices.Equal(got, tt.want) {
					t.Errorf("lines: %q, want %q", got, tt.want)
				}
				readAll(c)
			})
		})
	}
}

// The body of a denied request that nobody has read is no further request: a client
// behind a proxy could write all headers of that one.
func TestTheBodyOfADeniedStreamIsNoRequest(t *testing.T) {
	t.Parallel()
	for _, config := range []Config{{}, {Denied: func(c fiber.Ctx, d core.Decision) error { return c.SendStatus(d.Status()) }}} {
		app, ran := fiber.New(fiber.Config{StreamRequestBody: true}), 0
		app.Use(New(core.ForLimits(core.NewMemory(), []core.Limit{
			core.PerDay(1).By(keyfuncs.ClientIP(keyfuncs.TrustedProxies("10.0.0.0/8"))),
		}), config))
		app.All("/", func(c fiber.Ctx) error {
			ran++
			_ = c.Body()
			return nil
		})
		app.Handler()
		hidden := "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100.1\r\n\r\n"
		for range 3 {
			for _, chunked := range []bool{false, true} {
				r := httptest.NewRequest("POST", "/", strings.NewReader(hidden))
				if chunked {
					r = httptest.NewRequest("POST", "/", io.MultiReader(strings.NewReader("0\r\n\r\n"+hidden)))
				}
				r.RemoteAddr = "10.0.0.1:1"
				r.Header["X-Forwarded-For"] = []string{"192.0.2.7"}
				res, err := limittest.Exchange(app.Server().ServeConn, r)
				if err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
			}
		}
		if ran != 1 {
			t.Errorf("%d handlers ran, want 1", ran)
		}
	}
}

// Trap 47. fasthttp refuses a request with cookies in its trailer. Those of the block are keys, as
// middleware changes them.
func TestTrap47CookiesOfChunkedRequests(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		block    []string
		change   func(fiber.Ctx)
		presence keyfuncs.Presence
		want     string
	}{
		{"a cookie", []string{"sid=a"}, nil, keyfuncs.Present, "a"},
		{"a cookie in quotes", []string{`x=1;  sid ="a" ;y`}, nil, keyfuncs.Present, "a"},
		{"two cookies", []string{"sid=a; x=1", "sid=b"}, nil, keyfuncs.Ambiguous, ""},
		{"none", nil, nil, keyfuncs.Missing, ""},
		{"another cookie", []string{"other=a; sidd=b"}, nil, keyfuncs.Missing, ""},
		{"one that middleware decrypted", []string{"sid=a"}, func(c fiber.Ctx) { c.Request().Header.SetCookie("sid", "plain") }, keyfuncs.Present, "plain"},
		{"one that middleware removed", []string{"sid=a"}, func(c fiber.Ctx) { c.Request().Header.DelCookie("sid") }, keyfuncs.Missing, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := chunkedPost("abc")
			r.Header["Cookie"] = tt.block
			posted(t, fiber.Config{}, r, tt.change, func(_ fiber.Ctx, r keyfuncs.Request) {
				key, p := keyfuncs.Cookie("sid").Key(r)
				if want := keyfuncs.Encode("cookie.sid", tt.want); p != tt.presence || key != want {
					t.Errorf("key %q, %v; want %q, %v", key, p, want, tt.presence)
				}
			})
		})
	}
}

// Middleware that removes a header brings the trailer's line before that of the block.
func TestTrap47MiddlewareThatRemovesAHeader(t *testing.T) {
	t.Parallel()
	r := chunkedPost("abc")
	r.Header["A-Debug"], r.Header["X-Tenant"] = []string{"1"}, []string{"a"}
	r.Trailer = http.Header{"X-Tenant": {"x"}}
	removes := func(c fiber.Ctx) { c.Request().Header.Del("A-Debug") }
	posted(t, fiber.Config{}, r, removes, func(c fiber.Ctx, r keyfuncs.Request) {
		if first := c.Get("X-Tenant"); first != "x" {
			t.Errorf("Fiber shows %q: this test tests nothing", first)
		}
		if _, p := keyfuncs.Header("X-Tenant").Key(r); p != keyfuncs.Ambiguous {
			t.Errorf("the key is %v", p)
		}
	})
}

// fasthttp keeps the last line of these; other servers keep both or refuse the request.
func TestHeadersThatFasthttpKeepsOnce(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"User-Agent", "Content-Type"} {
		r := httptest.NewRequest("GET", "/items/1", nil)
		r.Header[name] = []string{"a", "b"}
		seenLines(t, r, name, keyfuncs.Ambiguous)
		r = httptest.NewRequest("GET", "/items/1", nil)
		r.Header[name] = []string{"a"}
		seenLines(t, r, name, keyfuncs.Present)
	}
	r := httptest.NewRequest("GET", "/items/1", nil)
	seenLines(t, r, "Host", keyfuncs.Present)
}

func seenLines(t *testing.T, r *http.Request, name string, want keyfuncs.Presence) {
	t.Helper()
	if name == "User-Agent" && len(r.Header[name]) > 1 {
		// net/http sends the first line only.
		r.Header["user-agent"] = r.Header[name][1:]
		r.Header[name] = r.Header[name][:1]
	}
	seen(t, fiber.Config{}, r, func(_ fiber.Ctx, r keyfuncs.Request) {
		if _, p := keyfuncs.Header(name).Key(r); p != want {
			t.Errorf("%s: the key is %v, want %v", name, p, want)
		}
	})
}

// Trap 35. Where Fiber keeps names as they were sent, they still compare as HTTP says.
func TestNamesOfHeadersCompareWithoutCase(t *testing.T) {
	t.Parallel()
	for _, exact := range []bool{false, true} {
		r := httptest.NewRequest("GET", "/items/1", nil)
		r.Header["X-API-key"] = []string{"a"}
		r.Header["x-tenant"] = []string{"a"}
		r.Header["X-Tenant"] = []string{"b"}
		seen(t, fiber.Config{DisableHeaderNormalizing: exact}, r, func(_ fiber.Ctx, r keyfuncs.Request) {
			if key, p := keyfuncs.APIKey("X-API-Key").Key(r); p != keyfuncs.Present || key != keyfuncs.Encode("apikey", "a") {
				t.Errorf("exact %v: key %q, %v", exact, key, p)
			}
			if _, p := keyfuncs.Header("X-Tenant").Key(r); p != keyfuncs.Ambiguous {
				t.Errorf("exact %v: two lines in different case are %v", exact, p)
			}
		})
	}
}

// Trap 47. c.IP reads the header that a trailer may have made.
func TestTrap47FrameworkIPOfATrailer(t *testing.T) {
	t.Parallel()
	for _, validates := range []bool{false, true} {
		for block, want := range map[string]string{"192.0.2.7": "192.0.2.7", "": ""} {
			r := chunkedPost("abc")
			r.RemoteAddr = "10.0.0.1:1"
			if block != "" {
				r.Header["Fastly-Client-Ip"] = []string{block}
			}
			r.Trailer = http.Header{"Fastly-Client-Ip": {"198.51.100.1"}}
			config := fiber.Config{
				ProxyHeader: "fastly-client-ip", TrustProxy: true, TrustProxyConfig: fiber.TrustProxyConfig{Proxies: []string{"10.0.0.1"}}, EnableIPValidation: validates,
			}
			posted(t, config, r, nil, func(_ fiber.Ctx, r keyfuncs.Request) {
				addr, ok := keyfuncs.Framework().Addr(r)
				if got := addr.String(); ok != (want != "") || ok && got != want {
					t.Errorf("block %q: %q, %v", block, got, ok)
				}
			})
		}
	}
}
