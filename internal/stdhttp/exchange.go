package stdhttp

import (
	"net/http"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/keyfuncs"
)

// exchange is everything that a limiter adds to a request, in one allocation: the decision,
// which also holds the response's RateLimit field, the context with it, and the copy of the
// request with that context. It has exactly 512 bytes; larger objects cost the allocator and the
// garbage collector more.
type exchange struct {
	context adapter.Context
	request http.Request
}

// exchangeOfMany is the exchange of several limits.
type exchangeOfMany struct {
	exchange
	room [3]core.LimitResult
}

// Decide asks the limiter to decide in, which reads r, and sets the response's headers in h. It
// returns the decision, and a copy of r whose context holds it, for core.FromContext.
func Decide(limiter *adapter.Limiter, in keyfuncs.Request, r *http.Request, h http.Header) (*core.Decision, *http.Request) {
	var e *exchange
	var room []core.LimitResult
	if limiter.Limits() == 1 {
		e = new(exchange)
	} else {
		many := new(exchangeOfMany)
		e, room = &many.exchange, many.room[:]
	}
	e.context.Context = r.Context()
	limiter.Decide(in, &e.context, room)
	e.context.Decision.SetHeaders(adapter.HeaderMap(h))
	e.request = *r.WithContext(&e.context)
	return &e.context.Decision, &e.request
}
