package main

import (
	"net/http"
	"net/netip"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/service/gateway"
)

// everywhere are all addresses: who may be a caller is known before a gateway is.
var everywhere = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

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
