package fiberlimit

import (
	"net/http"
	"os"
	"testing"

	"github.com/weblimit/weblimit/internal/test/fibertest"
	"github.com/weblimit/weblimit/internal/test/limittest"
)

func TestMain(m *testing.M) { os.Exit(fibertest.Main(m, framework)) }

// TestFiber is what this adapter has in common with that of Fiber 3.
func TestFiber(t *testing.T) { fibertest.Run(t, framework) }

var (
	build       = fibertest.Build(framework)
	differences = limittest.Differences{RoutesInFront: true, RefusesMethods: http.StatusBadRequest, Fasthttp: true, OnlyHTTP1: true, Blind: true}
)

func TestSuite(t *testing.T)    { limittest.Run(t, "fiber", build, differences) }
func TestOutcomes(t *testing.T) { limittest.Outcomes(t, build, differences) }
func TestGuards(t *testing.T)   { limittest.RunGuards(t, "fiber", build, fibertest.Guards(framework)) }
func TestClosures(t *testing.T) { limittest.RunClosures(t, build, fibertest.Closures(framework)) }

func TestNewPanicsAtStartUp(t *testing.T) { exported.PanicsAtStartUp(t, framework.Name()) }

// Without a ProxyHeader Fiber takes the peer for the client.
func TestFramework(t *testing.T) { limittest.RunFramework(t, build, true) }

func TestFrameworkRisk(t *testing.T) {
	t.Parallel()
	type options = fibertest.Options[ctx]
	proxies := []string{"10.0.0.1"}
	for _, tt := range []struct {
		options options
		risky   bool
	}{
		{options{}, false}, // c.IP is the peer
		{options{ProxyHeader: "X-Forwarded-For"}, true},
		{options{ProxyHeader: "x-forwarded-for", Proxies: proxies, EnableIPValidation: true}, true},
		{options{ProxyHeader: "X-Real-IP"}, true},
		{options{ProxyHeader: "X-Real-IP", Proxies: proxies}, false},
	} {
		fibertest.Risk(t, framework, tt.options, tt.risky)
	}
}
