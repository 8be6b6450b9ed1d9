// Code generated from echolimit/usage.go by make twins; DO NOT EDIT.

package echo5limit

import (
	"github.com/labstack/echo/v5"

	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/stdhttp"
	"github.com/weblimit/weblimit/usage"
)

// Usage returns a handler that tells each client its own limits, as JSON: see package usage. Mount it behind what
// authenticates clients, and behind a limit of its own. It panics if a limiter of own has a key or condition of
// another framework.
func Usage(own *usage.Usage) echo.HandlerFunc {
	for _, limiter := range own.Limiters() {
		adapter.New(limiter, "echo", "*echo.Context", "*http.Request")
	}
	return func(c *echo.Context) error {
		in := acquire(c, handlers)
		answer := own.Answer(in)
		in.release()
		stdhttp.Tell(c.Response(), c.Request(), answer)
		return nil
	}
}
