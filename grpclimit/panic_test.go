package grpclimit_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/grpclimit"
	"github.com/weblimit/weblimit/keyfuncs"
)

// A key that expects the message of one method panics for all others. A client that calls one of
// these must not end the process.
func TestPanicsOfFunctionsDenyTheCall(t *testing.T) {
	t.Parallel()
	type other struct{ grpc.ServerStream } // what no message is
	item := func(_ context.Context, call grpclimit.Call) bool { return call.Message.(*other) != nil }
	limit := core.PerHour(1000).By(keyfuncs.Everyone())
	with := func(config grpclimit.Config, limit core.Limit) *grpclimit.Interceptors {
		return grpclimit.New(limiter(t, core.Config{Store: core.NewMemory(), Limits: []core.Limit{limit}}), config)
	}
	for name, in := range map[string]*grpclimit.Interceptors{
		"a key": with(grpclimit.Config{}, core.PerHour(1000).By(grpclimit.Key("item", func(ctx context.Context, call grpclimit.Call) string {
			_ = item(ctx, call)
			return "x"
		}))),
		"a condition": with(grpclimit.Config{}, limit.When(grpclimit.Matches(item))),
		"a cost": with(grpclimit.Config{}, limit.CostBy(grpclimit.Cost(func(ctx context.Context, call grpclimit.Call) int64 {
			_ = item(ctx, call)
			return 1
		}))),
		"Skip": with(grpclimit.Config{Skip: item}, limit),
		"Denied": with(grpclimit.Config{Denied: func(ctx context.Context, call grpclimit.Call, _ core.Decision) error {
			_ = item(ctx, call)
			return nil
		}}, core.PerHour(1).By(keyfuncs.Everyone()).Burst(2).CostBy(func(keyfuncs.Request) int64 { return 3 })),
	} {
		handled := errors.New("handled")
		s := &service{
			say:  func(context.Context, *text) (*text, error) { return nil, handled },
			chat: func(stream grpc.ServerStream) error { return stream.RecvMsg(new(text)) },
		}
		calls := serve(t, s, in)
		for range 2 {
			want(t, name+": a call", calls.call(say).code, codes.Internal)
			want(t, name+": a stream", status.Code(calls.open(t.Context(), chat).RecvMsg(new(text))), codes.Internal)
		}
		l := loopback(t)
		listen(t, l, s, grpc.ChainStreamInterceptor(in.Messages))
		messages := &site{t, dial(t, "passthrough:///"+l.Addr().String())}
		stream := messages.open(t.Context(), chat)
		_ = stream.SendMsg(textOf("hello"))
		want(t, name+": a message", status.Code(stream.RecvMsg(new(text))), codes.Internal)
	}
}
