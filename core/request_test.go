package core_test

import (
	"cmp"
	"context"
	"net/netip"

	"github.com/weblimit/weblimit/keyfuncs"
)

// request is a keyfuncs.Request made of its fields.
type request struct {
	ctx     context.Context // Background if nil
	method  string          // GET if ""
	path    string          // "/" if ""
	route   string          // "/" if "", and unknown if "?"
	peer    string
	headers map[string]string   // canonical names
	lines   map[string][]string // headers of several lines
	values  map[any]any
}

var _ keyfuncs.Request = (*request)(nil)

func (r *request) Context() context.Context {
	if r.ctx == nil {
		return context.Background()
	}
	return r.ctx
}

func (r *request) Method() string { return cmp.Or(r.method, "GET") }
func (r *request) Path() string   { return cmp.Or(r.path, "/") }

func (r *request) Route() (string, bool) {
	if r.route == "?" {
		return "", false
	}
	return cmp.Or(r.route, "/"), true
}

func (r *request) Header(name string, i int) (string, bool) {
	if value, ok := r.headers[name]; ok && i == 0 {
		return value, true
	}
	if lines := r.lines[name]; i < len(lines) {
		return lines[i], true
	}
	return "", false
}

func (r *request) Cookie(string, int) (string, bool) { return "", false }
func (r *request) Query(string, int) (string, bool)  { return "", false }

func (r *request) Peer() netip.Addr {
	if r.peer == "" {
		return netip.Addr{}
	}
	return netip.MustParseAddr(r.peer)
}

func (r *request) Value(key any) any {
	if value, ok := r.values[key]; ok {
		return value
	}
	return r.Context().Value(key)
}

// user is a request of an authenticated user.
func user(id any) *request { return &request{values: map[any]any{"userID": id}} }
