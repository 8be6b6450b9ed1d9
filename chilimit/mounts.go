package chilimit

import (
	"strings"
	"sync"

	"github.com/go-chi/chi/v5"
)

// mounts remembers which router is mounted where: chi tells it by listing all of
// its routes. There are as many entries as places that the middleware serves.
type mounts struct {
	mu sync.RWMutex
	at map[place]chi.Routes // Guarded by mu. Nil for a route that ends in *.
}

// place is where a request has got to: the patterns joined, each but the last a mount.
type place struct {
	root     *chi.Mux
	patterns string
}

// router returns the router that is mounted at the last of a request's patterns,
// and nil if they end in no router.
func (m *mounts) router(at *chi.Context) chi.Routes {
	root, ok := at.Routes.(*chi.Mux)
	if !ok {
		return nil
	}
	here := place{root, strings.Join(at.RoutePatterns, "")}
	m.mu.RLock()
	router, known := m.at[here]
	m.mu.RUnlock()
	if known {
		return router
	}
	router = root
	for _, pattern := range at.RoutePatterns {
		if router = mounted(router, pattern); router == nil {
			break
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == nil {
		m.at = make(map[place]chi.Routes)
	}
	m.at[here] = router
	return router
}

// mounted returns the router that is mounted at a pattern of router, if there is one.
func mounted(router chi.Routes, pattern string) chi.Routes {
	for _, route := range router.Routes() {
		// At "/api" chi mounts "/api/" as well, and calls it "/api/*" in its list.
		if route.SubRoutes != nil && (route.Pattern == pattern || strings.TrimSuffix(route.Pattern, "/*") == strings.TrimSuffix(pattern, "/")) {
			return route.SubRoutes
		}
	}
	return nil
}
