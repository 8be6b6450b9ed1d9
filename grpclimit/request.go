package grpclimit

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/netip"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/weblimit/weblimit/keyfuncs"
)

// request is a keyfuncs.Request over a call. It is part of the call's exchange.
type request struct {
	ctx        context.Context
	call       Call
	registered bool // the server knows the method

	name   string   // of the header that was read last, "" for none
	values []string // of that header
}

var _ keyfuncs.Request = (*request)(nil)

// Context returns the call's context.
func (r *request) Context() context.Context { return r.ctx }

// Method returns the method of all calls on HTTP/2.
func (r *request) Method() string { return http.MethodPost }

// Path returns the full method.
func (r *request) Path() string { return r.call.Method }

// Route returns the full method, and no route for a method that clients may have made up: a
// server with a handler for unknown services calls interceptors for those, too.
func (r *request) Route() (template string, known bool) {
	if !r.registered {
		return "", true
	}
	return r.call.Method, true
}

// Header returns the i-th value of a metadata key. Values of keys that end in "-bin" are any
// bytes: they are returned in base64, which has no blanks that keys would trim.
func (r *request) Header(name string, i int) (string, bool) {
	if name != r.name {
		r.name, r.values = name, metadata.ValueFromIncomingContext(r.ctx, metadataKey(name))
	}
	if i < 0 || i >= len(r.values) {
		return "", false
	}
	if strings.HasSuffix(name, "-Bin") {
		return base64.RawStdEncoding.EncodeToString([]byte(r.values[i])), true
	}
	return r.values[i], true
}

// metadataKey returns the metadata key of a header's canonical name.
func metadataKey(name string) string {
	if name == "Host" {
		return ":authority"
	}
	return strings.ToLower(name)
}

// Cookie returns the cookies that net/http would find in the metadata. Browsers send them by
// gRPC-Web.
func (r *request) Cookie(name string, i int) (string, bool) {
	lines := metadata.ValueFromIncomingContext(r.ctx, "cookie")
	if len(lines) == 0 || i < 0 {
		return "", false
	}
	cookies := (&http.Request{Header: http.Header{"Cookie": lines}}).CookiesNamed(name)
	if i >= len(cookies) {
		return "", false
	}
	return cookies[i].Value, true
}

// Query reports no values: a call has no query.
func (r *request) Query(string, int) (string, bool) { return "", false }

// Peer returns the address of the TCP peer. Names of other networks may look like addresses: a
// client chooses the name of its unix socket.
func (r *request) Peer() netip.Addr {
	p, ok := peer.FromContext(r.ctx)
	if !ok || p.Addr == nil {
		return netip.Addr{}
	}
	if tcp, ok := p.Addr.(interface{ AddrPort() netip.AddrPort }); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	if !strings.HasPrefix(p.Addr.Network(), "tcp") {
		return netip.Addr{}
	}
	from, _ := netip.ParseAddrPort(p.Addr.String()) // under net/http it is a string
	return from.Addr().Unmap()
}

// Value returns what the call's context holds.
func (r *request) Value(key any) any {
	if key == (keyfuncs.RequestKey{}) {
		return r
	}
	return r.ctx.Value(key)
}
