package majors

import (
	"testing"

	"github.com/weblimit/weblimit/internal/suites/proxies"
)

func TestForgedRequestsThroughProxies(t *testing.T) {
	t.Parallel()
	proxies.ForgedRequests(t, newer)
}

func TestClientsThatShareAProxysConnections(t *testing.T) {
	t.Parallel()
	proxies.SharedConnections(t, newer)
}

func TestForgedRequestsBehindTheProxyProtocol(t *testing.T) {
	t.Parallel()
	proxies.ProxyProtocol(t, newer)
}

func TestSmuggledRequestsThroughProxies(t *testing.T) {
	t.Parallel()
	proxies.SmuggledRequests(t, newer)
}

func TestProxiesThatNameNoClient(t *testing.T) {
	t.Parallel()
	proxies.NoClient(t, newer)
}
