package service_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/nethttp"
	"github.com/weblimit/weblimit/service/client"
)

// An adapter that decides by the service answers its clients as one that decides by the file.
func TestAdaptersDecideByTheService(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(newService(t))
	defer server.Close()
	remote := must.Get(client.New(client.Config{URL: server.URL, Timeout: patience, OnOutage: client.OnOutage{Action: core.Deny}, Send: client.Fields{Headers: []string{"X-API-Key", "Authorization"}}}))(t)
	handlers := func(policies core.Policies, config core.Config) []http.Handler {
		config.Headers = core.Draft11 | core.XRateLimit
		gin.SetMode(gin.ReleaseMode)
		engine := gin.New()
		with := ginlimit.With(config)
		for _, name := range []string{"api", "keys"} {
			engine.GET("/"+name, with.Policy(policies, name), func(c *gin.Context) { c.String(http.StatusOK, "ok") })
		}
		mux := http.NewServeMux()
		limits := nethttp.With(config)
		ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
		for _, name := range []string{"api", "keys"} {
			mux.Handle("GET /"+name, limits.Policy(policies, name)(ok))
		}
		return []http.Handler{engine, mux}
	}
	here := handlers(load(t, file), core.Config{Store: core.NewMemory()})
	there := handlers(remote, core.Config{Store: remote.Store()})
	for k := range here {
		for i := range 14 {
			path, header := "/api", "X-Forwarded-For"
			if i%2 == 1 {
				path, header = "/keys", "X-Api-Key"
			}
			if i == 13 {
				header = "X-Other"
			}
			ask := func(to http.Handler) *httptest.ResponseRecorder {
				r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, nil)
				r.RemoteAddr = "10.0.0.1:1234"
				r.Header.Set(header, []string{"192.0.2.1", "192.0.2.2"}[k])
				w := httptest.NewRecorder()
				to.ServeHTTP(w, r)
				return w
			}
			want, got := ask(here[k]), ask(there[k])
			if want.Code != got.Code || want.Header().Get("RateLimit-Policy") != got.Header().Get("RateLimit-Policy") || want.Header().Get("WWW-Authenticate") != got.Header().Get("WWW-Authenticate") ||
				want.Header().Get("X-RateLimit-Remaining") != got.Header().Get("X-RateLimit-Remaining") {
				t.Errorf("%d, number %d: %d %v %s, want %d %v %s", k, i+1, got.Code, got.Header(), got.Body, want.Code, want.Header(), want.Body)
			}
		}
	}
}
