package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/weblimit/weblimit/internal/stdhttp"
	"github.com/weblimit/weblimit/keyfuncs"
)

// clientReader reads the client's address from X-Forwarded-For.
type clientReader struct {
	strategy keyfuncs.Strategy
	proxy    netip.Addr // stands for the gateway, if there are proxies in front of it
}

func newClientReader(proxies []netip.Prefix) (clientReader, error) {
	if len(proxies) == 0 {
		return clientReader{strategy: keyfuncs.HopCount(1)}, nil
	}
	cidrs := make([]string, len(proxies))
	for i, p := range proxies {
		if !p.IsValid() {
			return clientReader{}, errors.New("weblimit: gateway: Config.Proxies has a prefix that is not valid")
		}
		cidrs[i] = p.String()
	}
	strategy := keyfuncs.TrustedProxies(cidrs...)
	if err := strategy.Err(); err != nil {
		return clientReader{}, fmt.Errorf("weblimit: gateway: Config.Proxies: %w", err)
	}
	return clientReader{strategy, proxies[0].Addr()}, nil // any of their addresses is skipped as the gateway's must be
}

// read returns the address of the client, or why there is none.
func (c *clientReader) read(r *http.Request) (client netip.Addr, reason string, ok bool) {
	lines := r.Header[headerFor]
	switch several := len(lines) > 1; {
	case len(lines) == 0:
		return client, noLine, false
	case c.proxy.IsValid(): // each proxy may have added a line; they are read from the last one on
	case several:
		return client, severalLines, false
	case strings.Contains(lines[0], ","):
		return client, "a header of the subrequest has several addresses, of which the client may have written some: the gateway must replace it, or Config.Proxies must say which proxies are in front of the gateway", false
	}
	client, ok = c.strategy.Addr(chained{stdhttp.Of(r), c.proxy})
	if !ok {
		return client, "a header of the subrequest does not have the address of a client", false
	}
	return client, "", true
}

// chained is a subrequest as if the gateway were one of the proxies.
type chained struct {
	stdhttp.Request
	proxy netip.Addr
}

func (c chained) Peer() netip.Addr { return c.proxy }
