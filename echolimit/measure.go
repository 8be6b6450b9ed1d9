package echolimit

import (
	"github.com/labstack/echo/v4"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/stdhttp"
)

// Measure returns middleware by which load measures the handlers behind it, without the time
// that they wait for their clients; see [core.Load]. It panics if load is nil.
func Measure(load *core.Load) echo.MiddlewareFunc {
	if load == nil {
		panic("weblimit: echolimit.Measure: the load is nil")
	}
	var where place
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			in := acquire(c, &where)
			work := adapter.Begin(load, in)
			in.release()
			defer work.End() // also if the handler panics
			stdhttp.MeasureBody(work, c.Request())
			setWriter(c, stdhttp.MeasureWriter(work, writerOf(c)))
			return next(c)
		}
	}
}
