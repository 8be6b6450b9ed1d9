package fiberlimit

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/utils"

	"github.com/weblimit/weblimit/keyfuncs"
)

// request is a keyfuncs.Request. Its strings are Fiber's buffers, which the next
// request on the connection overwrites; who keeps one copies it, as keys do.
type request struct {
	c         *fiber.Ctx
	templates *templates
}

var _ keyfuncs.Request = (*request)(nil)

// requests are reused: they are wider than a pointer, so each would be an allocation.
var requests = sync.Pool{New: func() any { return new(request) }}

// Context returns the user context: what c.Context returns is reused too.
func (r *request) Context() context.Context { return r.c.UserContext() }

// Method returns the method that Fiber routes by.
func (r *request) Method() string { return r.c.Method() }

// Path returns the path before Fiber unescapes it or folds its case.
func (r *request) Path() string {
	return utils.UnsafeString(r.c.Context().URI().PathOriginal())
}

// Route returns the template of the route, or what a prefix covers.
func (r *request) Route() string { return r.templates.of(r.c) }

// Header returns the i-th line of a header. The host may be in the request's
// first line too, which wins (RFC 9112, section 3.2.2).
func (r *request) Header(name string, i int) (string, bool) {
	if name == fiber.HeaderHost {
		host := r.c.Context().URI().Host()
		return utils.UnsafeString(host), i == 0 && len(host) > 0
	}
	lines := r.c.Request().Header.PeekAll(name)
	if i < 0 || i >= len(lines) {
		return "", false
	}
	return utils.UnsafeString(lines[i]), true
}

// Cookie returns the value that c.Cookies would.
func (r *request) Cookie(name string) (string, bool) {
	value := r.c.Request().Header.Cookie(name)
	return utils.UnsafeString(value), value != nil
}

// Query returns the value that c.Query would.
func (r *request) Query(name string) (string, bool) {
	value := r.c.Context().QueryArgs().Peek(name)
	return utils.UnsafeString(value), value != nil
}

// Peer returns the address of the connection's other end.
func (r *request) Peer() netip.Addr {
	var ip netip.Addr
	switch addr := r.c.Context().RemoteAddr().(type) {
	case *net.TCPAddr:
		ip = addr.AddrPort().Addr()
	case *net.UnixAddr:
	default: // a listener that wraps others, such as one for the PROXY protocol
		ap, _ := netip.ParseAddrPort(addr.String()) // the zero Addr on error
		ip = ap.Addr()
	}
	if ip.IsUnspecified() { // what fasthttp says of a connection without a peer
		return netip.Addr{}
	}
	return ip.Unmap()
}

// Value looks into the locals first.
func (r *request) Value(key any) any {
	if value := r.c.Locals(key); value != nil {
		return value
	}
	return r.c.UserContext().Value(key)
}

// FrameworkIP returns what Fiber takes for the client's address, for
// keyfuncs.Framework: nothing for a connection without a peer, of which fasthttp
// says 0.0.0.0.
func (r *request) FrameworkIP() string {
	ip := r.c.IP()
	if addr, err := netip.ParseAddr(ip); err == nil && addr.IsUnspecified() {
		return ""
	}
	return ip
}

// FrameworkRisk tells whether that can be forged. Of X-Forwarded-For Fiber takes
// the left end, which is the client's, even from proxies that it trusts.
func (r *request) FrameworkRisk() string {
	config := r.c.App().Config()
	switch {
	case config.ProxyHeader == "":
		return ""
	case http.CanonicalHeaderKey(config.ProxyHeader) == fiber.HeaderXForwardedFor:
		return "Fiber believes what clients write into X-Forwarded-For, so ClientIP(Framework()) can be forged; name the proxies in ClientIP"
	case !config.EnableTrustedProxyCheck:
		return "Fiber believes " + config.ProxyHeader + " from every peer, so ClientIP(Framework()) can be forged; set EnableTrustedProxyCheck, or name the proxies in ClientIP"
	}
	return ""
}
