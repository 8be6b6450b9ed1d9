package core

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weblimit/weblimit/internal/spelling"
	"github.com/weblimit/weblimit/keyfuncs"
)

// lookAtRoutes advises if a condition names a route that the router does not have. A limit for it would never
// apply, and nobody would notice before the attack.
func (a *advisor) lookAtRoutes(l *Limiter, r keyfuncs.Request) {
	in, ok := keyfuncs.As[keyfuncs.Router](r)
	if !ok {
		return
	}
	for i := range l.limits {
		name := l.limits[i].rule.Name
		conditions := l.limits[i].when
		if kept := l.limits[i].keepFree; kept != nil {
			conditions = append(slices.Clip(conditions), kept.upper)
		}
		a.adviseRoutes(name, "limit "+name, in, conditions)
	}
	a.adviseRoutes("", "Config.Bypass", in, l.bypass)
}

func (a *advisor) adviseRoutes(limit, whose string, in keyfuncs.Router, conditions []keyfuncs.Condition) {
	for _, c := range conditions {
		for _, written := range c.Routes() {
			method, template, ok := strings.Cut(written, " ")
			if !ok {
				method, template = "", written
			}
			if in.HasRoute(method, template) {
				continue
			}
			var routes []string
			in.EachRoute(func(route string) bool {
				if !ok {
					_, route, _ = strings.Cut(route, " ")
				}
				routes = append(routes, route)
				return len(routes) < mostRoutes
			})
			meant := ""
			if near := spelling.Nearest(written, routes); near != "" {
				meant = fmt.Sprintf("; did you mean %q?", near)
			}
			a.adviseLimit(adviceNoRoute, limit+" "+written, fmt.Sprintf("%s: the router has no route %q, so a condition on it never holds%s", whose, written, meant))
			return // one line, since the next is most often the same slip
		}
	}
}

// mostRoutes bounds the routes that are compared with one that is not there.
const mostRoutes = 10_000
