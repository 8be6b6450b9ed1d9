package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Behind a gateway clients divide a limit as they do elsewhere: the busy one is denied, and told that it is over its share.
func TestClientsBehindAGatewayDivideALimit(t *testing.T) {
	t.Parallel()
	policies := inCode{"api": {core.PerHour(100).By(keyfuncs.Everyone()).Named("capacity").Fair(core.Shares{By: keyfuncs.Header("X-Tenant")})}}
	for _, path := range []string{"/v1/auth/api", "/v1/ext_authz/api/things?page=2"} {
		g := newGateway(t, policies)
		of := func(tenant string) *http.Request { return subrequest(path, "X-Tenant", tenant) }
		g.wants(t, http.StatusOK, of("light"))
		if n := g.passed(100, func(int) *http.Request { return of("heavy") }); n < 60 || n > 80 {
			t.Errorf("%s: %d of 100 requests of the busy client pass", path, n)
		}
		denied := g.wants(t, http.StatusTooManyRequests, of("heavy"))
		if body := denied.Body.String(); !strings.Contains(body, "You have used your share") || denied.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %v %s", path, denied.Header(), body)
		}
		g.wants(t, http.StatusOK, of("light"))
	}
}
