package echo5limit

import (
	"github.com/labstack/echo/v5"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/stdhttp"
)

// follow calls next for a request with a reservation. Echo renders an error after all middleware,
// and the status that is sent then counts.
func follow(c *echo.Context, d *core.Decision, next echo.HandlerFunc) error {
	f := stdhttp.Follow(d, c.Request())
	defer f.Unwind()
	c.SetResponse(f.Watch(c.Response()))
	err := next(c)
	response, status := echo.ResolveResponseStatus(c.Response(), err)
	rendered := err == nil || response != nil && response.Committed
	if !rendered && response != nil {
		// Until Echo renders the error, middleware further out, such as Gzip, may have put its
		// own writer back in place of the one that is watched.
		response.Before(func() { f.Sent(response.Status) })
	}
	f.End(stdhttp.Ending{Err: err, Status: status, Rendered: rendered})
	return err
}
