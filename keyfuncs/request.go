package keyfuncs

import (
	"context"
	"net/netip"
)

// Request is what keys and conditions read of an HTTP request. Each adapter
// implements it over its framework's own request without allocating.
//
// Strings it returns may alias a buffer that is reused after the request, so
// they are copied by whoever keeps them.
type Request interface {
	// Context is the request's context.
	Context() context.Context
	// Method is the method as received, such as "GET".
	Method() string
	// Path is the URL's path as received. It is unbounded and has many
	// spellings, so nothing in this package makes a key of it.
	Path() string
	// Route is the template of the route that is going to answer, such as
	// "/users/:id", and "" when none is. It reports false where that is not known,
	// as in front of the router; template is then what covers all that may come,
	// such as "/api/*", or "". See Forks, too.
	Route() (template string, known bool)
	// Header is the i-th line, from 0, of the header with this canonical name
	// ("X-Api-Key"). It reports false when there are not so many lines. Only the
	// header block in front of the body counts, never a trailer behind it: a client's
	// trailer would stand behind the lines of a proxy that is trusted.
	Header(name string, i int) (value string, ok bool)
	// Cookie is the i-th value, from 0, of the cookies with this name. It reports
	// false when there are not so many. The first is the one that the framework
	// gives to an application, the others those that it could find.
	Cookie(name string, i int) (value string, ok bool)
	// Query is the i-th value, from 0, of the query parameter with this name, in the
	// same way.
	Query(name string, i int) (value string, ok bool)
	// Peer is the address of the TCP peer, and the zero Addr when there is
	// none, as on a unix socket. It never comes from a header.
	Peer() netip.Addr
	// Value is what earlier middleware stored under key, in the framework's own
	// locals or in the context; nil when nothing was.
	Value(key any) any
}

// Forks is implemented by a [Request] whose Route, though known, need not be the
// last word: a handler of Fiber may pass a request on to the next route that
// matches it, and a template may have a second spelling.
type Forks interface {
	// MayReach reports whether the route with this template may answer, too.
	MayReach(template string) bool
}
