package stdhttp

import (
	"net/http"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/keyfuncs"
)

// exchange is everything that a limiter adds to a request, in one allocation: the context with the
// decision, the copy of the request with that context, and memory for the response's headers.
type exchange struct {
	context adapter.Context
	request http.Request
	headers adapter.HeaderRoom
}

// exchangeOfMany is the exchange of several limits.
type exchangeOfMany struct {
	exchange
	room [3]core.LimitResult
}

// Decide asks the limiter to decide in, which reads r, and sets the response's headers in h. It
// returns the decision, and a copy of r whose context holds it, for core.FromContext.
func Decide(limiter *adapter.Limiter, in keyfuncs.Request, r *http.Request, h http.Header) (*core.Decision, *http.Request) {
	e, room := newExchange(limiter, r)
	limiter.Decide(in, &e.context, room)
	return e.write(r, h)
}

func newExchange(limiter *adapter.Limiter, r *http.Request) (e *exchange, room []core.LimitResult) {
	if limiter.Limits() == 1 {
		e = new(exchange)
	} else {
		many := new(exchangeOfMany)
		e, room = &many.exchange, many.room[:]
	}
	e.context.Context = r.Context()
	return e, room
}

// write sets the response's headers, and returns the decision and the request that has it.
func (e *exchange) write(r *http.Request, h http.Header) (*core.Decision, *http.Request) {
	adapter.SetHeaders(&e.context.Decision, adapter.HeaderMap(h), &e.headers)
	e.request = *r.WithContext(&e.context)
	return &e.context.Decision, &e.request
}
