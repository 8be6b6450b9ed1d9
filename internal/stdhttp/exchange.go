package stdhttp

import (
	"net/http"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// exchange is all that a limiter adds to a request, in one allocation: the
// decision, which also holds the response's RateLimit field, the context with
// it, and the copy of the request with that context.
type exchange struct {
	context core.DecisionContext
	request http.Request
}

// Decide asks the limiter about in, which reads r, and writes what it says to the
// response's header. It returns the decision, and r with the decision in its
// context, for core.FromContext.
func Decide(limiter *core.Limiter, in keyfuncs.Request, r *http.Request, h http.Header) (*core.Decision, *http.Request) {
	e := new(exchange)
	e.context.Context = r.Context()
	e.context.Decision = limiter.Allow(in)
	e.context.Decision.SetHeaders(core.HeaderMap(h))
	e.request = *r.WithContext(&e.context)
	return &e.context.Decision, &e.request
}
