package main

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/settings"
	"github.com/weblimit/weblimit/service/gateway"
)

// everywhere are all addresses: who may be a caller is known before a gateway is.
var everywhere = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// gatewayOptions are the settings of gateways.
type gatewayOptions struct {
	gatewayTrusted, gatewayProxies prefixes
}

func (o *gatewayOptions) add(g settings.Group) {
	g.Add("gateway-trusted", &o.gatewayTrusted, "", "networks of gateways, if not all callers are believed as such").Needs("policy").Needs("listen")
	g.Add("gateway-proxies", &o.gatewayProxies, "", "networks of proxies in front of a gateway that appends to X-Forwarded-For").Needs("policy").Needs("listen")
}

// prefixes are networks, with commas between them.
type prefixes []netip.Prefix

// Set implements settings.Value.
func (p *prefixes) Set(text string) error {
	*p = nil
	for part := range strings.SplitSeq(text, ",") {
		network, err := netip.ParsePrefix(strings.TrimSpace(part))
		if err != nil {
			return fmt.Errorf("%q is no network such as 10.0.0.0/8", part)
		}
		*p = append(*p, network)
	}
	return nil
}

// mountGateway answers the subrequests of gateways.
func mountGateway(p *parts) (*mount, error) {
	if p.policies == nil {
		return nil, nil
	}
	trusted := []netip.Prefix(p.options.gatewayTrusted)
	if len(trusted) == 0 {
		trusted = everywhere
	}
	g, err := gateway.New(gateway.Config{
		Policies: p.policies,
		Limiter:  core.Config{Store: p.store, Replicas: p.options.replicas.N, Observe: p.observe, Logger: p.logger},
		Trusted:  trusted,
		Proxies:  p.options.gatewayProxies,

		Authenticated: p.options.tokens != "" || p.options.tokensFile != "", // by the guard
	})
	if err != nil {
		return nil, err
	}
	return &mount{
		name: "gateway", gateway: true,
		http: map[string]http.Handler{"/v1/auth/": g, "/v1/auth_request/": g, "/v1/ext_authz/": g},
	}, nil
}
