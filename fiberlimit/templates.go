package fiberlimit

import (
	"slices"
	"strings"
	"sync"

	"github.com/gofiber/fiber/v2"
)

// templates remembers the templates of the routes that the middleware is on:
// Fiber tells a route from a prefix by listing all routes. There are as many
// entries as places that the middleware serves.
type templates struct {
	mu sync.RWMutex
	at map[*fiber.Route]string // Guarded by mu.
}

// of returns the template of the route that Fiber is at.
func (t *templates) of(c *fiber.Ctx) string {
	route := c.Route()
	if len(route.Handlers) == 0 {
		return "" // made up by Fiber for a request that it has not routed
	}
	t.mu.RLock()
	template, known := t.at[route]
	t.mu.RUnlock()
	if known {
		return template
	}
	template = route.Path
	if !isRoute(c.App(), route) && !strings.HasSuffix(template, "*") {
		// Not "/" alone, which is the template of another route.
		template = strings.TrimSuffix(template, "/") + "/*"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at == nil {
		t.at = make(map[*fiber.Route]string)
	}
	t.at[route] = template
	return template
}

// isRoute reports whether what Fiber calls a route is one, rather than a prefix
// of Use or Group. Fiber lists copies, with the same handlers.
func isRoute(app *fiber.App, route *fiber.Route) bool {
	return slices.ContainsFunc(app.GetRoutes(true), func(r fiber.Route) bool {
		return r.Path == route.Path && r.Method == route.Method && len(r.Handlers) > 0 && &r.Handlers[0] == &route.Handlers[0]
	})
}
