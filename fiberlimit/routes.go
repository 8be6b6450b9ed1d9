package fiberlimit

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gofiber/fiber/v2"
)

// routes finds the route that is going to match, for a middleware of Use or Group. Fiber matches one
// route after the other and announces none. routes keeps a table of each app that the
// middleware is in.
type routes struct {
	mu sync.RWMutex
	of map[*fiber.App]*table // Guarded by mu.

	// rewritten says that a request got a route although none was found for it: middleware
	// behind the limiter changes the path or the method.
	rewritten atomic.Bool
}

// learn looks at the route that answered a request for which no route was found.
func (r *routes) learn(c *fiber.Ctx) {
	if isAbandoned(c) {
		return // a handler that has timed out may still change it
	}
	t := r.table(c.App())
	switch e, ok := t.places[c.Route()]; {
	case ok && !e.prefix:
		r.rewritten.Store(true)
	case replacesRoutes && !ok && t.places != nil: // while the application serves
		r.forget(c.App())
	}
}

// forget drops the table of an app, so that the next request makes it anew.
func (r *routes) forget(app *fiber.App) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, app)
}

// table holds the routes of an app, and a second app without handlers that matches requests as the
// first one does.
type table struct {
	handlers uint32 // how many the app had: with more, the table is out of date
	match    *fiber.App
	routes   map[*fiber.Route]entry // of match
	places   map[*fiber.Route]entry // of the app, prefixes of Use and Group included

	templates map[string]bool
	prefixes  map[string]string // of Use and Group, by the templates by which conditions name them
}

// entry is a route's position among those of its method, and its template.
type entry struct {
	position int
	template string
	prefix   bool // of Use or Group
	empty    bool // a prefix below which there are no routes
}

// table returns the table of an app.
func (r *routes) table(app *fiber.App) *table {
	r.mu.RLock()
	t := r.of[app]
	r.mu.RUnlock()
	if t != nil && t.handlers == app.HandlersCount() {
		return t
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if t = r.of[app]; t != nil && t.handlers == app.HandlersCount() {
		return t // another request has made it
	}
	if r.of == nil {
		r.of = make(map[*fiber.App]*table)
	}
	t = newTable(app)
	r.of[app] = t
	return t
}

// newTable makes the second app from copies of the first one's routes, which hold everything that
// Fiber matches by. A last route, which matches every request, ends each search.
func newTable(app *fiber.App) *table {
	t := &table{
		handlers: app.HandlersCount(),
		match:    fiber.New(matching(app.Config())),
		routes:   make(map[*fiber.Route]entry),
		places:   make(map[*fiber.Route]entry),

		templates: make(map[string]bool),
		prefixes:  make(map[string]string),
	}
	t.match.Use(everything, stop) // for each method, and so that Handler makes the app ready anew
	stacks := t.match.Stack()
	all := routesOf(app)
	for method, stack := range app.Stack() {
		end := stacks[method]
		stacks[method] = make([]*fiber.Route, 0, len(stack)+1)
		for i, route := range stack {
			e := entry{position: i, template: route.Path, prefix: !all.has(route)}
			if e.prefix {
				e.empty = all.noneBelow(route.Path)
				if !strings.HasSuffix(e.template, "*") {
					// Not "/" alone, which is the template of another route.
					e.template = strings.TrimSuffix(e.template, "/") + "/*"
				}
			}
			t.places[route] = e
			if e.prefix {
				t.prefixes[e.template] = route.Path
				if route.Path != "/" { // which names one path
					t.prefixes[route.Path] = route.Path
				}
			} else {
				copied := *route
				copied.Handlers = []fiber.Handler{stop}
				t.routes[&copied] = e
				t.templates[e.template] = true
				stacks[method] = append(stacks[method], &copied)
			}
		}
		stacks[method] = append(stacks[method], end...)
	}
	t.match.Handler()
	for method, stack := range t.match.Stack() {
		if len(stack) != len(stacks[method]) {
			t.places = nil // Stack has returned a copy: nothing is known
		}
	}
	return t
}

// covers reports whether a handler of Use may answer a request that has no route, by
// a prefix that a condition names as if it were one.
func (t *table) covers(template string, c *fiber.Ctx) bool {
	prefix, ok := t.prefixes[template]
	if !ok || t.templates[template] {
		return false
	}
	if i := strings.IndexAny(prefix, ":*+"); i >= 0 {
		prefix = prefix[:i]
	}
	prefix, path := strings.TrimSuffix(prefix, "/"), c.Path()
	return len(path) >= len(prefix) && strings.EqualFold(path[:len(prefix)], prefix)
}

// stop is a handler that ends a search, by not calling c.Next.
func stop(*fiber.Ctx) error { return nil }

// at returns where a request has got to. It reports false if Fiber has not routed
// it, and if middleware has changed its method since: the methods' routes are in
// orders of their own.
func (t *table) at(c *fiber.Ctx) (entry, bool) {
	route := c.Route()
	e, ok := t.places[route]
	return e, ok && route.Method == c.Method()
}

// search goes through the routes behind a position that match a request, in their
// order.
type search struct {
	table  *table
	behind int
	at     *fiber.Ctx // of the second app
	begun  bool
}

// search begins one. The caller ends it.
func (t *table) search(c *fiber.Ctx, behind int) search {
	s := search{table: t, behind: behind, at: t.match.AcquireCtx(c.Context())}
	if method := c.Method(); method != s.at.Method() { // middleware has changed it
		s.at.Method(method)
	}
	return s
}

func (s *search) end() { s.table.match.ReleaseCtx(s.at) }

// next returns the template of the next route, and "" after the last.
func (s *search) next() string {
	for {
		var err error
		if s.begun {
			err = s.at.Next()
		} else {
			s.begun = true
			err = s.at.RestartRouting()
		}
		if err != nil { // nothing matches, and the route is still the one before
			return ""
		}
		e, ok := s.table.routes[s.at.Route()]
		if !ok || e.position > s.behind {
			return e.template
		}
	}
}

// registered are the routes of an app that are no prefixes of Use or Group.
type registered struct {
	routes []fiber.Route
	known  map[identity]bool
	empty  map[string]bool // prefixes, in lower case, by whether there is nothing below
}

// identity is the same for a route and for the copies that Fiber lists, which have its handlers.
type identity struct {
	method, path string
	handler      *fiber.Handler
}

func identify(r *fiber.Route) identity {
	id := identity{method: r.Method, path: r.Path}
	if len(r.Handlers) > 0 {
		id.handler = &r.Handlers[0]
	}
	return id
}

func routesOf(app *fiber.App) *registered {
	r := &registered{app.GetRoutes(true), make(map[identity]bool), make(map[string]bool)}
	for i := range r.routes {
		r.known[identify(&r.routes[i])] = true
	}
	return r
}

func (r *registered) has(route *fiber.Route) bool { return r.known[identify(route)] }

// noneBelow reports whether there are no routes below a prefix.
func (r *registered) noneBelow(prefix string) bool {
	if i := strings.IndexAny(prefix, "*+"); i >= 0 {
		prefix = prefix[:i]
	}
	prefix = strings.ToLower(strings.TrimSuffix(prefix, "/"))
	empty, known := r.empty[prefix]
	if !known {
		empty = !slices.ContainsFunc(r.routes, func(route fiber.Route) bool {
			return strings.HasPrefix(strings.ToLower(route.Path), prefix)
		})
		r.empty[prefix] = empty
	}
	return empty
}
