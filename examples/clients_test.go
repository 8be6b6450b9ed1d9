package examples_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

// The code of docs/use/headers.md: see readme_test.go.

// fetch asks again while it is limited, and waits as long as the server says.
func fetch(ctx context.Context, client *http.Client, url string) (*http.Response, error) {
	for tries := 1; ; tries++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		res, err := client.Do(req)
		if err != nil || res.StatusCode != http.StatusTooManyRequests && res.StatusCode != http.StatusServiceUnavailable {
			return res, err
		}
		seconds, err := strconv.Atoi(res.Header.Get("Retry-After"))
		if err != nil || seconds > 60 || tries == 5 {
			return res, nil // without Retry-After, waiting can't help
		}
		res.Body.Close()
		jitter := rand.N(time.Second) // it only adds: a request that is early is denied
		select {
		case <-time.After(time.Duration(seconds)*time.Second + jitter):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func docsExpose(e *echo.Echo) {
	e.Use(middleware.CORSWithConfig(middleware.CORSConfig{
		AllowOrigins:  []string{"https://app.example"},
		ExposeHeaders: core.ExposeHeaders(),
	}))
}

// transport answers requests of a client by a handler.
type transport struct{ http.Handler }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	t.ServeHTTP(w, r)
	return w.Result(), nil
}

// The loop comes back once, in time. It does not wait for minutes, or without Retry-After,
// and it ends with its context.
func TestDocsLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		serve := func(limit core.Limit) *http.Client {
			requests = 0
			limited := nethttp.Limit(core.NewMemory(), limit.By(keyfuncs.Everyone()))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			return &http.Client{Transport: transport{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests++
				limited.ServeHTTP(w, r)
			})}}
		}
		for name, try := range map[string]struct {
			limit            core.Limit
			status, requests int
		}{
			"ten seconds":     {core.PerMinute(6).Burst(1), http.StatusOK, 3},
			"an hour":         {core.PerHour(1), http.StatusTooManyRequests, 2},
			"waiting is vain": {core.PerHour(1).CostBy(func(keyfuncs.Request) int64 { return 2 }), http.StatusTooManyRequests, 2},
		} {
			client := serve(try.limit)
			var status int
			for range 2 {
				res, err := fetch(t.Context(), client, "http://example.com/")
				if err != nil {
					t.Fatal(err)
				}
				status = res.StatusCode
				res.Body.Close()
			}
			if status != try.status || requests != try.requests {
				t.Errorf("%s: the second answer is %d after %d requests, want %d after %d", name, status, requests, try.status, try.requests)
			}
		}

		client := serve(core.PerMinute(6).Burst(1))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		res, err := fetch(ctx, client, "http://example.com/")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if _, err := fetch(ctx, client, "http://example.com/"); !errors.Is(err, context.DeadlineExceeded) { //nolint:bodyclose // there is no response
			t.Errorf("got %v, want the end of the context", err)
		}
	})
}

// Pages of another origin may read every header of a 200 and of a 429.
func TestDocsExpose(t *testing.T) {
	t.Parallel()
	e := echo.New()
	docsExpose(e)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Origin", "https://app.example")
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	if got := w.Header().Get("Access-Control-Expose-Headers"); got == "" {
		t.Error("no header is exposed")
	}
}
