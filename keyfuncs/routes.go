package keyfuncs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Routes holds for requests that matched one of these routes, each a template as
// it was registered, after a method and a blank or for all methods:
// Routes("GET /healthz", "/users/:id"). "GET" holds for HEAD too, which the
// same handler answers.
//
// Templates are compared whole and byte by byte with [Request.Route], and never
// with the path: write "/users/:id" for gin, echo and fiber, "/users/{id}" for
// chi and net/http, with the host where the pattern has one. A request that
// matched no route matches none here.
//
// Where the route is not known, as in front of the router, the answer is
// [Unknown] for requests with one of the methods, and the limiter logs advice: a
// limit with this condition applies, an exemption does not. The package of each
// adapter says where routes are known.
//
// Err reports no routes, a template that has no slash and is not "*", and a
// method that is not one in capitals.
//
// # Security
//
// Safe as an exemption: which template a request has is the router's answer, so
// "/healthz/../login", "/healthz%2f..", "/login?/healthz" and X-Original-URL
// gain nothing. A template with a wildcard, "/static/*", exempts what it covers.
//
// Middleware that rewrites the path or the method has to come before the limiter.
// Behind it, the route is chosen anew after the limiter has asked for it.
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
			return Condition{err: fmt.Errorf("weblimit: keyfuncs.Routes: %.80q begins with no method", written)}
		}
		set.add(route{method, template})
	}
	return Condition{ask: set.ask}
}

// routeSet is what a Routes condition names.
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
		return No // without asking for the route, which takes a while in some places
	}
	template, known := r.Route()
	if !known {
		return s.maybe(method, nil)
	}
	if allowed, ok := s.methods[template]; ok && (slices.Contains(allowed, "") || hasMethod(allowed, method)) {
		return Yes
	}
	if forks, ok := r.(Forks); ok {
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

// maybe is Unknown if the set has a route with this method that the request may
// reach: any route at all if forks is nil.
func (s *routeSet) maybe(method string, forks Forks) Answer {
	for _, route := range s.routes {
		if route.takes(method) && (forks == nil || forks.MayReach(route.template)) {
			return Unknown
		}
	}
	return No
}

// Methods holds for requests with one of these methods: Methods("POST", "PUT").
// "GET" holds for HEAD too. Headers that claim another method, such as
// X-HTTP-Method-Override, are not read.
//
// Err reports no methods, and one that is not a method in capitals.
//
// # Security
//
// A client chooses its method. Exempting GET is right where it changes and costs
// little, and where no middleware lets a header or form field turn it into
// another.
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

// hasMethod reports whether method is in methods, or is the HEAD of their GET.
func hasMethod(methods []string, method string) bool {
	return slices.Contains(methods, method) || method == "HEAD" && slices.Contains(methods, "GET")
}

// isMethodOf is hasMethod for one.
func isMethodOf(allowed, method string) bool {
	return allowed == method || method == "HEAD" && allowed == "GET"
}

// isMethod reports whether a request can have this method. Methods are
// case-sensitive and a lower-case one is a slip.
func isMethod(s string) bool { return isToken(s) && s == strings.ToUpper(s) }
