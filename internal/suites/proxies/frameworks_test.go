package proxies

import (
	"testing"

	"github.com/weblimit/weblimit/internal/suites/frameworks"
)

func TestForgedRequestsThroughProxies(t *testing.T) {
	t.Parallel()
	ForgedRequests(t, frameworks.All)
}

func TestClientsThatShareAProxysConnections(t *testing.T) {
	t.Parallel()
	SharedConnections(t, frameworks.All)
}

func TestForgedRequestsBehindTheProxyProtocol(t *testing.T) {
	t.Parallel()
	ProxyProtocol(t, frameworks.All)
}

func TestSmuggledRequestsThroughProxies(t *testing.T) {
	t.Parallel()
	SmuggledRequests(t, frameworks.All)
}

func TestProxiesThatNameNoClient(t *testing.T) {
	t.Parallel()
	NoClient(t, frameworks.All)
}
