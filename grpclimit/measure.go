package grpclimit

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/weblimit/weblimit/core"
)

// Measure returns options of a server by which load measures its handlers, without the time that streams wait for their
// clients; see [core.Load]. The options have the place of their interceptors: put those of a limiter in front, since a
// call that it denies is no load. It panics if load is nil.
func Measure(load *core.Load) []grpc.ServerOption {
	if load == nil {
		panic("weblimit: grpclimit.Measure: the load is nil")
	}
	m := measurement{load}
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(m.unary), grpc.ChainStreamInterceptor(m.stream)}
}

type measurement struct{ load *core.Load }

func (m measurement) unary(ctx context.Context, message any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	call := Call{Method: path(info.FullMethod), Message: message}
	defer m.load.Begin(&request{ctx: ctx, call: call, registered: info.Server != nil}).End()
	return handler(ctx, message)
}

func (m measurement) stream(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	work := m.load.Begin(&request{ctx: stream.Context(), call: callOf(info), registered: server != nil})
	defer work.End()
	return handler(server, &measuredStream{stream, work})
}

// measuredStream notes when it waits for the client.
type measuredStream struct {
	grpc.ServerStream
	work *core.Work
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
