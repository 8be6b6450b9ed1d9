package clients

import (
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/fiberlimit"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// HTTP/2 sends the names of fields in lower case. Clients find Retry-After all the same.
func TestClientsComeBackOverHTTP2(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.StartTLS()
	trusting := inGo("go-retryablehttp", func(url string) {
		c := retryablehttp.NewClient()
		c.Logger, c.HTTPClient = nil, s.Client()
		if res, err := c.Get(url); err == nil {
			_ = res.Body.Close()
		}
	})
	for name, runner := range map[string]runner{"go-retryablehttp": trusting, "undici RetryAgent": inNode, "curl --retry": withCurl} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(s.URL, "retry-after", "Draft11", name, waits)
			runner.send(t, []run{r})
			r.check(t, s.seen(r.path))
			check.Equal(t, name+" came by HTTP/", s.places[r.path].protocol, 2)
		})
	}
}

// Fiber writes responses by fasthttp, which has rules of its own for names.
func TestClientsComeBackToFiber(t *testing.T) {
	t.Parallel()
	for name, runner := range map[string]runner{"go-retryablehttp": inGo("go-retryablehttp", retryable), "undici RetryAgent": inNode, "curl --retry": withCurl} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limiter := newLimiter(t, core.Draft11|core.XRateLimit, short)
			var mu sync.Mutex
			var seen []int
			app := fiber.New(fiber.Config{DisableStartupMessage: true})
			app.Use(func(c *fiber.Ctx) error {
				mu.Lock()
				first := len(seen) == 0
				mu.Unlock()
				if first {
					limiter.Allow(keyfuncs.Values{})
					time.Sleep(earlier)
				}
				err := c.Next()
				if first && c.Response().StatusCode() == http.StatusOK { // on a busy machine the window was over by then
					c.Response().Reset()
					return c.RestartRouting()
				}
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, c.Response().StatusCode())
				return err
			})
			app.Get("/", fiberlimit.New(limiter), func(c *fiber.Ctx) error { return c.SendStatus(http.StatusOK) })
			l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
			go func() { _ = app.Listener(l) }()
			defer func() { _ = app.ShutdownWithTimeout(time.Second) }()
			r := run{Client: name, URL: "http://" + l.Addr().String() + "/", path: "Fiber/" + name, expect: waits}
			runner.send(t, []run{r})
			mu.Lock()
			defer mu.Unlock()
			r.check(t, slices.Clone(seen))
		})
	}
}
