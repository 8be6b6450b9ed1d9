package limittest

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// logged is a log that may be read while it is written.
type logged struct {
	mu  sync.Mutex
	out bytes.Buffer // Guarded by mu.
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

// lines returns the lines that have an advice code.
func (l *logged) lines(code core.Advice) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.out.String()) {
		if strings.Contains(line, "code="+string(code)) {
			lines = append(lines, line)
		}
	}
	return lines
}

// advised checks that a limiter that cannot know routes gave advice on them once, with
// name, and that a limiter that knows them gave none.
func (e *env) advised(log *logged, known bool, name string) {
	e.Helper()
	switch lines := log.lines("WL008"); {
	case known && len(lines) > 0:
		e.Errorf("advice where the route is known: %q", lines)
	case !known && (len(lines) != 1 || !strings.Contains(lines[0], name)):
		e.Errorf("advice: %q, want one line with %q", lines, name)
	}
}

// inPlaces runs f for each place of a limiter that is not on a route. The app has the
// routes of counted.
func (e *env) inPlaces(f func(s *site, c *counted, known bool), config core.Config) {
	e.Helper()
	for _, front := range []bool{false, true} {
		log := new(logged)
		config.Logger = slog.New(slog.NewTextHandler(log, nil))
		config.Store = e.newStore(e)
		app, known := App{Layers: e.configured(config)}, true
		if front {
			app, known = App{Front: app.Layers}, e.differs.RoutesInFront
		}
		c := new(counted)
		app.Routes = c.routes()
		f(e.serve(app), c, known)
		name := "Config.Bypass"
		if len(config.Bypass) == 0 {
			name = "limit default"
		}
		e.advised(log, known, name)
	}
}

// counted counts how often each of its routes is handled.
type counted struct {
	logins, reads, healths atomic.Int64
}

func (c *counted) routes() []Route {
	count := func(n *atomic.Int64) func(Call) {
		return func(c Call) {
			n.Add(1)
			c.Reply(http.StatusOK, "")
		}
	}
	return []Route{
		{Method: "POST", Path: "/login", Handle: count(&c.logins)},
		{Method: "GET", Path: "/login", Handle: count(&c.reads)},
		{Method: "GET", Path: "/items/{id}", Handle: count(&c.reads)},
		{Method: "POST", Path: "/items/{id}", Handle: count(&c.reads)},
		{Method: "GET", Path: "/healthz", Handle: count(&c.healths)},
	}
}

// onRoutes numbers limits: advice on routes is logged once per process for a limit of one name.
var onRoutes atomic.Int64

var routes = []scenario{
	{"HEAD counts as the GET of its route", func(e *env) {
		limit := core.PerHour(4).By(keyfuncs.Join(keyfuncs.Method(), keyfuncs.Route())).Named("route")
		empty := func(c Call) { c.Reply(http.StatusOK, "") }
		s := e.serve(App{Layers: e.layer(limit), Routes: []Route{
			{Method: "GET", Path: "/items/{id}", Handle: hello},
			{Method: "HEAD", Path: "/items/{id}", Handle: empty},
			{Method: "POST", Path: "/items/{id}", Handle: empty},
		}})
		for i, method := range []string{"GET", "HEAD", "HEAD", "GET"} {
			equal(e, fmt.Sprintf("status of request %d, %s", i+1, method), s.do(method, fmt.Sprintf("/items/%d", i)).status, http.StatusOK)
		}
		equal(e, "status of another GET", s.get("/items/5").status, http.StatusTooManyRequests)
		equal(e, "status of another HEAD", s.do("HEAD", "/items/6").status, http.StatusTooManyRequests)
		equal(e, "status of a POST", s.do("POST", "/items/7").status, http.StatusOK)
	}},
	{"a limit of one route holds wherever its limiter stands", func(e *env) {
		for what, condition := range map[string]keyfuncs.Condition{
			"the route":                   keyfuncs.Routes("POST /login"),
			"the route and more":          keyfuncs.All(keyfuncs.Routes("POST /login"), keyfuncs.Methods("POST", "PUT")),
			"the route or another":        keyfuncs.Any(keyfuncs.Routes("POST /nowhere"), keyfuncs.Routes("POST /login")),
			"not not the route":           keyfuncs.Not(keyfuncs.Not(keyfuncs.Routes("POST /login"))),
			"the route, for all methods":  keyfuncs.All(keyfuncs.Methods("POST"), keyfuncs.Routes("/login")),
			"not what is another's route": keyfuncs.All(keyfuncs.Methods("POST"), keyfuncs.Not(keyfuncs.Routes("POST /items/{id}", "POST /items/:id"))),
		} {
			e.inPlaces(func(s *site, c *counted, known bool) {
				e.passes("a read", s.get("/items/1")) // some frameworks learn where the limiter stands from the first request
				for i := range 100 {
					s.do("POST", "/login")
					s.do("POST", fmt.Sprintf("/login?%d", i))
				}
				equal(e, fmt.Sprint(what, ", known: ", known, ": logins"), c.logins.Load(), 5)
				for range 10 {
					e.passes("a read", s.get("/items/1"))
					e.passes("the form", s.get("/login"))
					if known {
						e.passes("a write elsewhere", s.do("POST", "/items/1"))
					}
				}
			}, core.Config{Limits: []core.Limit{core.PerDay(5).By(keyfuncs.ClientIP()).When(condition)}})
		}
	}},
	{"a condition on a route that the router does not have is told, and one that it has is not", func(e *env) {
		for _, tt := range []struct {
			written string
			told    bool
		}{{"POST /logni", true}, {"PUT /login", true}, {"POST /login", false}, {"/login", false}} {
			for _, front := range []bool{false, true} {
				log := new(logged)
				limit := core.PerDay(50).By(keyfuncs.ClientIP()).Named(fmt.Sprint("limit", onRoutes.Add(1)))
				layers := e.configured(core.Config{
					Limits:  []core.Limit{limit.When(keyfuncs.Any(keyfuncs.Methods("PATCH"), keyfuncs.Routes(tt.written)))},
					Silence: []core.Advice{"WL008"}, Logger: slog.New(slog.NewTextHandler(log, nil)),
				})
				app := App{Layers: layers, Routes: new(counted).routes()}
				if front {
					app.Layers, app.Front = nil, layers
				}
				s := e.serve(app)
				for range 3 {
					s.get("/items/1")
				}
				switch lines := log.lines("WL016"); {
				case len(lines) > 1, len(lines) == 1 && !tt.told:
					e.Errorf("%s, in front: %v: %q", tt.written, front, lines)
				case len(lines) == 0 && tt.told && !front && !e.differs.HidesRoutes:
					e.Errorf("%s: nobody says that there is no such route", tt.written)
				}
			}
		}
	}},
	{"a limit unless it is one route holds wherever its limiter stands", func(e *env) {
		e.inPlaces(func(s *site, c *counted, known bool) {
			for range 20 {
				s.get("/items/1")
			}
			equal(e, "reads", c.reads.Load(), 5)
			for range 20 {
				s.get("/healthz")
			}
			want := int64(0) // the limit is used up
			if known {
				want = 20
			}
			equal(e, "health checks", c.healths.Load(), want)
		}, core.Config{Limits: []core.Limit{core.PerDay(5).By(keyfuncs.ClientIP()).Unless(keyfuncs.Routes("GET /healthz"))}})
	}},
	{"a bypass of a route in front of the router lets nothing else through", func(e *env) {
		e.inPlaces(func(s *site, c *counted, known bool) {
			s.get("/items/1")
			for range 20 {
				s.get("/healthz")
			}
			want := int64(4)
			if known {
				want = 20
			}
			equal(e, fmt.Sprint("health checks, known: ", known), c.healths.Load(), want)
			for range 20 {
				s.do("POST", "/login")
			}
			if got := c.logins.Load() + c.reads.Load(); got > 5 {
				e.Errorf("%d requests were let through with the bypass", got)
			}
		}, core.Config{
			Limits: []core.Limit{core.PerDay(5).By(keyfuncs.ClientIP())},
			Bypass: []keyfuncs.Condition{keyfuncs.Routes("GET /healthz")},
		})
	}},
	{"requests whose route is not known share one bucket by route", func(e *env) {
		e.inPlaces(func(s *site, c *counted, known bool) {
			for i := range 100 {
				s.get(fmt.Sprint("/items/", i))
				s.get(fmt.Sprint("/nowhere/", i))
				s.get("/login")
			}
			if got := c.reads.Load(); known && got != 10 || !known && got > 5 {
				e.Errorf("%d reads of two routes, known: %v", got, known)
			}
		}, core.Config{Limits: []core.Limit{core.PerDay(5).By(keyfuncs.Route())}})
	}},
	{"those whose route is not known have no share that is kept free", func(e *env) {
		e.inPlaces(func(s *site, c *counted, known bool) {
			for range 20 {
				s.get("/healthz")
			}
			want := int64(5)
			if known {
				want = 10
			}
			equal(e, fmt.Sprint("health checks, known: ", known), c.healths.Load(), want)
		}, core.Config{Limits: []core.Limit{core.PerDay(10).FixedWindow().By(keyfuncs.Everyone()).KeepFree(0.5, keyfuncs.Routes("GET /healthz"))}})
	}},
}
