package grpclimit

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
)

// exchange is everything that a limiter adds to a call, in one allocation. It is the context of
// the handler.
type exchange struct {
	adapter.Context          // the call's, with the decision
	request         request  // as keys read it
	own             response // used by the outermost limiter of the call
	response        *response
	headers         adapter.HeaderRoom
	stream          grpc.ServerStream // nil for a unary call
	follows         bool              // something is reserved
	began           time.Time
	client          client

	returned bool  // the handler has
	err      error // of the handler
}

// exchangeOfMany is the exchange of several limits.
type exchangeOfMany struct {
	exchange
	room [3]core.LimitResult
}

// exchangeKey is the context key of the exchange nearest to the handler.
type exchangeKey struct{}

// Value implements [context.Context].
func (x *exchange) Value(key any) any {
	if _, ok := key.(exchangeKey); ok {
		return x
	}
	return x.Context.Value(key)
}

// ask has the limiter decide a call. server is the implementation of the method's service, which
// is nil if the server has none.
func (in *Interceptors) ask(ctx context.Context, call Call, server any, stream grpc.ServerStream) *exchange {
	var x *exchange
	var room []core.LimitResult
	if in.limiter.Limits() == 1 {
		x = new(exchange)
	} else {
		many := new(exchangeOfMany)
		x, room = &many.exchange, many.room[:]
	}
	x.Context.Context = ctx
	x.stream = stream
	x.request = request{ctx: ctx, call: call, registered: server != nil}
	x.response = responseOf(ctx, &x.own)
	in.limiter.Decide(&x.request, &x.Context, room)
	if x.follows = in.limiter.Reserved(&x.Decision); x.follows {
		x.began = time.Now()
	}
	return x
}

// writeHeaders adds the decision to the headers of the call, or to trailers of its own if these were
// sent: it denies a message of a stream.
func (x *exchange) writeHeaders() {
	value := pushbackOf(x.request.ctx, &x.Decision)
	if !x.response.write(&x.Decision, &x.headers, value) {
		x.response = x.own.open()
		x.response.write(&x.Decision, &x.headers, value)
	}
}

// end is to be deferred around the handler. It settles the decision, and sends headers that were
// not sent yet. A panic goes on.
func (x *exchange) end() {
	if x.follows {
		x.Decision.Settle(x.outcome())
	}
	if x.response != &x.own {
		return // the limiter around this one sends them
	}
	if !x.returned || x.err != nil || x.own.send(x.setHeader) != nil {
		x.sendTrailer()
	}
}

// sendTrailer sends headers that were not sent yet as trailers.
func (x *exchange) sendTrailer() { _ = x.own.send(x.setTrailer) }

func (x *exchange) setHeader(md metadata.MD) error {
	if x.stream != nil {
		return x.stream.SetHeader(md)
	}
	return grpc.SetHeader(x.request.ctx, md)
}

func (x *exchange) setTrailer(md metadata.MD) error {
	if x.stream != nil {
		x.stream.SetTrailer(md)
		return nil
	}
	return grpc.SetTrailer(x.request.ctx, md)
}
