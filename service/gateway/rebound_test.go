package gateway_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/service/gateway"
)

// A web page whose name resolves to this machine can send all that a gateway sends, but for the host, and for a
// connection over TLS. It can't use up the limits of others.
func TestPagesThatRebindAreNotGateways(t *testing.T) {
	t.Parallel()
	loopback, network := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9180}, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 9180}
	for _, test := range []struct {
		name   string
		host   string
		local  net.Addr
		change func(r *http.Request)
		config func(*gateway.Config)
		want   int
	}{
		{"a page", "evil.example:9180", loopback, nil, nil, 500},
		{"a page, on a server that tells no address", "evil.example:9180", nil, nil, nil, 500},
		{"an address", "127.0.0.1:9180", loopback, nil, nil, 200},
		{"localhost", "localhost:9180", loopback, nil, nil, 200},
		{"the name that the configurations send", "weblimit", loopback, nil, nil, 200},
		{"HTTP/1.0", "", loopback, nil, nil, 200},
		{"over the network, where not all that ask are on this machine", "limits.example", network, nil, nil, 200},
		{"a unix socket", "example.com", &net.UnixAddr{Name: "/run/x", Net: "unix"}, nil, nil, 200},
		{"a token", "example.com", loopback, func(r *http.Request) { r.Header.Set("Weblimit-Token", "0123456789abcdef") }, func(c *gateway.Config) { c.Tokens = []string{"0123456789abcdef"} }, 200},
		{"a handler in front that knows the caller", "example.com", loopback, nil, func(c *gateway.Config) { c.Authenticated = true }, 200},
		{"TLS", "example.com", loopback, func(r *http.Request) { r.TLS = new(tls.ConnectionState) }, nil, 200},
	} {
		g := newGateway(t, perClient(5), func(c *gateway.Config) {
			c.Trusted = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
			if test.config != nil {
				test.config(c)
			}
		})
		r := subrequest("/v1/auth/api")
		r.Host = test.host
		if test.local != nil {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, test.local))
		}
		if test.change != nil {
			test.change(r)
		}
		answer := g.do(r)
		check.Equal(t, test.name, answer.Code, test.want)
		if refused := test.want == 500; strings.Contains(g.log.String(), "set Host to weblimit") != refused || strings.Contains(answer.Body.String(), "evil") {
			t.Errorf("%s: the log has %q, and the answer %s", test.name, g.log, answer.Body)
		}
	}
}
