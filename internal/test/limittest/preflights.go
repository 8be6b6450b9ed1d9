package limittest

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// preflight is the headers that make an OPTIONS request a preflight. Any client can
// send them.
var preflight = []option{
	with("Origin", "https://app.example"), with("Access-Control-Request-Method", "POST"), with("Access-Control-Request-Headers", "content-type"),
}

// work is a handler for all methods that counts how often it runs.
type work struct{ runs atomic.Int64 }

func (w *work) route() []Route {
	return []Route{{Path: "/rpc", Handle: func(c Call) {
		w.runs.Add(1)
		c.Reply(http.StatusOK, "worked")
	}}}
}

// flood sends forged preflights to a handler for all methods and returns how often the
// handler ran.
func (e *env) flood(limiters []Layer, onRoute bool) int64 {
	e.Helper()
	var w work
	app := App{Layers: limiters, Routes: w.route()}
	if onRoute {
		app.Layers, app.Routes[0].Layers = nil, limiters
	}
	s := e.serve(app)
	for range 100 {
		s.do("OPTIONS", "/rpc", append(preflight, sending(`{"method":"transfer"}`))...)
	}
	return w.runs.Load()
}

// sending is a request option that adds a body.
func sending(body string) option {
	return func(r *http.Request) *http.Request {
		with := r.Clone(r.Context())
		with.Body, with.ContentLength = http.NoBody, int64(len(body))
		with.Body = readCloser{strings.NewReader(body)}
		return with
	}
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

var preflights = []scenario{
	{"made-up preflights of a handler for all methods count", func(e *env) {
		limit := core.PerDay(3).By(keyfuncs.ClientIP())
		for what, limits := range map[string][]core.Limit{
			"a quota":               {limit.FixedWindow()},
			"a bucket":              {limit},
			"a limit among others":  {limit, core.PerDay(1000).By(keyfuncs.Everyone()).Named("all")},
			"a limit by route":      {core.PerDay(3).By(keyfuncs.ClientIP(), keyfuncs.Route())},
			"a limit with a block":  {limit.Penalty(core.Block{After: 1, Within: time.Hour, For: time.Hour})},
			"a limit of that route": {limit.When(keyfuncs.Routes("/rpc"))},
		} {
			for _, onRoute := range []bool{false, true} {
				got := e.flood(e.layer(limits...), onRoute)
				equal(e, fmt.Sprint("runs under ", what, ", on the route: ", onRoute), got, 3)
			}
		}
	}},
	{"an exemption of preflights is not one of handlers for all methods", func(e *env) {
		for _, onRoute := range []bool{false, true} {
			got := e.flood(e.configured(core.Config{
				Limits: []core.Limit{core.PerDay(3).By(keyfuncs.ClientIP())},
				Bypass: []keyfuncs.Condition{keyfuncs.Preflight()},
			}), onRoute)
			equal(e, fmt.Sprint("runs, with the limiter on the route: ", onRoute), got, 3)
		}
	}},
	{"an exemption of preflights is of those that no route answers", func(e *env) {
		store := e.counting()
		s := e.serve(App{
			Layers: e.configured(core.Config{
				Store:  store,
				Limits: []core.Limit{core.PerDay(1).By(keyfuncs.Everyone())},
				Bypass: []keyfuncs.Condition{keyfuncs.Preflight()},
			}),
			Routes: posts,
		})
		s.get("/") // some frameworks learn where the limiter stands from the first request
		store.asked()
		for range 3 {
			for _, path := range []string{"/", "/nowhere"} {
				r := s.do("OPTIONS", path, preflight...)
				e.passes("preflight of "+path, r)
				e.silent("preflight of "+path, r)
			}
		}
		equal(e, "preflights that reached the store", store.asked(), 0)
		for what, options := range map[string][]option{
			"without Origin":     {with("Access-Control-Request-Method", "POST")},
			"without the method": {with("Origin", "https://app.example")},
			"of two methods":     {with("Origin", "https://app.example"), with("Access-Control-Request-Method", "POST"), with("Access-Control-Request-Method", "PUT")},
			"empty":              {with("Origin", ""), with("Access-Control-Request-Method", "")},
			"plain":              nil,
		} {
			e.denied(what, s.do("OPTIONS", "/", options...))
		}
		e.denied("GET", s.get("/", preflight...))
		e.denied("POST", s.do("POST", "/", preflight...))
	}},
	{"a preflight in front of the router is exempt only where the route is known", func(e *env) {
		var w work
		s := e.serve(App{
			Front: e.configured(core.Config{
				Limits: []core.Limit{core.PerDay(3).By(keyfuncs.Everyone())},
				Bypass: []keyfuncs.Condition{keyfuncs.Preflight()},
			}),
			Routes: w.route(),
		})
		for range 20 {
			s.do("OPTIONS", "/rpc", preflight...)
		}
		equal(e, "runs", w.runs.Load(), 3)
		if !e.differs.RoutesInFront {
			e.denied("a preflight that no route answers", s.do("OPTIONS", "/nowhere", preflight...))
		} else {
			e.passes("a preflight that no route answers", s.do("OPTIONS", "/nowhere", preflight...))
		}
	}},
	{"preflights take slots like other requests", func(e *env) {
		inside, leave := make(chan struct{}), make(chan struct{})
		var runs atomic.Int64
		s := e.serve(App{
			Layers: e.layer(core.Concurrent(1).By(keyfuncs.ClientIP()).Named("slots")),
			Routes: []Route{{Path: "/rpc", Handle: func(c Call) {
				if runs.Add(1) == 1 {
					close(inside)
					<-leave
				}
				c.Reply(http.StatusOK, "")
			}}},
		})
		done := make(chan response)
		go func() { done <- s.do("OPTIONS", "/rpc", preflight...) }()
		<-inside
		for range 10 {
			e.denied("while another runs", s.do("OPTIONS", "/rpc", preflight...))
		}
		close(leave)
		e.passes("the first", <-done)
		equal(e, "runs", runs.Load(), 1)
	}},
}
