package keyfuncs_test

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
)

// request is a keyfuncs.Request made of its fields.
type request struct {
	method  string
	path    string
	route   string
	unknown bool // the route is
	peer    string
	headers http.Header // canonical names
	cookies map[string][]string
	query   url.Values
	params  map[string]string // of the path
	values  map[any]any
}

func (r *request) Context() context.Context { return context.Background() }
func (r *request) Method() string           { return r.method }
func (r *request) Path() string             { return r.path }
func (r *request) Route() (string, bool)    { return r.route, !r.unknown }

func (r *request) Header(name string, i int) (string, bool) {
	return at(r.headers[name], i)
}

func (r *request) Cookie(name string, i int) (string, bool) { return at(r.cookies[name], i) }
func (r *request) Query(name string, i int) (string, bool)  { return at(r.query[name], i) }

func (r *request) Param(name string) (string, bool) {
	value, ok := r.params[name]
	return value, ok
}

func at(values []string, i int) (string, bool) {
	if i >= len(values) {
		return "", false
	}
	return values[i], true
}

func (r *request) Peer() netip.Addr {
	addr, _ := netip.ParseAddr(r.peer)
	return addr
}

func (r *request) Value(key any) any { return r.values[key] }
