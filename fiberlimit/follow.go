package fiberlimit

import (
	"net/http"

	"github.com/gofiber/fiber/v2"

	"github.com/weblimit/weblimit/core"
)

// follow has the rest of the chain handle a request that has something reserved.
// Fiber renders an error after all middleware, and sends the body after that: so
// what settles is a user value, which fasthttp closes once the response is sent.
func follow(c *fiber.Ctx, d *core.Decision) (err error) {
	ctx := c.Context()
	returned := false
	defer func() {
		o := core.Outcome{Err: err, Canceled: c.UserContext().Err() != nil}
		timedOut := ctx.LastTimeoutErrorResponse()
		switch {
		case !returned:
			o.Panicked, o.Status = true, http.StatusInternalServerError
			d.Settle(o)
		case timedOut != nil: // fasthttp has answered, and forgets this request
			o.Canceled, o.Status = true, timedOut.StatusCode()
			d.Settle(o)
		default:
			ctx.SetUserValue(d, onClose(func() { // the response is still there then
				o.Status, o.Hijacked = ctx.Response.StatusCode(), ctx.Hijacked()
				d.Settle(o)
			}))
		}
	}()
	err = c.Next()
	returned = true
	return err
}

// onClose is an io.Closer.
type onClose func()

func (f onClose) Close() error {
	f()
	return nil
}
