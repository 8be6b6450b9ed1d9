package quota

import (
	"context"
	"net/netip"

	"github.com/weblimit/weblimit/keyfuncs"
)

// request is a request whose X-Tenant header is itself.
type request string

var _ keyfuncs.Request = request("")

func (request) Context() context.Context          { return context.Background() }
func (request) Method() string                    { return "GET" }
func (request) Path() string                      { return "/" }
func (request) Route() (string, bool)             { return "/", true }
func (request) Cookie(string, int) (string, bool) { return "", false }
func (request) Query(string, int) (string, bool)  { return "", false }
func (request) Peer() netip.Addr                  { return netip.Addr{} }
func (request) Value(any) any                     { return nil }

func (r request) Header(name string, i int) (string, bool) {
	return string(r), name == "X-Tenant" && i == 0
}
