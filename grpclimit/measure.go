package grpclimit

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
)

// Measurement is the server interceptors by which a [core.Load] measures handlers. Install both.
type Measurement struct{ load *core.Load }

// Measure returns interceptors by which load measures the handlers behind them, without the time
// that streams wait for their clients; see [core.Load]. It panics if load is nil.
func Measure(load *core.Load) *Measurement {
	if load == nil {
		panic("weblimit: grpclimit.Measure: the load is nil")
	}
	return &Measurement{load}
}

// Unary is a [grpc.UnaryServerInterceptor].
func (m *Measurement) Unary(ctx context.Context, message any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	call := Call{Method: path(info.FullMethod), Message: message}
	defer adapter.Begin(m.load, &request{ctx: ctx, call: call, registered: info.Server != nil}).End()
	return handler(ctx, message)
}

// Stream is a [grpc.StreamServerInterceptor].
func (m *Measurement) Stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	work := adapter.Begin(m.load, &request{ctx: stream.Context(), call: callOf(info), registered: server != nil})
	defer work.End()
	return handler(server, &measuredStream{stream, work})
}

// measuredStream notes when it waits for the client.
type measuredStream struct {
	grpc.ServerStream
	work adapter.Work
}

// RecvMsg implements [grpc.ServerStream].
func (s *measuredStream) RecvMsg(m any) error {
	s.work.Wait()
	defer s.work.Resume()
	return s.ServerStream.RecvMsg(m)
}

// SendMsg implements [grpc.ServerStream].
func (s *measuredStream) SendMsg(m any) error {
	s.work.Wait()
	defer s.work.Resume()
	return s.ServerStream.SendMsg(m)
}

// SendHeader implements [grpc.ServerStream].
func (s *measuredStream) SendHeader(md metadata.MD) error {
	s.work.Wait()
	defer s.work.Resume()
	return s.ServerStream.SendHeader(md)
}
