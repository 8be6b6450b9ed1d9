package advice

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weblimit/weblimit/internal/spelling"
	"github.com/weblimit/weblimit/keyfuncs"
)

// mostRoutes bounds the routes that are compared with one that is not there.
const mostRoutes = 10_000

// lookNoRoute advises if a condition names a route that the router does not have. A limit for it would never
// apply, and nobody would notice before the attack.
func (a *Advisor) lookNoRoute(r keyfuncs.Request) {
	in, ok := keyfuncs.As[keyfuncs.Router](r)
	if !ok {
		return
	}
	for _, l := range a.limits {
		a.sayNoRoute(l.Name, "limit "+l.Name, in, append(slices.Clip(l.When), l.Upper))
	}
	a.sayNoRoute("", "Config.Bypass", in, a.bypass)
}

func (a *Advisor) sayNoRoute(limit, whose string, in keyfuncs.Router, conditions []keyfuncs.Condition) {
	for _, c := range conditions {
		for _, written := range c.Routes() {
			method, template, ok := strings.Cut(written, " ")
			if !ok {
				method, template = "", written
			}
			if in.HasRoute(method, template) {
				continue
			}
			meant := ""
			if near := spelling.Nearest(written, routesOf(in, ok)); near != "" {
				meant = fmt.Sprintf("; did you mean %q?", near)
			}
			a.sayOf(limit+" "+written, NoRoute, fmt.Sprintf("%s: the router has no route %q, so a condition on it never holds%s", whose, written, meant))
			return // one line, since the next is most often the same slip
		}
	}
}

// routesOf returns the routes of a router, with or without their methods.
func routesOf(in keyfuncs.Router, methods bool) (routes []string) {
	in.EachRoute(func(route string) bool {
		if !methods {
			_, route, _ = strings.Cut(route, " ")
		}
		routes = append(routes, route)
		return len(routes) < mostRoutes
	})
	return routes
}
