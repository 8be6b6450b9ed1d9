package gateway

import (
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/browser"
	"github.com/weblimit/weblimit/internal/stdhttp"
	"github.com/weblimit/weblimit/keyfuncs"
)

// way is how a gateway asks.
type way uint8

const (
	forwardAuth way = iota
	authRequest     // nginx, which drops the body of a denial, and knows only 401 and 403
	extAuthz        // Envoy, which sends the original request with a prefix in front of its path
)

// The prefixes of the paths. They, and not headers or the query, choose the way: several gateways
// append the client's query.
const (
	forwardAuthPrefix = "/v1/auth/"
	authRequestPrefix = "/v1/auth_request/"
	extAuthzPrefix    = "/v1/ext_authz/"
)

// split splits the path of a subrequest. rest is the path of the original request if it is in there.
func split(path string) (w way, policy, rest string, ok bool) {
	for w, prefix := range [...]string{forwardAuthPrefix, authRequestPrefix, extAuthzPrefix} {
		policy, is := strings.CutPrefix(path, prefix)
		if !is {
			continue
		}
		slash := strings.IndexByte(policy, '/')
		if way(w) == extAuthz && slash > 0 {
			return extAuthz, policy[:slash], policy[slash:], true
		}
		return way(w), policy, "", way(w) != extAuthz && policy != "" && slash < 0
	}
	return 0, "", "", false
}

// pathOf returns the path of a subrequest as it was sent.
func pathOf(r *http.Request) string { return stdhttp.Of(r).Path() }

// stranger says why a subrequest is not from a gateway, or "".
func (g *Gateway) stranger(r *http.Request) string {
	if len(g.config.Tokens) > 0 && g.token.Ask(stdhttp.Of(r)) != keyfuncs.Yes {
		return "the subrequest does not have the token of a gateway"
	}
	if overUnixSocket(r) {
		return ""
	}
	peer := stdhttp.Of(r).Peer().Unmap().WithZone("")
	for _, p := range g.trusted {
		if p.Contains(peer) {
			return ""
		}
	}
	return "the subrequest comes from an address that is not trusted"
}

// rebound reports whether a subrequest may be one of a web page in a browser of this machine, whose name resolves to a
// loopback address. All else that such a request has, a gateway's subrequest can have from its client. Over TLS, the
// browser would ask for a certificate of that name.
func (g *Gateway) rebound(r *http.Request) bool {
	if g.config.Authenticated || len(g.config.Tokens) > 0 || r.TLS != nil || !browser.CanRebind(r.Host) {
		return false
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return stdhttp.Of(r).Peer().Unmap().IsLoopback()
	}
	tcp, ok := local.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

const reboundReason = "the subrequest has a host under which a web page could have sent it: set Host to weblimit in the gateway, as it sends the client's in X-Forwarded-Host, or ask over a unix socket or with a token"

// overUnixSocket reports whether the listener, and not a header or what middleware has made of
// RemoteAddr, says that a request has come over a unix socket.
func overUnixSocket(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(interface{ Network() string })
	return ok && local.Network() == "unix"
}

// Validate returns why gateways can't ask a policy of these limits, or nil:
//
//	set, err := policy.Load("limits.yaml", policy.Options{Validate: gateway.Validate})
func Validate(_ string, limits []core.Limit) error {
	for _, limit := range limits {
		rule, err := limit.Rule()
		if err != nil {
			return err
		}
		if rule.Algorithm == store.Concurrency {
			return fmt.Errorf("weblimit: limit %q: %s", rule.Name, noEnd)
		}
	}
	return nil
}

// noEnd is why.
const noEnd = "a gateway can't enforce a limit on concurrent requests: it does not tell when a request ends"

// holdsSlots returns the name of a limit that was asked for slots: they would be free again at once.
func holdsSlots(d *core.Decision) (limit string, found bool) {
	for _, r := range d.Results() {
		if r.Rule.Algorithm == store.Concurrency {
			return r.Rule.Name, true
		}
	}
	return "", false
}
