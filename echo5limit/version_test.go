package echo5limit_test

import (
	"log/slog"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/weblimit/weblimit/internal/test/echotest"
	"github.com/weblimit/weblimit/internal/test/limittest"
)

// An allowed request allocates once: the decision, with the text of its RateLimit and the slice of
// one that http.Header keeps it in, the context that holds it and the copy of the request with
// that context, all in one.
//
// A RateLimit of several limits is too long to be kept with the decision. Its
// RateLimit-Policy and its key cost none, whatever the number of limits. A denied
// request has in addition the values of Retry-After and Content-Length, the
// slices of these, and the body.
var allocations = limittest.Allocations{Allowed: 2, Several: 3, ByRoute: 2, Denied: 7, AllowedNoContext: 2, SilentNoContext: 1, DeniedNoContext: 8}

func (major) App(o echotest.Options[ctx]) echotest.App[ctx, echo.MiddlewareFunc] {
	e := echo.New()
	e.Logger = slog.New(slog.DiscardHandler) // of Recover
	if o.ErrorHandler != nil {
		e.HTTPErrorHandler = func(c ctx, err error) { o.ErrorHandler(err, c) }
	}
	switch o.Address {
	case echotest.Direct:
		e.IPExtractor = echo.ExtractIPDirect()
	case echotest.Trusting:
		e.IPExtractor = echo.LegacyIPExtractor() // which was the default of Echo 4
	}
	return app{e}
}

func (major) Error(status int, text string) error {
	return echo.NewHTTPError(status, text)
}

func (major) Sent(c ctx) (status int, size int64, committed bool) {
	r, err := echo.UnwrapResponse(c.Response())
	if err != nil {
		panic(err)
	}
	return r.Status, r.Size, r.Committed
}

func (major) BodyLimit1K() echo.MiddlewareFunc { return middleware.BodyLimit(1024) }

func (major) KeyAuth(lookup string, valid func(string) bool) echo.MiddlewareFunc {
	return middleware.KeyAuthWithConfig(middleware.KeyAuthConfig{
		KeyLookup: lookup,
		Validator: func(_ ctx, key string, _ middleware.ExtractorSource) (bool, error) { return valid(key), nil },

		AllowedCheckLimit: 8,
	})
}
