// Package gateway answers the subrequests by which gateways ask whether a request may pass: nginx's
// auth_request, forward_auth of Caddy, ForwardAuth of Traefik, scripts of HAProxy and Kong, forward-auth of APISIX,
// a plugin of Tyk, and Envoy's ext_authz over HTTP.
//
//	set, err := policy.Load("limits.yaml")
//	…
//	g, err := gateway.New(gateway.Config{Policies: set, Names: set.Names(), Limiter: core.Config{Store: store}})
//	…
//	http.Serve(listener, g)
//
// The path of a subrequest chooses the policy and the kind of gateway:
//
//	/v1/auth/{policy}            Caddy, Traefik, HAProxy, Kong, APISIX, Tyk: a denial has its own status
//	/v1/auth_request/{policy}    nginx: a denial is a 403 whose headers have the status and the body
//	/v1/ext_authz/{policy}/…     Envoy, Istio: method, path and host are those of the original request
//
// In the first two, these headers describe the request that the client has sent. The gateway sets each of
// them itself, on every subrequest, and so overwrites what the client has sent under that name:
//
//	X-Forwarded-For       the client's address; required, and all that Envoy needs
//	X-Forwarded-Method    the method; required
//	X-Forwarded-Uri       path and query as the client has sent them; required
//	X-Forwarded-Host      the host; only limits by host read it
//
// All other headers of the subrequest are the client's own. So a policy reads of the original request its
// method, path, host, query, headers, cookies and address. It knows no routes: use paths in the policy's
// conditions. There is no body, and the end of the request is not known.
//
// An allowed request is answered with 200, a denied one as middleware answers it. The configurations in
// deploy/gateways of the repository pass status, headers and body on to the client.
//
// # Security
//
// Whoever can send subrequests can make up clients, and use up or avoid the limits of anybody. So they
// are believed only over a unix socket or from an address in [Config.Trusted], and with one of
// [Config.Tokens] if there are any.
//
// Nothing is guessed. If a required header is missing, empty or on several lines, the gateway is not
// configured as it must be. Its client is then answered with 500, and the log names the header.
package gateway
