package echolimit_test

import (
	"io"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/weblimit/weblimit/internal/test/echotest"
	"github.com/weblimit/weblimit/internal/test/limittest"
)

// An allowed request allocates twice:
//
//   - the decision, with the text of its RateLimit and the slice of one that
//     http.Header keeps it in, the context that holds it and the copy of the
//     request with that context, all in one;
//   - the function that knows its next one: Echo makes its chains anew for each
//     request.
//
// A RateLimit of several limits is too long to be kept with the decision. Its
// RateLimit-Policy and its key cost none, whatever the number of limits. A denied
// request has in addition the values of Retry-After and Content-Length, the
// slices of these, and the body.
var allocations = limittest.Allocations{Allowed: 2, Several: 3, ByRoute: 2, Denied: 7, AllowedNoContext: 2, SilentNoContext: 1, DeniedNoContext: 8}

func (major) App(o echotest.Options[ctx]) echotest.App[ctx, echo.MiddlewareFunc] {
	e := echo.New()
	e.Logger.SetOutput(io.Discard) // of Recover
	if o.ErrorHandler != nil {
		e.HTTPErrorHandler = o.ErrorHandler
	}
	if o.Address == echotest.Direct {
		e.IPExtractor = echo.ExtractIPDirect()
	}
	return app{e}
}

func (major) Error(status int, text string) error {
	if text == "" {
		return echo.NewHTTPError(status)
	}
	return echo.NewHTTPError(status, text)
}

func (major) Sent(c ctx) (status int, size int64, committed bool) {
	r := c.Response()
	return r.Status, r.Size, r.Committed
}

func (major) BodyLimit1K() echo.MiddlewareFunc { return middleware.BodyLimit("1K") }

func (major) KeyAuth(lookup string, valid func(string) bool) echo.MiddlewareFunc {
	return middleware.KeyAuthWithConfig(middleware.KeyAuthConfig{
		KeyLookup: lookup,
		Validator: func(key string, _ ctx) (bool, error) { return valid(key), nil },
	})
}
