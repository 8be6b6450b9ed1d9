package grpclimit

import (
	"context"
	"net/http"
	"sync"

	"google.golang.org/grpc"

	"github.com/weblimit/weblimit/core"
)

// Messages is a [grpc.StreamServerInterceptor]. It decides each message that a client sends on a
// stream, when the handler receives it: without it a client that may start a stream can send as
// many messages as it likes. [Call.Message] is the message, for [Cost] and [Key].
//
//	calls := grpclimit.Limit(store, core.PerMinute(60).By(user).Named("calls"))
//	messages := grpclimit.Limit(store, core.PerSecond(20).By(user).Named("messages"))
//	grpc.NewServer(
//		grpc.ChainUnaryInterceptor(calls.Unary),
//		grpc.ChainStreamInterceptor(calls.Stream, messages.Messages))
//
// A denied message is not delivered. It ends the stream with the error of the denial, whatever
// the handler returns: its context ends, and reading and sending fail. A limit with core.Limit.Wait or LeakyBucket slows the stream down instead:
// the client's flow control then holds it back. Allowed messages set no headers, and what a limit
// reserves for a message is held until the handler receives the next one: to core.Limit.RefundOn each
// message is a success, and [core.Spend] is for limits of calls.
//
// A limiter whose Stream is installed, too, counts the start of a stream like a message.
func (in *Interceptors) Messages(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	s := &messageStream{ServerStream: stream, limiter: in, call: callOf(info), server: server, ctx: stream.Context()}
	if skip, err := s.skips(); err != nil {
		return err
	} else if skip {
		return handler(server, stream)
	}
	s.ctx, s.cancel = context.WithCancel(stream.Context())
	defer s.cancel()
	defer s.end()
	err := handler(server, s)
	if denied := s.denial(); denied != nil {
		return denied
	}
	return err
}

// messageStream asks a limiter for each message. RecvMsg is not called concurrently, but perhaps
// in a goroutine that outlives the handler.
type messageStream struct {
	grpc.ServerStream
	limiter *Interceptors
	call    Call
	server  any

	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	last   *core.Decision // of the last message, if it reserved something. Guarded by mu.
	denied error          // once a message was denied. Guarded by mu.
	ended  bool           // the handler has. Guarded by mu.
}

// Context returns the context of the stream, which ends when a message is denied.
func (s *messageStream) Context() context.Context { return s.ctx }

// SendMsg implements [grpc.ServerStream].
func (s *messageStream) SendMsg(m any) error {
	if denied := s.denial(); denied != nil {
		return denied
	}
	return s.ServerStream.SendMsg(m)
}

// RecvMsg implements [grpc.ServerStream].
func (s *messageStream) RecvMsg(m any) error {
	if denied := s.denial(); denied != nil {
		return denied
	}
	s.reserve(nil)
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if err := s.decide(m); err != nil {
		return s.deny(err)
	}
	return nil
}

// skips reports whether the messages of the stream are not limited.
func (s *messageStream) skips() (skip bool, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = panicked(s.Context(), s.call, value)
		}
	}()
	return s.limiter.config.Skip != nil && s.limiter.config.Skip(s.Context(), s.call), nil
}

// decide returns the error of a message that is denied.
func (s *messageStream) decide(m any) (err error) {
	call := s.call
	call.Message = m
	defer func() {
		if value := recover(); value != nil {
			err = panicked(s.Context(), call, value)
		}
	}()
	x := s.limiter.ask(s.Context(), call, s.server, s.ServerStream)
	if !x.Decision.Allowed {
		x.writeHeaders()
		return s.limiter.deny(x)
	}
	if x.follows {
		s.reserve(&x.Decision)
	}
	return nil
}

func (s *messageStream) denial() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.denied
}

func (s *messageStream) deny(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied = err
	s.cancel()
	return err
}

// reserve ends what the last message has reserved, and notes the decision of the next, if any.
func (s *messageStream) reserve(next *core.Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil {
		s.last.Settle(core.Outcome{Status: http.StatusOK})
	}
	s.last = next
	if s.ended && next != nil {
		next.Settle(core.Outcome{Status: http.StatusOK})
	}
}

// end is to be deferred around the handler.
func (s *messageStream) end() {
	s.reserve(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}
