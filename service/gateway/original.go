package gateway

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/stdhttp"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/service/internal/described"
)

// The headers that gateways set, in canonical form.
const (
	headerFor    = "X-Forwarded-For"
	headerMethod = "X-Forwarded-Method"
	headerURI    = "X-Forwarded-Uri"
	headerHost   = "X-Forwarded-Host"

	// TokenHeader is the header in which a gateway sends one of Config.Tokens.
	TokenHeader = "Weblimit-Token"
)

// hidden are headers that a policy does not see. Those for addresses would let a client choose its
// address if the policy believes proxies that the client's own address is among: the gateway knows
// the client, and its address is the peer. The others are not the client's.
var hidden = map[string]bool{
	headerMethod: true, headerURI: true, headerHost: true, TokenHeader: true,
	"Cf-Connecting-Ip": true, "Cf-Connecting-Ipv6": true, "Client-Ip": true, "Cloudfront-Viewer-Address": true,
	"Do-Connecting-Ip": true, "Fastly-Client-Ip": true, "Fly-Client-Ip": true, "Forwarded": true, "Forwarded-For": true,
	"True-Client-Ip": true, "X-Appengine-User-Ip": true, "X-Azure-Clientip": true, "X-Client-Ip": true,
	"X-Cluster-Client-Ip": true, "X-Envoy-External-Address": true, "X-Forwarded": true, "X-Nf-Client-Connection-Ip": true,
	"X-Original-Forwarded-For": true, "X-Vercel-Forwarded-For": true,
}

// original is the request that a subrequest is about, as keys and conditions read it, and its decision:
// one allocation. The response's headers point into the decision, so it can't be used again.
type original struct {
	sub    *http.Request // its headers and cookies are the client's, but for those that the gateway sets
	method string
	path   string // as the client has sent it
	host   string
	client netip.Addr
	text   string // of client, once it was asked for

	query struct { // a request that has nothing but the query
		http.Request
		url url.URL
	}
	ctx  adapter.Context
	room [4]core.LimitResult
}

var _ keyfuncs.Request = (*original)(nil)

// read reads what a subrequest describes. Otherwise it returns the reason, and the header that it is
// about.
func (o *original) read(g *Gateway, r *http.Request, w way, target string) (reason, header string) {
	o.sub = r
	query := r.URL.RawQuery
	switch w {
	case extAuthz: // Envoy's subrequest is the original one, so headers that name it would be the client's
		o.method, o.path, o.host = r.Method, target, r.Host
	default:
		if reason := only(r, headerMethod, &o.method); reason != "" {
			return reason, headerMethod
		}
		if !described.IsToken(o.method) {
			return "a header of the subrequest has no method", headerMethod
		}
		var uri string
		if reason := only(r, headerURI, &uri); reason != "" {
			return reason, headerURI
		}
		o.path, query = cutTarget(uri)
		switch lines := r.Header[headerHost]; len(lines) {
		case 0: // only limits by host need it
		case 1:
			o.host = lines[0]
		default:
			return severalLines, headerHost
		}
	}
	o.query.url.RawQuery = query
	o.query.URL = &o.query.url
	var ok bool
	if o.client, reason, ok = g.client.read(r); !ok {
		return reason, headerFor
	}
	return "", ""
}

// Reasons for which a header can't be believed.
const (
	noLine       = "the subrequest lacks a header that the gateway must set"
	severalLines = "the subrequest has several lines of a header that the gateway must set once: the client may have written one of them"
)

// only reads a header that must have one line, which is not empty.
func only(r *http.Request, name string, value *string) (reason string) {
	switch lines := r.Header[name]; {
	case len(lines) > 1:
		return severalLines
	case len(lines) == 0 || lines[0] == "":
		return noLine
	default:
		*value = lines[0]
		return ""
	}
}

// cutTarget returns path and query of a request's target, which may be a whole URL.
func cutTarget(target string) (path, query string) {
	path, query, _ = strings.Cut(target, "?")
	if strings.HasPrefix(path, "/") {
		return path, query
	}
	if scheme, rest, is := strings.Cut(path, "://"); is && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")) {
		if slash := strings.IndexByte(rest, '/'); slash >= 0 {
			return rest[slash:], query
		}
		return "/", query
	}
	return path, query // such as "*"; a condition on paths does not take it for a plain one
}

func (o *original) Context() context.Context { return o.ctx.Context }
func (o *original) Method() string           { return o.method }
func (o *original) Path() string             { return o.path }
func (o *original) Peer() netip.Addr         { return o.client }

// Value implements [keyfuncs.Request].
func (o *original) Value(key any) any {
	if key == (keyfuncs.RequestKey{}) {
		return o
	}
	return o.ctx.Context.Value(key)
}

// Route returns no route: it is known only behind the gateway.
func (o *original) Route() (template string, known bool) { return "", false }

// RouteRemedy is the end of a limiter's advice where a condition can't be answered: nothing if that may be
// the client's doing, since a condition on paths can't be answered for an odd spelling.
func (o *original) RouteRemedy() string {
	if strings.ContainsAny(o.path, `%;\#`) || o.path != path.Clean(o.path) || o.path != strings.ToLower(o.path) {
		return ""
	}
	return "a gateway knows no routes: use paths in the policy's conditions"
}

func (o *original) Header(name string, i int) (string, bool) {
	switch {
	case name == "Host":
		return o.host, i == 0 && o.host != ""
	case name == headerFor || name == "X-Real-Ip":
		// What a service behind the gateway would find if the gateway has set them. So a policy that
		// believes proxies finds the client, too.
		return o.address(), i == 0
	case hidden[name]:
		return "", false
	}
	return stdhttp.Of(o.sub).Header(name, i)
}

// address returns the client's address as text.
func (o *original) address() string {
	if o.text == "" {
		o.text = o.client.String()
	}
	return o.text
}

func (o *original) Cookie(name string, i int) (string, bool) {
	return stdhttp.Of(o.sub).Cookie(name, i)
}

func (o *original) Query(name string, i int) (string, bool) {
	return stdhttp.Of(&o.query.Request).Query(name, i)
}
