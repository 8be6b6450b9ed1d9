package fair

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/nethttp"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/service"
	"github.com/weblimit/weblimit/service/client"
)

const policies = `
policies:
  api:
    timeout: 1m
    limits:
      capacity: {limit: 400/second, by: everyone, on_outage: deny, fair: {by: {header: X-Client}}}
`

// startService starts what weblimitd serves, and returns its URL.
func startService(t *testing.T, o order) string {
	t.Helper()
	set := must.Get(policy.Parse("limits.yaml", []byte(policies), policy.Options{}))(t)
	s := must.Get(service.New(service.Config{Policies: set, Store: o.opened(t)}))(t)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return server.URL
}

func throughService(t *testing.T, o order) ask {
	remote := must.Get(client.New(client.Config{URL: o.Service, Send: client.Fields{Headers: []string{"X-Client"}}, OnOutage: client.OnOutage{Action: core.Deny}, Timeout: time.Minute}))(t)
	limits := nethttp.With(core.Config{Store: remote.Store()})
	handler := limits.Policy(remote, "api")(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	return func(name string) int {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Header.Set("X-Client", name)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
}
