package keyfuncs

import (
	"context"
	"net/netip"
)

// Request is the part of an HTTP request that keys and conditions read. Each adapter
// implements it over the request of its framework, without allocating.
//
// The strings it returns may alias a buffer that is reused after the request. Copy what
// you keep.
type Request interface {
	// Context returns the request's context.
	Context() context.Context
	// Method returns the method as received, such as "GET".
	Method() string
	// Path returns the URL's path as received. One resource has endlessly many
	// spellings of it, so nothing in this package makes a key of it.
	Path() string
	// Route returns the template of the route that will answer, such as "/users/:id",
	// and "" if no route will. known is false where the route is not known yet, as in
	// front of the router. template is then a prefix that covers all routes that may
	// answer, such as "/api/*", or "". See also Forks.
	Route() (template string, known bool)
	// Header returns line i, from 0, of the header with this canonical name, such as
	// "X-Api-Key". It reports false if there is no such line. Only the header block in
	// front of the body counts, and never a trailer after it: a client's trailer would
	// follow the lines that a trusted proxy has appended.
	Header(name string, i int) (value string, ok bool)
	// Cookie returns value i, from 0, of the cookies with this name. It reports false if
	// there is no such value. The first is the one that the framework gives to the
	// application; the others are all further ones.
	Cookie(name string, i int) (value string, ok bool)
	// Query returns value i, from 0, of the query parameter with this name, like Cookie.
	Query(name string, i int) (value string, ok bool)
	// Peer returns the address of the TCP peer, and the zero Addr if there is none, as on
	// a unix socket. It never comes from a header.
	Peer() netip.Addr
	// Value returns what earlier middleware stored under key, in the framework's own
	// locals or in the context, or nil. See also RequestKey.
	Value(key any) any
}
