package echolimit

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/stdhttp"
)

// follow calls next for a request with a reservation. Echo renders an error after all middleware,
// and the status that is sent then counts.
func follow(c echo.Context, d *core.Decision, next echo.HandlerFunc) error {
	f := stdhttp.Follow(d, c.Request())
	defer f.Unwind()
	c.Response().Writer = f.Watch(c.Response().Writer)
	err := next(c)
	f.End(stdhttp.Ending{Err: err, Status: statusOf(c, err), Rendered: err == nil || c.Response().Committed})
	return err
}

// statusOf returns the status that Echo sends, unless the application renders the error itself.
func statusOf(c echo.Context, err error) int {
	var httpError *echo.HTTPError
	switch {
	case err == nil:
		return c.Response().Status
	case errors.As(err, &httpError):
		return httpError.Code
	}
	return http.StatusInternalServerError
}
