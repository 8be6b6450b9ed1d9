package grpclimit

import (
	"context"

	"google.golang.org/grpc"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
)

// Config adapts a limiter to an application. Its zero value is ready to use.
type Config struct {
	// Skip reports whether a call passes without asking the limiter: it is not limited, not
	// charged, and not observed. Defaults to none.
	Skip func(ctx context.Context, call Call) bool

	// Denied returns the error of a denied call. [Deny] returns the usual one, for a hook that
	// only logs. The decision's headers are set in any case. If it returns nil, the call
	// is denied with the usual error. Defaults to Deny.
	Denied func(ctx context.Context, call Call, d core.Decision) error
}

// Interceptors are the server interceptors of one limiter. Unary and Stream decide each call
// once, when it starts; install both, since a server calls one for unary methods and the other
// for streams. Messages decides each message of a stream. Interceptors are safe for concurrent
// use.
type Interceptors struct {
	limiter *adapter.Limiter
	config  Config
}

// Limit returns interceptors that enforce limits on a store, with the defaults for everything
// else.
//
// It panics if there is no limit, or one that can never work, such as a limit without By or
// with the name of another limit of the store. So call it at start-up, not while serving.
// [core.New] returns the same as an error.
func Limit(store core.Store, limits ...core.Limit) *Interceptors {
	return New(core.ForLimits(store, limits))
}

// New returns interceptors that ask limiter. It panics if limiter is nil or has a key or condition of
// another framework, or if there is more than one Config. One limiter may serve in several places.
func New(limiter *core.Limiter, config ...Config) *Interceptors {
	c := adapter.One("grpclimit.New", config)
	if limiter == nil {
		panic("weblimit: grpclimit.New: the limiter is nil")
	}
	return &Interceptors{adapter.New(limiter, "grpc", callType), c}
}

// Settings are what all limiters of an application share: store, bypasses, headers, denials.
// They are made by [With], and safe for concurrent use.
type Settings = adapter.Shared[*Interceptors]

// With returns the settings for all limiters of an application, for calls and for messages:
//
//	limits := grpclimit.With(core.Config{Store: store, Bypass: bypass}, grpclimit.Config{Denied: denied})
//	calls, messages := limits.Limit(perClient), limits.Limit(perMessage)
//
// A call that bypasses one of these limiters bypasses all of them, and all write the same
// headers. It panics if the configuration can never work, if it has Limits, which are those of
// Limit, or if there is more than one Config. So call it at start-up, not while serving.
func With(settings core.Config, config ...Config) *Settings {
	c := adapter.One("grpclimit.With", config)
	return adapter.NewShared(settings, func(l *core.Limiter) *Interceptors { return New(l, c) })
}

// FromContext returns the decision on the call with this context, if there are several limiters
// that of the one nearest to the handler. It returns false if no limiter decided the call.
func FromContext(ctx context.Context) (core.Decision, bool) { return core.FromContext(ctx) }

// Options returns the options of a server that install Unary and Stream, so that neither is
// forgotten. Interceptors of other options are called in the order of the options: put those that
// authenticate callers in front.
func (in *Interceptors) Options() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(in.Unary), grpc.ChainStreamInterceptor(in.Stream)}
}

// Unary is a [grpc.UnaryServerInterceptor].
func (in *Interceptors) Unary(ctx context.Context, message any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	x, err := in.admit(ctx, Call{Method: path(info.FullMethod), Message: message}, info.Server, nil)
	if err != nil {
		return nil, err
	}
	if x == nil {
		return handler(ctx, message)
	}
	defer x.end()
	reply, err := handler(x, message)
	x.returned, x.err = true, err
	return reply, err
}

// Stream is a [grpc.StreamServerInterceptor]. It decides when the stream starts. What a limit
// reserves, such as the slot of a concurrency limit, is held until the stream ends.
func (in *Interceptors) Stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	x, err := in.admit(stream.Context(), callOf(info), server, stream)
	if err != nil {
		return err
	}
	if x == nil {
		return handler(server, stream)
	}
	defer x.end()
	err = handler(server, &callStream{ServerStream: stream, exchange: x, timed: x.follows && adapter.ReadsOutcome(&x.Decision)})
	x.returned, x.err = true, err
	return err
}

// admit decides a call. It returns nil for a call that is skipped, and an error for one that is
// denied.
func (in *Interceptors) admit(ctx context.Context, call Call, server any, stream grpc.ServerStream) (x *exchange, err error) {
	defer func() {
		if value := recover(); value != nil {
			x, err = nil, panicked(ctx, call, value)
		}
	}()
	if in.config.Skip != nil && in.config.Skip(ctx, call) {
		return nil, nil
	}
	x = in.ask(ctx, call, server, stream)
	x.writeHeaders()
	if !x.Decision.Allowed {
		return nil, in.deny(x)
	}
	return x, nil
}
