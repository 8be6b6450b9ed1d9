package client_test

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/stdhttp"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/service/client"
)

// What a client sends must not make the service refuse the check: that would be an outage, and let it pass.
func TestNoRequestOfAClientIsAnOutage(t *testing.T) {
	t.Parallel()
	c := newClient(t, client.Config{URL: serve(t).URL, Send: client.Fields{
		Headers: []string{"X-Api-Key"}, Cookies: []string{"session"}, Query: []string{"q"},
	}})
	l := limiterOf(t, c, "key")
	for name, change := range map[string]func(*http.Request){
		"a long language":    func(r *http.Request) { r.Header.Set("Accept-Language", strings.Repeat("e", 9000)) },
		"a long path":        func(r *http.Request) { r.URL.Path = "/" + strings.Repeat("a", 9000) },
		"an escaped ?":       func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/a?b", "/a%3Fb" },
		"an escaped control": func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/a\x01b", "/a%01b" },
		"a #":                func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/a#b", "/a#b" },
		"invalid UTF-8":      func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/a\xff", "/a%ff" },
		"raw invalid UTF-8":  func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/a\xff", "" },
		"a long method":      func(r *http.Request) { r.Method = strings.Repeat("A", 40) },
		"a long cookie":      func(r *http.Request) { r.Header.Set("Cookie", "session="+strings.Repeat("e", 9000)) },
		"a long value":       func(r *http.Request) { r.URL.RawQuery = "q=" + strings.Repeat("e", 9000) },
		"a long host":        func(r *http.Request) { r.Host = strings.Repeat("e", 9000) },
		"many values":        func(r *http.Request) { r.URL.RawQuery = strings.Repeat("q=1&", 200) },
		"many header lines": func(r *http.Request) {
			for range 200 {
				for _, h := range []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "Cf-Connecting-Ip"} {
					r.Header.Add(h, "192.0.2.1")
				}
			}
		},
		"much in all": func(r *http.Request) {
			for range 32 {
				r.Header.Add("X-Forwarded-For", strings.Repeat("1", 8000))
			}
		},
		"characters to escape": func(r *http.Request) {
			for range 32 {
				r.Header.Add("Forwarded", strings.Repeat("\t\"", 3000))
			}
		},
	} {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", http.NoBody)
		r.Header.Set("X-Api-Key", name)
		change(r)
		for i := range 7 {
			d := l.Allow(stdhttp.Of(r))
			if d.Err != nil && d.Allowed || i > 4 && d.Allowed {
				t.Errorf("%s, number %d: %v", name, i+1, d.LogValue())
				break
			}
		}
	}
	long := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/"+strings.Repeat("a", 9000), http.NoBody)
	d := l.Allow(stdhttp.Of(long))
	if body, _ := d.AppendProblem(nil, ""); d.Status() != http.StatusBadRequest || !strings.Contains(string(body), "The request must have one path of at most 8192 bytes.") {
		t.Errorf("%d %s", d.Status(), body)
	}
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", http.NoBody)
	r.Header.Set("X-Api-Key", "afterwards")
	if d := l.Allow(stdhttp.Of(r)); !d.Allowed || d.Err != nil {
		t.Errorf("afterwards: %v", d.LogValue())
	}
	for _, cost := range []int64{1<<53 + 1, 1 << 62, -1} {
		if d := l.AllowKey(context.Background(), "k", cost); d.Allowed {
			t.Errorf("cost %d: %v", cost, d.LogValue())
		}
	}
}

// One that is odd must not make others wait until they are decided as in an outage.
func TestAnOddRequestHoldsUpNobody(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := newClient(t, client.Config{URL: s.URL, Connections: 1})
	release := s.hold(t)
	var began atomic.Int64
	var group sync.WaitGroup
	for i := range 41 {
		check := client.Check{Policy: "user", Key: "user:many"}
		if i == 20 {
			check = client.Check{Policy: "user", Request: &client.Request{Path: "/" + strings.Repeat("a", 9000)}}
		}
		group.Go(func() {
			began.Add(1)
			if _, err := c.Check(context.Background(), check); (err != nil) != (check.Request != nil) {
				t.Errorf("%v", err)
			}
		})
	}
	s.await(t, 1)
	begins(t, &began, 41)
	release()
	group.Wait()
	if n := s.requests.Load(); n > 12 {
		t.Errorf("%d requests, one after the other", n)
	}
}

func serveText(t *testing.T, status int, kind, text string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(s.Close)
	return s
}

func TestAnswersOfSomethingElse(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, text := range map[string]string{
		"a captive portal":     "<html>log in</html>",
		"an empty object":      "{}",
		"null":                 "null",
		"allowed and no more":  `{"allowed":true}`,
		"a negative delay":     `{"allowed":true,"reason":"within limit","status":200,"delay_ms":-5}`,
		"a delay of centuries": `{"allowed":true,"reason":"within limit","status":200,"delay_ms":9000000000000}`,
		"no status":            `{"allowed":false,"reason":"limit exceeded","status":7}`,
		"contradiction":        `{"allowed":true,"reason":"limit exceeded","status":200}`,
		"nobody can wait that": `{"allowed":false,"reason":"limit exceeded","status":429,"retry_after_ms":9223372036854775807}`,
	} {
		c := newClient(t, client.Config{URL: serveText(t, 200, "application/json", text).URL, OnOutage: client.OnOutage{Action: core.Deny}})
		if a, err := c.Check(ctx, ann); err == nil {
			t.Errorf("%s: %+v", name, a)
		}
		began := time.Now()
		d := limiterOf(t, c, "user").AllowKey(ctx, "user:ann", 1)
		if d.Allowed || d.Err == nil || time.Since(began) > 30*time.Second || d.Status() < 400 || d.Status() > 599 {
			t.Errorf("%s, a limiter: %v after %v, status %d", name, d.LogValue(), time.Since(began), d.Status())
		}
	}
	c := newClient(t, client.Config{URL: serveText(t, 200, "application/json", `{"allowed":true,"reason":"within limit","status":200}`).URL})
	if a, err := c.Check(ctx, ann, ann); err == nil {
		t.Errorf("one answer for two checks: %+v", a)
	}
}

// Clients that hang up must not make the service seem to be away.
func TestCallersThatGiveUpOpenNoBreaker(t *testing.T) {
	t.Parallel()
	c := newClient(t, client.Config{URL: serve(t).URL})
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for range 20 {
		_, _ = c.Reserve(gone, ann)
		_, _ = c.Peek(gone, ann)
		_ = c.Refund(gone, "x")
	}
	allows(t, c)
}

// Keys that JSON can't hold have a bucket each, as in the process: two of them must not become one, by which a client could
// use up another's.
func TestOddKeysByTheClient(t *testing.T) {
	t.Parallel()
	c := newClient(t, client.Config{URL: serve(t).URL, OnOutage: client.OnOutage{Action: core.Deny}})
	there := limiterOf(t, c, "key")
	here := must.Get(testPolicies.Limiter(core.Config{Store: core.NewMemory()}, "key"))(t)
	long := strings.Repeat("k", 1025)
	for _, key := range []string{
		"", "\xff", "\xfe", "\uFFFD", "user:\xff", "user:\xfe", long, long + "k", long[1:], "key#abc", "{a}", "a\x00b",
		string(keyfuncs.AppendKey(nil, long)), string(keyfuncs.AppendKey(nil, "\xff")), // as others of these are sent
	} {
		for _, cost := range []int64{4, 2, 1, 1, 6, math.MaxInt64} { // of 5
			want, got := here.AllowKey(t.Context(), key, cost), there.AllowKey(t.Context(), key, cost)
			if want.Allowed != got.Allowed || want.Reason != got.Reason || want.Results()[0].Remaining != got.Results()[0].Remaining {
				t.Errorf("%.20q, %d: %v, want %v", key, cost, got.LogValue(), want.LogValue())
			}
		}
	}
	if a, err := c.Check(t.Context(), client.Check{Policy: "key", Key: "\xff"}); err == nil {
		t.Errorf("a check about a key that can't be sent: %+v", a)
	}
}
