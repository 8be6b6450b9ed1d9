package limittest

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// target is a request as it is written on a connection. Go's own client would clean it
// up or refuse to send it.
type target struct {
	method, target string
	header         string // one header line, if not empty
}

func (t target) String() string { return strings.TrimSpace(t.method + " " + t.target + " " + t.header) }

// write sends a request on a connection of its own, and reads the response.
func (e *env) write(base string, t target) response {
	e.Helper()
	lines := []string{t.method + " " + t.target + " HTTP/1.1", "Host: app.example", "Connection: close"}
	if t.header != "" {
		lines = append(lines, t.header)
	}
	return e.send(base, joinLines(lines)+"\r\n")
}

// visits records which handler a request reached and how it was decided.
type visits struct {
	mu      sync.Mutex
	handler string
	reason  core.Reason
}

func (v *visits) note(handler string) func(Call) {
	return func(c Call) {
		d, _ := c.Decision()
		v.mu.Lock()
		v.handler, v.reason = handler, d.Reason
		v.mu.Unlock()
		c.Reply(http.StatusOK, "")
	}
}

// last returns what was recorded since the last call.
func (v *visits) last() (handler string, reason core.Reason) {
	v.mu.Lock()
	defer v.mu.Unlock()
	handler, reason = v.handler, v.reason
	v.handler, v.reason = "", 0
	return handler, reason
}

// routes are a login, a health check and another route, each with the layers.
func (v *visits) routes(layers []Layer) []Route {
	var routes []Route
	for _, r := range []Route{
		{Method: "GET", Path: "/login", Handle: v.note("login")},
		{Method: "HEAD", Path: "/login", Handle: v.note("login")},
		{Method: "POST", Path: "/login", Handle: v.note("login")},
		{Method: "GET", Path: "/healthz", Handle: v.note("health")},
		{Method: "HEAD", Path: "/healthz", Handle: v.note("health")},
		{Method: "POST", Path: "/healthz", Handle: v.note("hook")},
		{Method: "GET", Path: "/items/{id}", Handle: v.note("item")},
	} {
		r.Layers = layers
		routes = append(routes, r)
	}
	return routes
}

// everywhere runs f with the limiters around the whole application, and on each
// route alone.
func (e *env) everywhere(f func(app func(*visits, []Layer) App)) {
	e.Helper()
	f(func(v *visits, layers []Layer) App { return App{Layers: layers, Routes: v.routes(nil)} })
	f(func(v *visits, layers []Layer) App { return App{Routes: v.routes(layers)} })
}

// logins are spellings of /login. Each framework routes some of them to it.
var logins = func() []target {
	var all []target
	for _, spelling := range []string{
		"/login", "/login/", "/login//", "//login", "///login", "/LOGIN", "/Login", "/%6cogin", "/%6Cogin", "/l%6fgin", "/%6c%6f%67%69%6e",
		"/x/../login", "/./login", "/login/.", "/login/./", "/x/%2e%2e/login", "/x/%2E%2E/login", "/x%2f..%2flogin", "/%2flogin", "/login%2f",
		"/login;v=1", "/login;/healthz", "/;v=1/login", "/login%3Bv=1", "/login%20", "/login%00", "/login%", "/login.", "/login.json", "/login%3f",
		"/login?", "/login?x=1", "/login?/healthz", "/login?_method=PUT", "/login??", "/login#", "/login#/healthz", "/login%23", `/\login`, `/x/..\login`,
		"http://app.example/login", "http://app.example//login", "http://healthz/login", "HTTP://APP.EXAMPLE:80/login", "http://user@app.example/login",
		"http://app.example/healthz/../login", "/healthz/../login", "/healthz/%2e%2e/login", "/items/../login", "/items/%2e%2e%2flogin",
	} {
		all = append(all, target{"GET", spelling, ""})
	}
	for _, header := range []string{
		"X-Original-URL: /healthz", "X-Rewrite-URL: /healthz", "X-Original-URI: /healthz", "X-Forwarded-Prefix: /healthz", "X-Forwarded-Path: /healthz",
		"X-Forwarded-Uri: /healthz", "X-Original-URL: /items/1", "X-HTTP-Method-Override: PUT", "X-HTTP-Method: PUT", "X-Method-Override: PUT",
	} {
		all = append(all, target{"GET", "/login", header})
	}
	return append(all, target{"HEAD", "/login", ""}, target{"HEAD", "/login?x", ""}, target{"POST", "/login", ""}, target{"POST", "/login", "X-HTTP-Method-Override: GET"})
}()

// healths are spellings that a careless bypass of /healthz would let through.
var healths = append([]target{
	{"GET", "/healthz/", ""},
	{"GET", "//healthz", ""},
	{"GET", "/HEALTHZ", ""},
	{"GET", "/%68ealthz", ""},
	{"GET", "/x/../healthz", ""},
	{"GET", "/healthz?x=1", ""},
	{"GET", "/healthz?/login", ""},
	{"GET", "/healthz;v=1", ""},
	{"GET", "/healthz/x", ""},
	{"GET", "/healthzz", ""},
	{"GET", "/healthz.json", ""},
	{"GET", "/healthz%00", ""},
	{"GET", "/healthz%2f..%2flogin", ""},
	{"GET", "/healthz%2f../login", ""},
	{"GET", "/healthz/..%2flogin", ""},
	{"GET", "/healthz/../items/1", ""},
	{"GET", "/items/healthz", ""},
	{"GET", "/items/%2fhealthz", ""},
	{"GET", "/items/1?/healthz", ""},
	{"GET", "/items/1;/healthz", ""},
	{"GET", "/items/1/../../healthz", ""},
	{"GET", "http://app.example/healthz", ""},
	{"GET", "http://healthz", ""},
	{"GET", "/nowhere?/healthz", ""},
	{"GET", "/nowhere/healthz", ""},
	{"GET", "/items/1", "X-Original-URL: /healthz"},
	{"GET", "/items/1", "X-Rewrite-URL: /healthz"},
	{"POST", "/healthz", ""},
	{"POST", "/healthz", "X-HTTP-Method-Override: GET"},
	{"POST", "/healthz", "X-HTTP-Method: GET"},
	{"POST", "/healthz", "X-Method-Override: HEAD"},
	{"POST", "/healthz?_method=GET", ""},
	{"DELETE", "/healthz", ""},
	{"OPTIONS", "/healthz", ""},
}, logins...)

var paths = []scenario{
	{"all spellings that reach a handler are one bucket of its route", func(e *env) {
		e.everywhere(func(app func(*visits, []Layer) App) {
			var v visits
			base := e.serve(app(&v, nil)).server.Listen(e)
			reach := make(map[target]bool)
			for _, t := range logins {
				e.write(base, t)
				handler, _ := v.last()
				reach[t] = handler == "login"
			}
			for _, t := range []target{{"GET", "/login", ""}, {"GET", "/login?/healthz", ""}, {"GET", "http://app.example/login", ""}, {"HEAD", "/login", ""}} {
				equal(e, fmt.Sprint(t, " reaches the handler"), reach[t], true)
			}
			for _, key := range []keyfuncs.Func{keyfuncs.Route(), keyfuncs.Join(keyfuncs.ClientIP(), keyfuncs.Route())} {
				base := e.serve(app(&v, e.configured(core.Config{Limits: []core.Limit{core.PerDay(1).By(key)}}))).server.Listen(e)
				equal(e, "status of the first", e.write(base, target{"GET", "/login", ""}).status, http.StatusOK)
				v.last()
				for _, t := range logins {
					r := e.write(base, t)
					if handler, _ := v.last(); handler == "login" {
						e.Errorf("%v by %s: %d from the handler", t, key.Kind(), r.status)
					}
					if reach[t] {
						e.denied(t.String()+" by "+key.Kind(), r)
					}
				}
			}
		})
	}},
	{"a bypass of a route is of that route alone, and touches no store", func(e *env) {
		e.everywhere(func(app func(*visits, []Layer) App) {
			var v visits
			all, store := e.counting(), e.counting()
			limits := []core.Limit{core.PerDay(1_000_000).By(keyfuncs.Everyone())}
			layers := append(e.configured(core.Config{Store: all, Limits: limits}), e.configured(core.Config{
				Store: store, Limits: limits, Bypass: []keyfuncs.Condition{keyfuncs.Routes("GET /healthz")},
			})...)
			base := e.serve(app(&v, layers)).server.Listen(e)
			for _, t := range append([]target{{"GET", "/healthz", ""}, {"HEAD", "/healthz", ""}, {"GET", "/healthz", "X-Original-URL: /login"}}, healths...) {
				r := e.write(base, t)
				handler, reason := v.last()
				what := fmt.Sprintf("%v: answered by %q with %d", t, handler, r.status)
				switch seen, counted := all.asked(), store.asked(); {
				case handler == "health":
					equal(e, what+": seen", seen, 1)
					equal(e, what+": asked the store", counted, 0)
					equal(e, what+": decision", reason, core.ReasonBypassed)
				case handler != "":
					equal(e, what+": asked the store", counted, 1)
					equal(e, what+": decision", reason, core.ReasonWithinLimit)
				case r.status/100 == 3 && strings.HasSuffix(r.header.Get("Location"), "/healthz"):
					// It reaches no handler; it redirects to the one that would be bypassed.
				default: // answered by the framework, before the limiters or behind both
					equal(e, what+": asked the store", counted, seen)
				}
				if handler == "" && t.target == "/healthz" && (t.method == "GET" || t.method == "HEAD") {
					e.Errorf("%v: %d, reached no handler", t, r.status)
				}
			}
		})
	}},
	{"a bypassed health check passes while the limit is used up and the store is down", func(e *env) {
		var v visits
		limits := []core.Limit{core.PerDay(1).By(keyfuncs.Everyone()).OnOutage(core.Deny)}
		for _, store := range []core.Store{e.newStore(e), e.failing()} {
			layers := e.configured(core.Config{Store: store, Limits: limits, Bypass: []keyfuncs.Condition{keyfuncs.Routes("/healthz")}})
			s := e.serve(App{Routes: v.routes(layers)})
			s.get("/login")
			if r := s.get("/login"); r.status == http.StatusOK {
				e.Errorf("/login: %d, want a denial", r.status)
			}
			for _, method := range []string{"GET", "HEAD", "POST"} {
				r := s.do(method, "/healthz")
				equal(e, "status of "+method, r.status, http.StatusOK)
				e.silent(method, r)
			}
		}
	}},
	{"headers that claim another method change nothing", func(e *env) {
		claims := func(method string) [][]option {
			return [][]option{
				nil, {with("X-HTTP-Method-Override", method)}, {with("X-HTTP-Method", method)}, {with("X-Method-Override", method)}, {with("X-Method", method)},
			}
		}
		s := e.serve(App{Routes: posts, Layers: e.configured(core.Config{Limits: []core.Limit{core.PerDay(1).By(keyfuncs.Method())}})})
		e.passes("GET", s.get("/"))
		e.passes("POST", s.do("POST", "/", with("X-HTTP-Method-Override", "PUT")))
		for _, claimed := range []string{"GET", "POST", "PUT", "DELETE", "other"} {
			for _, options := range claims(claimed) {
				e.denied("GET as "+claimed, s.get("/?_method="+claimed, options...))
				e.denied("POST as "+claimed, s.do("POST", "/?_method="+claimed, options...))
			}
		}
		s = e.serve(App{Routes: posts, Layers: e.configured(core.Config{
			Limits: []core.Limit{core.PerDay(1).By(keyfuncs.Everyone())},
			Bypass: []keyfuncs.Condition{keyfuncs.Methods("GET")},
		})})
		e.passes("POST", s.do("POST", "/"))
		for _, options := range claims("GET") {
			e.denied("POST as GET", s.do("POST", "/?_method=GET", options...))
		}
		for _, options := range claims("POST") {
			e.passes("GET as POST", s.get("/", options...))
		}
	}},
	{"HEAD and GET of a route count together", func(e *env) {
		var v visits
		layers := e.configured(core.Config{Limits: []core.Limit{core.PerDay(3).By(keyfuncs.Route(), keyfuncs.Method()).Named("each")}})
		s := e.serve(App{Routes: v.routes(layers)})
		for i, method := range []string{"GET", "HEAD", "GET", "HEAD", "GET"} {
			r := s.do(method, "/login")
			if i < 3 {
				e.passes(method, r)
				e.remaining(method, r, "each", 2-i)
			} else {
				e.denied(method, r)
			}
		}
		e.passes("POST", s.do("POST", "/login"))
		e.passes("HEAD of another route", s.do("HEAD", "/healthz"))
	}},
}
