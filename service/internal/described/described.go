// Package described is a request that somebody else has received, as limits read it: a caller of the
// service has described it, or a gateway has passed it on.
package described

import (
	"context"
	"net/netip"

	"github.com/weblimit/weblimit/keyfuncs"
)

// Request implements [keyfuncs.Request] and [keyfuncs.Params] over a description. It must not change
// while a limiter decides. The zero value describes nothing: its route is not known.
type Request struct {
	Ctx        context.Context //nolint:containedctx // a Request has one
	MethodText string
	PathText   string
	RouteText  string
	RouteKnown bool
	PeerAddr   netip.Addr
	Headers    Fields // names are canonical
	Cookies    Fields
	QueryArgs  Fields
	Params     map[string]string
	Values     map[string]any // what keys, tiers and costs read by name: strings, int64 and bool
}

// Fields are names with their values in order. There are few, so that a search is faster than a map.
type Fields []Field

// Field is one value of a name. Several values have several fields.
type Field struct{ Name, Value string }

var (
	_ keyfuncs.Request = (*Request)(nil)
	_ keyfuncs.Params  = (*Request)(nil)
)

// At returns value i, from 0, of a name.
func (f Fields) At(name string, i int) (string, bool) {
	for k := range f {
		if f[k].Name != name {
			continue
		}
		if i == 0 {
			return f[k].Value, true
		}
		i--
	}
	return "", false
}

// Context implements [keyfuncs.Request].
func (r *Request) Context() context.Context {
	if r.Ctx == nil {
		return context.Background()
	}
	return r.Ctx
}

// Method implements [keyfuncs.Request].
func (r *Request) Method() string { return r.MethodText }

// Path implements [keyfuncs.Request].
func (r *Request) Path() string { return r.PathText }

// Route implements [keyfuncs.Request].
func (r *Request) Route() (template string, known bool) { return r.RouteText, r.RouteKnown }

// Header implements [keyfuncs.Request].
func (r *Request) Header(name string, i int) (string, bool) { return r.Headers.At(name, i) }

// Cookie implements [keyfuncs.Request].
func (r *Request) Cookie(name string, i int) (string, bool) { return r.Cookies.At(name, i) }

// Query implements [keyfuncs.Request].
func (r *Request) Query(name string, i int) (string, bool) { return r.QueryArgs.At(name, i) }

// Peer implements [keyfuncs.Request].
func (r *Request) Peer() netip.Addr { return r.PeerAddr }

// Value implements [keyfuncs.Request].
func (r *Request) Value(key any) any {
	if key == (keyfuncs.RequestKey{}) {
		return r
	}
	name, ok := key.(string)
	if !ok {
		return nil
	}
	return r.Values[name]
}

// Param implements [keyfuncs.Params].
func (r *Request) Param(name string) (string, bool) {
	value, ok := r.Params[name]
	return value, ok
}
