package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weblimit/weblimit/core"
)

// outcomes is a site and the outcomes that a limit of it sees. within is middleware around the
// limiter, or nil.
func outcomes(t *testing.T, s *service, within func(context.Context) (context.Context, context.CancelFunc)) (*site, <-chan core.Outcome) {
	t.Helper()
	seen := make(chan core.Outcome, 1)
	in := limited(t, core.NewMemory(), everyone(1_000_000, "watched").RefundOn(func(o core.Outcome) bool {
		seen <- o
		return false
	}))
	l := loopback(t)
	listen(t, l, s,
		grpc.ChainUnaryInterceptor(func(ctx context.Context, m any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (_ any, err error) {
			defer func() {
				if value := recover(); value != nil {
					err = status.Error(codes.Internal, "panic")
				}
			}()
			if within != nil {
				var cancel context.CancelFunc
				ctx, cancel = within(ctx)
				defer cancel()
			}
			return next(ctx, m)
		}, in.Unary),
		grpc.ChainStreamInterceptor(recovered, in.Stream), grpc.MaxRecvMsgSize(1000))
	return &site{t, dial(t, "passthrough:///"+l.Addr().String())}, seen
}

func fails(err error) unaryHandler {
	return func(context.Context, *text) (*text, error) { return nil, err }
}

func waits(ctx context.Context, _ *text) (*text, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	timeOut := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, 50*time.Millisecond)
	}
	for _, tt := range []struct {
		name     string
		handler  unaryHandler
		within   func(context.Context) (context.Context, context.CancelFunc)
		deadline time.Duration // of the client
		cancel   bool          // the client hangs up

		status             int
		canceled, timedOut bool
		either             bool // the server's clock or the client's reset is first: status and timedOut differ
	}{
		{name: "a reply", status: 200},
		{name: "not found", handler: fails(status.Error(codes.NotFound, "")), status: 404},
		{name: "an error without a status", handler: fails(errors.New("on purpose")), status: 500},
		{name: "a wrapped status", handler: fails(fmt.Errorf("get: %w", status.Error(codes.Unavailable, ""))), status: 503},
		{name: "an unknown code", handler: fails(status.Error(77, "")), status: 500},
		{name: "a panic", handler: func(context.Context, *text) (*text, error) { panic("on purpose") }, status: 500},
		{name: "a client that hangs up", handler: waits, cancel: true, status: 499, canceled: true},
		{name: "a client that hangs up, and the handler says it failed", handler: func(ctx context.Context, _ *text) (*text, error) {
			<-ctx.Done()
			return nil, status.Error(codes.Internal, "query failed")
		}, cancel: true, status: 500, canceled: true},
		{name: "a canceled call to another server", handler: fails(status.Error(codes.Canceled, "")), status: 499, canceled: true},
		{name: "a client's deadline", handler: waits, deadline: 500 * time.Millisecond, either: true, canceled: true},
		{name: "a client's deadline that another server noticed first", handler: func(ctx context.Context, _ *text) (*text, error) {
			deadline, _ := ctx.Deadline()
			time.Sleep(time.Until(deadline) * 2 / 3) // more than half of the call's time is over
			return nil, status.Error(codes.DeadlineExceeded, "")
		}, deadline: time.Second, status: 504, canceled: true, timedOut: true},
		{name: "a time-out of the handler", handler: func(ctx context.Context, _ *text) (*text, error) {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
			defer cancel()
			return waits(ctx, nil)
		}, deadline: time.Minute, status: 504},
		{name: "a time-out around the limiter", handler: waits, within: timeOut, status: 504, timedOut: true},
		{name: "a time-out around the limiter, before the client's", handler: waits, within: timeOut, deadline: time.Minute, status: 504, timedOut: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			try := func(deadline time.Duration) (o core.Outcome, inTime bool) {
				began, left := make(chan struct{}), time.Duration(0)
				s, seen := outcomes(t, &service{say: func(ctx context.Context, in *text) (*text, error) {
					close(began)
					if tt.handler == nil {
						return in, nil
					}
					m, err := tt.handler(ctx, in)
					if until, ok := ctx.Deadline(); ok {
						left = time.Until(until)
					}
					return m, err
				}}, tt.within)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if deadline > 0 {
					ctx, cancel = context.WithTimeout(t.Context(), deadline)
					defer cancel()
				}
				if tt.cancel {
					go func() {
						<-began
						cancel()
					}()
				}
				s.callWith(ctx, say)
				select {
				case <-began:
				default:
					if deadline > 0 {
						return o, false
					}
				}
				o = await(t, "the outcome", seen)
				return o, tt.either || tt.deadline == 0 || tt.within != nil || left > deadline/10
			}
			o, inTime := try(tt.deadline)
			for deadline := tt.deadline; !inTime && deadline < patience; { // on a machine that stood still for so long
				deadline *= 4
				o, inTime = try(deadline)
			}
			if tt.either {
				tt.status, tt.timedOut = o.Status, o.TimedOut
			}
			if o.Status != tt.status || o.Canceled != tt.canceled || o.TimedOut != tt.timedOut || o.Panicked != (tt.name == "a panic") {
				t.Errorf("%+v, want %+v", o, tt)
			}
			want(t, "is refunded as a server error", core.ServerErrors(o), tt.status >= 500 && !tt.canceled)
		})
	}
}

// A client can make a stream fail by what it sends, or by sending slowly.
func TestOutcomesOfStreams(t *testing.T) {
	t.Parallel()
	reading := make(chan struct{}, 1)
	for _, tt := range []struct {
		name     string
		send     func(*site, context.CancelFunc, grpc.ClientStream)
		handler  streams
		refunded bool
	}{
		{"a message that is too large", func(_ *site, _ context.CancelFunc, s grpc.ClientStream) {
			_ = s.SendMsg(textOf(strings.Repeat("a", 2000)))
		}, nil, false},
		{"a message that can't be decoded", func(_ *site, _ context.CancelFunc, s grpc.ClientStream) {
			_ = s.SendMsg(wrapperspb.Bytes([]byte{0xff}))
		}, nil, false},
		{"a reset", func(_ *site, cancel context.CancelFunc, s grpc.ClientStream) {
			_ = s.SendMsg(textOf("hello"))
			_ = s.RecvMsg(new(text))
			cancel()
		}, nil, false},
		{"a message that comes late", func(_ *site, _ context.CancelFunc, s grpc.ClientStream) {
			<-reading
			time.Sleep(200 * time.Millisecond) // for which the handler waits
			_ = s.SendMsg(textOf("hello"))
		}, func(s grpc.ServerStream) error {
			reading <- struct{}{}
			if err := s.RecvMsg(new(text)); err != nil {
				return err
			}
			return status.Error(codes.Internal, "gave up")
		}, false},
		{"a server's failure", func(_ *site, _ context.CancelFunc, s grpc.ClientStream) { _ = s.SendMsg(textOf("hello")) }, func(s grpc.ServerStream) error {
			if err := s.RecvMsg(new(text)); err != nil {
				return err
			}
			return status.Error(codes.Internal, "on purpose")
		}, true},
		{"a panic", func(*site, context.CancelFunc, grpc.ClientStream) {}, func(grpc.ServerStream) error { panic("on purpose") }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var o core.Outcome
			for attempts := 0; ; attempts++ {
				s, seen := outcomes(t, &service{chat: tt.handler}, nil)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				stream := s.open(ctx, chat)
				tt.send(s, cancel, stream)
				drain(stream)
				o = await(t, "the outcome", seen)
				late, soon := o.Waited >= 50*time.Millisecond, o.Waited < o.Duration/2
				slow := tt.refunded && late || !tt.refunded && !o.Canceled && soon // so that the message, or the handler, seems to be late
				if !slow || attempts == 10 {
					break
				}
			}
			want(t, fmt.Sprintf("refunded: %+v", o), core.ServerErrors(o), tt.refunded)
		})
	}
}

// undecodable is a stream of an interceptor around the limiter, which refuses what it reads.
type undecodable struct{ grpc.ServerStream }

func (undecodable) RecvMsg(any) error { return status.Error(codes.Internal, "bad signature") }

func TestWhatAnotherInterceptorRefusesIsTheClients(t *testing.T) {
	t.Parallel()
	seen := make(chan core.Outcome, 1)
	in := limited(t, core.NewMemory(), everyone(9, "watched").RefundOn(func(o core.Outcome) bool {
		seen <- o
		return false
	}))
	l := loopback(t)
	listen(t, l, &service{}, grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		return next(srv, undecodable{stream})
	}, in.Stream))
	s := &site{t, dial(t, "passthrough:///"+l.Addr().String())}
	drain(s.open(t.Context(), chat))
	o := await(t, "the outcome", seen)
	want(t, fmt.Sprintf("refunded: %+v", o), core.ServerErrors(o), false)
}

// callOf is a call's stream at the server, with the context of the call.
type callOf struct {
	transport
	ctx context.Context
}

func (c callOf) Context() context.Context { return c.ctx }

// The server's clock may notice a client's deadline before the client's reset arrives. The context that ends is the same as
// that of a time-out around the limiter, but the call's has ended, too.
func TestADeadlineThatTheServerNoticesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testDeadlineAtTheServer)
}

func testDeadlineAtTheServer(t *testing.T) {
	for name, clients := range map[string]bool{"the client's": true, "a time-out around the limiter": false} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		call := callOf{ctx: t.Context()}
		if clients {
			call.ctx = ctx
		}
		var got core.Outcome
		in := limited(t, core.NewMemory(), everyone(10, "watched").RefundOn(func(o core.Outcome) bool { got = o; return false }))
		_, _ = in.Unary(grpc.NewContextWithServerTransportStream(ctx, call), textOf("hello"), &grpc.UnaryServerInfo{FullMethod: say},
			func(ctx context.Context, _ any) (any, error) { return waits(ctx, nil) })
		want(t, name+" is a time-out", got.TimedOut, true)
		want(t, name+" is the client's doing", got.Canceled, clients)
	}
}
