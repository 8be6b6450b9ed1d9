// Code generated from fiberlimit/follow.go by make twins; DO NOT EDIT.

package fiber3limit

import (
	"github.com/gofiber/fiber/v3"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/fiberhttp"
)

// follow calls the rest of the chain for a request with a reservation. Fiber renders errors after
// all middleware and sends the body after that, so a user value settles: fasthttp closes it
// once the response is sent.
func follow(c fiber.Ctx, d *core.Decision) error {
	ctx := c.RequestCtx()
	f := fiberhttp.Following{
		Decision: d,
		Context:  c.Context(),
		Streamed: ctx.Request.IsBodyStream() && ctx.Request.Header.ContentLength() != 0,
	}
	defer f.Unwind()
	err := c.Next()
	o := f.End(err)
	if timedOut := ctx.LastTimeoutErrorResponse(); timedOut != nil { // fasthttp has answered, and forgets this request
		o.TimedOut, o.Status = true, timedOut.StatusCode()
		f.Settle(o)
		return err
	}
	routed := isRouted(c)
	watch := watchFor(c, &f, o)
	ctx.SetUserValue(d, fiberhttp.OnClose(func() { // the response is not reused yet
		watch.End()
		o.Status, o.Hijacked = ctx.Response.StatusCode(), ctx.Hijacked()
		if !routed && isForgotten(&ctx.Response) {
			o.Status, o.Canceled = fiber.StatusBadRequest, true
		}
		f.Settle(o)
	}))
	return err
}
