package fiberlimit

import (
	"context"
	"errors"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"github.com/weblimit/weblimit/core"
)

// follow calls the rest of the chain for a request with a reservation. Fiber renders errors after
// all middleware and sends the body after that, so a user value settles: fasthttp closes it
// once the response is sent.
func follow(c *fiber.Ctx, d *core.Decision) error {
	ctx := c.Context()
	f := following{
		decision: d,
		context:  c.UserContext(), // middleware further in may replace it by one that ends when it returns
		streamed: ctx.Request.IsBodyStream() && ctx.Request.Header.ContentLength() != 0,
	}
	defer f.unwind()
	err := c.Next()
	f.ended = true
	o := f.outcome()
	o.Err = err
	if timedOut := ctx.LastTimeoutErrorResponse(); timedOut != nil { // fasthttp has answered, and forgets this request
		o.TimedOut, o.Status = true, timedOut.StatusCode()
		f.settle(o)
		return err
	}
	ctx.SetUserValue(d, onClose(func() { // the response is not reused yet
		o.Status, o.Hijacked = ctx.Response.StatusCode(), ctx.Hijacked()
		f.settle(o)
	}))
	return err
}

// following finds out how a request ends.
type following struct {
	decision *core.Decision
	context  context.Context // the user context as the limiter saw it
	streamed bool            // the handler reads the body from the client
	ended    bool            // the handler has returned
}

// unwind settles if the handler has panicked, and the panic goes on.
func (f *following) unwind() {
	if f.ended {
		return
	}
	value := recover()
	o := f.outcome()
	o.Panicked, o.Status = true, http.StatusInternalServerError
	o.Canceled = o.Canceled || value == http.ErrAbortHandler //nolint:errorlint // net/http compares it so
	defer f.settle(o)
	if value != nil { // else the goroutine exits
		panic(value)
	}
}

// outcome says whether the user context has ended, and why.
func (f *following) outcome() (o core.Outcome) {
	if ended := f.context.Err(); ended != nil {
		o.TimedOut = errors.Is(ended, context.DeadlineExceeded)
		o.Canceled = !o.TimedOut
	}
	return o
}

// settle settles. If the handler reads the body from the client, fasthttp does not say whether
// that failed, so a server error may be the client's doing.
func (f *following) settle(o core.Outcome) {
	o.Canceled = o.Canceled || f.streamed && o.Status >= http.StatusInternalServerError
	f.decision.Settle(o)
}

// onClose is an io.Closer.
type onClose func()

func (f onClose) Close() error {
	f()
	return nil
}
