package service_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/service"
	"github.com/weblimit/weblimit/service/client"
	"github.com/weblimit/weblimit/usage"
)

// A client of a process that has the service decide is told what one in the process itself is, and nothing else. While the service is
// away nothing is guessed, whatever decides then.
func TestClientsAreToldTheSameByTheService(t *testing.T) {
	t.Parallel()
	memory := core.NewMemory()
	limits := []core.Limit{
		core.PerMonth(10, time.UTC).By(sameKey).Named("plan").Status(402), core.PerMonth(5, time.UTC).By(sameKey).Named("secret").Hidden(),
		core.PerMonth(3, time.UTC).By(sameKey).Named("trial").Shadow(),
		core.PerMonth(8, time.UTC).By(sameKey).Named("classes").Classes(core.Class{Name: "high", When: keyfuncs.Methods("POST"), Keep: 0.5}, core.Class{Name: "low"}),
	}
	server := httptest.NewServer(must.Get(service.New(service.Config{Policies: inCode{"api": limits}, Store: memory}))(t))
	defer server.Close()
	remote := must.Get(client.New(client.Config{URL: server.URL, Timeout: patience, Send: client.Fields{Headers: []string{"X-User"}}, OnOutage: client.OnOutage{Limits: []core.Limit{standIn}}}))(t)
	there := must.Get(remote.Limiter(core.Config{Store: remote.Store()}, "api"))(t)
	here := must.Get(core.New(core.Config{Store: memory, Limits: limits}))(t)
	tell := func(l *core.Limiter, user, method string) string {
		a := usage.New(usage.Config{Limiters: []*core.Limiter{l}}).Answer(keyfuncs.Values{"X-User": user, "method": method})
		return string(a.Body)
	}
	d := there.Allow(keyfuncs.Values{"X-User": "ann", "method": "GET"})
	check.All(t, "the class, by the service", []any{d.Allowed, d.Class("classes"), d.Class("plan")}, true, "low", "")
	for _, user := range []string{"ann", "bob"} {
		for _, method := range []string{"GET", "POST"} {
			told := tell(there, user, method)
			check.Equal(t, user+" "+method, told, tell(here, user, method))
			for _, never := range []string{"secret", "trial", "ann", "bob", "low", "high"} {
				if strings.Contains(told, never) {
					t.Errorf("%s is told %q:\n%s", user, never, told)
				}
			}
		}
	}
	server.Close()
	a := usage.New(usage.Config{Limiters: []*core.Limiter{there}}).Answer(keyfuncs.Values{"X-User": "ann", "method": "GET"})
	check.All(t, "while the service is away", []any{a.Status, strings.Contains(string(a.Body), "limits")}, 503, false)
}
