package keyfuncs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Routes holds for requests that match one of these routes. Each is a template as it
// was registered, after a method and a space, or alone for all methods: Routes("GET
// /healthz", "/users/:id"). "GET" includes HEAD, which the same handler answers.
//
// Templates are compared whole and byte by byte with [Request.Route], and never with
// the path. Write "/users/:id" for gin, echo and fiber, and "/users/{id}" for chi and
// net/http, with the host if the pattern has one. A request without a route matches
// none of them.
//
// Where the route is not known, as in front of the router, the answer is [Unknown] for
// requests with one of the methods, and the limiter logs advice. A limit with this
// condition then applies, and an exemption does not. The package of each adapter says
// where routes are known.
//
// Err reports no routes, a template that neither contains a slash nor is "*", and a
// method that is not in capitals.
//
// # Security
//
// Safe as an exemption: the router decides which template a request has.
// "/healthz/../login", "/healthz%2f..", "/login?/healthz" and X-Original-URL gain
// nothing. A template with a wildcard, such as "/static/*", exempts everything that it
// covers.
//
// Not safe in front of middleware that rewrites the path or the method: the route is
// then chosen again after the limiter has asked for it. Put such middleware in front of
// the limiter.
func Routes(routes ...string) Condition {
	if len(routes) == 0 {
		return Condition{err: errors.New("weblimit: keyfuncs.Routes: no routes")}
	}
	var set routeSet
	for _, written := range routes {
		method, template, ok := strings.Cut(written, " ")
		if !ok {
			method, template = "", written
		}
		switch {
		case !strings.Contains(template, "/") && template != "*", strings.TrimSpace(template) != template:
			return Condition{err: fmt.Errorf("weblimit: keyfuncs.Routes: %.80q is not a route, want one such as \"GET /healthz\"", written)}
		case ok && !isMethod(method):
			return Condition{err: fmt.Errorf("weblimit: keyfuncs.Routes: %.80q does not begin with a method in capitals", written)}
		}
		set.add(route{method, template})
	}
	return Condition{ask: set.ask, names: slices.Clone(routes)}
}

// routeSet holds the routes of a Routes condition.
type routeSet struct {
	routes  []route
	methods map[string][]string // by template
}

type route struct{ method, template string } // the method is "" for any

func (r route) takes(method string) bool { return r.method == "" || isMethodOf(r.method, method) }

func (s *routeSet) add(r route) {
	if s.methods == nil {
		s.methods = make(map[string][]string)
	}
	s.routes = append(s.routes, r)
	s.methods[r.template] = append(s.methods[r.template], r.method)
}

func (s *routeSet) ask(r Request) Answer {
	method := r.Method()
	if !s.takes(method) {
		return No // without asking for the route, which is slow in some frameworks
	}
	template, known := r.Route()
	if !known {
		return s.maybe(method, nil)
	}
	if allowed, ok := s.methods[template]; ok && (slices.Contains(allowed, "") || hasMethod(allowed, method)) {
		return Yes
	}
	if forks, ok := As[Forks](r); ok {
		return s.maybe(method, forks)
	}
	return No
}

// takes reports whether any route of the set has this method.
func (s *routeSet) takes(method string) bool {
	for _, route := range s.routes {
		if route.takes(method) {
			return true
		}
	}
	return false
}

// maybe returns Unknown if the set has a route with this method that the request may
// reach; if forks is nil it may reach any.
func (s *routeSet) maybe(method string, forks Forks) Answer {
	for _, route := range s.routes {
		if route.takes(method) && (forks == nil || forks.MayReach(route.template)) {
			return Unknown
		}
	}
	return No
}

// Methods holds for requests with one of these methods: Methods("POST", "PUT"). "GET"
// includes HEAD. Headers that claim another method, such as X-HTTP-Method-Override, are
// not read.
//
// Err reports no methods, and one that is not a method in capitals.
//
// # Security
//
// A client chooses its method. Exempt GET only if it changes nothing and costs little,
// and if no middleware lets a header or form field turn it into another method.
func Methods(methods ...string) Condition {
	if len(methods) == 0 {
		return Condition{err: errors.New("weblimit: keyfuncs.Methods: no methods")}
	}
	for _, method := range methods {
		if !isMethod(method) {
			return Condition{err: fmt.Errorf("weblimit: keyfuncs.Methods: %.40q is not a method", method)}
		}
	}
	methods = slices.Clone(methods)
	return Condition{ask: yesOrNo(func(r Request) bool { return hasMethod(methods, r.Method()) })}
}

// hasMethod reports whether method is in methods. HEAD is if GET is.
func hasMethod(methods []string, method string) bool {
	return slices.Contains(methods, method) || method == "HEAD" && slices.Contains(methods, "GET")
}

// isMethodOf is hasMethod for one method.
func isMethodOf(allowed, method string) bool {
	return allowed == method || method == "HEAD" && allowed == "GET"
}

// isMethod reports whether s is a method. Methods are case-sensitive, so one in lower
// case is most likely a slip.
func isMethod(s string) bool { return isToken(s) && s == strings.ToUpper(s) }
