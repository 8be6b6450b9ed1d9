package chilimit

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-chi/chi/v5"
)

// mounts caches which handlers are mounted where, since chi shows that only in the list of all
// routes of a router. It has one entry for each pattern that requests have matched.
type mounts struct {
	mu sync.RWMutex
	at map[place]mount // Guarded by mu.

	// rewritten says that a request got a route although none was found for it: middleware
	// behind the limiter changes the path or the method.
	rewritten atomic.Bool
}

// place is a pattern of a router.
type place struct {
	router  *chi.Mux
	pattern string
}

// mount is a handler that is mounted at a pattern.
type mount struct {
	// pattern is that of the mount, "/api/*", also if the place has the pattern of its root,
	// "/api" or "/api/", which chi mounts, too. It is "" if nothing is mounted.
	pattern string
	router  *chi.Mux // nil for a handler that is no router
}

// of returns the mount at a pattern of a router.
func (m *mounts) of(router *chi.Mux, pattern string) mount {
	here := place{router, pattern}
	m.mu.RLock()
	found, known := m.at[here]
	m.mu.RUnlock()
	if known {
		return found
	}
	found = find(router, pattern)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == nil {
		m.at = make(map[place]mount)
	}
	m.at[here] = found
	return found
}

// learn looks at the route that answered a request for which no route was found.
func (m *mounts) learn(at *chi.Context) {
	if at == nil || len(at.RoutePatterns) == 0 {
		return
	}
	router, _ := at.Routes.(*chi.Mux)
	for _, pattern := range at.RoutePatterns {
		if router == nil {
			break
		}
		router = m.of(router, pattern).router
	}
	if router == nil { // else it ended in a router, which has no route for it
		m.rewritten.Store(true)
	}
}

func find(router *chi.Mux, pattern string) mount {
	routes := router.Routes()
	for _, route := range routes {
		if route.Pattern == pattern {
			return asMount(route)
		}
	}
	// Chi lists no roots of mounts.
	root := strings.TrimSuffix(pattern, "/") + "/*"
	for _, route := range routes {
		if route.Pattern == root {
			return asMount(route)
		}
	}
	return mount{}
}

// asMount returns a route as a mount. A handler that takes all methods of all paths below its own
// path is a mount, no matter how it was registered.
func asMount(route chi.Route) mount {
	router, _ := route.SubRoutes.(*chi.Mux)
	if router == nil && (route.Handlers["*"] == nil || !strings.HasSuffix(route.Pattern, "/*")) {
		return mount{}
	}
	return mount{route.Pattern, router}
}
