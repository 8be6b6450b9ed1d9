// Package frameworks builds applications on each framework by one description. Suites that send the same
// requests to all of them use it: no adapter's tests do, since these reach no other framework. Echo 5 and Fiber 3
// are in package majors.
//
//	for _, f := range frameworks.All {
//		app := f.New()
//		app.Use(app.Limiter(limiter))
//		app.Handle("GET", "/items/{id}", handler)
//		response, err := app.Do(request)
//	}
package frameworks

import (
	"net"
	"net/http"

	"github.com/weblimit/weblimit/core"
)

// Framework is a framework on its default engine.
type Framework struct {
	Name string
	New  func() App
}

// All are the frameworks, with the older majors of Echo and Fiber.
var All = []Framework{
	{"net/http", newMux},
	{"chi", newChi},
	{"Gin", newGin},
	{"Echo", newEcho},
	{"Fiber", newFiber},
}

// App is an application on a framework. It may serve when all is added.
type App interface {
	// Use adds middleware around all: the framework's own, or what Limiter, Local and Recover return.
	Use(middleware ...any)

	// Handle answers a method, "" for all, and a path, with its parameters in braces.
	Handle(method, path string, handler Handler, middleware ...any)

	// Limiter is middleware that asks l, by New of the adapter.
	Limiter(l *core.Limiter) any

	// Local is middleware that stores a local of the framework. It does nothing where there are none.
	Local(name string, value func(*http.Request) any) any

	// Recover is the framework's middleware that answers panics, without a log. It does nothing where
	// there is none.
	Recover() any

	// Do answers a request without a network.
	Do(r *http.Request) (*http.Response, error)

	// Serve serves on a listener until Shutdown.
	Serve(l net.Listener) error
	Shutdown()
}

// Handler is a handler on every framework. Its error is answered by the framework, or with 500 where
// handlers return none. Parameters of the path are in r.PathValue.
type Handler func(w http.ResponseWriter, r *http.Request) error

// OK is a handler that answers 200.
func OK(http.ResponseWriter, *http.Request) error { return nil }
