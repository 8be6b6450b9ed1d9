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
// Err reports no routes, a template that has no slash and is not "*", and a
// method that is not one in capitals.
//
// # Security
//
// Safe as an exemption: which template a request has is the router's answer, so
// "/healthz/../login", "/healthz%2f..", "/login?/healthz" and X-Original-URL
// gain nothing. A template with a wildcard, "/static/*", exempts what it covers.
//
// Of no use where the limit sits so far out that there is only a prefix to see,
// as with fiber's app.Use and groups, whose template is "/*" or "/api/*". Put the
// limit on the route there.
func Routes(routes ...string) Condition {
	if len(routes) == 0 {
		return Condition{err: errors.New("weblimit: keyfuncs.Routes: no routes")}
	}
	methods := make(map[string][]string, len(routes)) // by template; "" is any method
	for _, route := range routes {
		method, template, ok := strings.Cut(route, " ")
		if !ok {
			method, template = "", route
		}
		switch {
		case !strings.Contains(template, "/") && template != "*", strings.TrimSpace(template) != template:
			return Condition{err: fmt.Errorf("weblimit: keyfuncs.Routes: %.80q is not a route, want one such as \"GET /healthz\"", route)}
		case ok && !isMethod(method):
			return Condition{err: fmt.Errorf("weblimit: keyfuncs.Routes: %.80q begins with no method", route)}
		}
		methods[template] = append(methods[template], method)
	}
	return Condition{match: func(r Request) bool {
		allowed, ok := methods[r.Route()]
		return ok && (slices.Contains(allowed, "") || hasMethod(allowed, r.Method()))
	}}
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
	return Condition{match: func(r Request) bool { return hasMethod(methods, r.Method()) }}
}

// hasMethod reports whether method is in methods, or is the HEAD of their GET.
func hasMethod(methods []string, method string) bool {
	return slices.Contains(methods, method) || method == "HEAD" && slices.Contains(methods, "GET")
}

// isMethod reports whether a request can have this method. Methods are
// case-sensitive and a lower-case one is a slip.
func isMethod(s string) bool { return isToken(s) && s == strings.ToUpper(s) }
