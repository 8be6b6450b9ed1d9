package gateway_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/service/gateway"
)

// onePolicy stands for a policy.Set, which a service loads from a file.
type onePolicy struct{ limit core.Limit }

func (p onePolicy) Limiter(config core.Config, name string) (*core.Limiter, error) {
	if name != "api" {
		return nil, core.ErrNoPolicy
	}
	config.Limits = []core.Limit{p.limit}
	return core.New(config)
}

func ExampleNew() {
	g, err := gateway.New(gateway.Config{
		Policies: onePolicy{core.PerHour(1).By(keyfuncs.ClientIP()).Named("client")},
		Names:    []string{"api"},
		Limiter:  core.Config{Store: core.NewMemory()},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		// What Caddy sends for a request of 192.0.2.7.
		subrequest := httptest.NewRequest(http.MethodGet, "http://weblimit/v1/auth/api", nil)
		subrequest.RemoteAddr = "127.0.0.1:4000"
		subrequest.Header.Set("X-Forwarded-For", "192.0.2.7")
		subrequest.Header.Set("X-Forwarded-Method", "POST")
		subrequest.Header.Set("X-Forwarded-Uri", "/things?page=2")
		answer := httptest.NewRecorder()
		g.ServeHTTP(answer, subrequest)
		fmt.Println(answer.Code, answer.Header().Get("RateLimit-Policy"), answer.Header().Get("Retry-After") != "")
	}
	// Output:
	// 200 "client";q=1;w=3600 false
	// 429 "client";q=1;w=3600 true
}
