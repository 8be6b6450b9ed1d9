package grpclimit_test

import (
	"context"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/grpclimit"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/internal/test/must"
)

func TestMain(m *testing.M) { os.Exit(limittest.Main(m)) }

// The methods of the test service.
const (
	say   = "/test.Service/Say"   // unary
	ask   = "/test.Service/Ask"   // unary, another
	chat  = "/test.Service/Chat"  // messages both ways
	watch = "/test.Service/Watch" // one message, then a stream to the client
)

type (
	text         = wrapperspb.StringValue
	unaryHandler = func(ctx context.Context, in *text) (*text, error)
	streams      = func(grpc.ServerStream) error
)

// service is the implementation of test.Service. Nil fields echo.
type service struct {
	say  unaryHandler
	chat streams
}

func (s *service) handle(ctx context.Context, in *text) (*text, error) {
	if s.say != nil {
		return s.say(ctx, in)
	}
	return in, nil
}

func (s *service) stream(stream grpc.ServerStream) error {
	if s.chat != nil {
		return s.chat(stream)
	}
	for {
		in := new(text)
		if err := stream.RecvMsg(in); err != nil {
			return endOf(err)
		}
		if err := stream.SendMsg(in); err != nil {
			return err
		}
	}
}

// endOf returns nil for the end of a client's stream.
func endOf(err error) error {
	if err.Error() == "EOF" {
		return nil
	}
	return err
}

// drain receives until a stream ends.
func drain(stream interface{ RecvMsg(m any) error }) {
	for {
		if err := stream.RecvMsg(new(text)); err != nil {
			return
		}
	}
}

var desc = grpc.ServiceDesc{
	ServiceName: "test.Service",
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{unary("Say"), unary("Ask")},
	Streams: []grpc.StreamDesc{
		{StreamName: "Chat", Handler: streamHandler, ServerStreams: true, ClientStreams: true},
		{StreamName: "Watch", Handler: streamHandler, ServerStreams: true},
	},
}

func unary(name string) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		in := new(text)
		if err := dec(in); err != nil {
			return nil, err
		}
		handler := func(ctx context.Context, in any) (any, error) { return srv.(*service).handle(ctx, in.(*text)) }
		if interceptor == nil {
			return handler(ctx, in)
		}
		return interceptor(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: "/test.Service/" + name}, handler)
	}}
}

func streamHandler(srv any, stream grpc.ServerStream) error { return srv.(*service).stream(stream) }

// listen starts a server on l. Options are those of interceptors and more.
func listen(tb testing.TB, l net.Listener, s *service, options ...grpc.ServerOption) {
	tb.Helper()
	server := grpc.NewServer(options...)
	server.RegisterService(&desc, s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	tb.Cleanup(func() {
		go server.Stop()
		await(tb, "the end of the server", done)
	})
}

// patience is how long tests wait for what should come at once, on a machine that runs all
// tests at the same time.
const patience = 3 * time.Minute

// await receives what should come soon.
func await[T any](tb testing.TB, what string, from <-chan T) (v T) {
	tb.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		buf := make([]byte, 1<<20)
		tb.Fatalf("%s: not within %v\n%s", what, patience, buf[:runtime.Stack(buf, true)])
	}
	return v
}

func loopback(tb testing.TB) net.Listener {
	tb.Helper()
	return must.Get(net.Listen("tcp", "127.0.0.1:0"))(tb)
}

// dial connects to a server.
func dial(tb testing.TB, target string, options ...grpc.DialOption) *grpc.ClientConn {
	tb.Helper()
	conn := must.Get(grpc.NewClient(target, append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, options...)...))(tb)
	tb.Cleanup(func() { _ = conn.Close() })
	return conn
}

// site is a client of a server with limits.
type site struct {
	testing.TB
	conn *grpc.ClientConn
}

// serve starts a server with interceptors, from the outside in, and a client of it.
func serve(tb testing.TB, s *service, in ...*grpclimit.Interceptors) *site {
	tb.Helper()
	l := loopback(tb)
	listen(tb, l, s, options(in...)...)
	return &site{tb, dial(tb, "passthrough:///"+l.Addr().String())}
}

func options(in ...*grpclimit.Interceptors) []grpc.ServerOption {
	var options []grpc.ServerOption
	for _, i := range in {
		options = append(options, grpc.ChainUnaryInterceptor(i.Unary), grpc.ChainStreamInterceptor(i.Stream))
	}
	return options
}

// answer is the response of a call.
type answer struct {
	code            codes.Code
	status          *status.Status
	header, trailer metadata.MD
}

// call makes a unary call with metadata in pairs.
func (s *site) call(method string, pairs ...string) answer {
	s.Helper()
	return s.callWith(metadata.AppendToOutgoingContext(s.Context(), pairs...), method)
}

// callWith makes a unary call that needs no deadline: it ends with the patience of tests.
func (s *site) callWith(ctx context.Context, method string) answer {
	s.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(patience, func() {
		s.Errorf("%s: no answer within %v", method, patience)
		cancel()
	}).Stop()
	var a answer
	out := new(text)
	err := s.conn.Invoke(ctx, method, wrapperspb.String("hello"), out, grpc.Header(&a.header), grpc.Trailer(&a.trailer))
	a.status = status.Convert(err)
	a.code = a.status.Code()
	return a
}

// open opens a stream. Reading from it fails if nothing comes for long, or when the test ends.
func (s *site) open(ctx context.Context, method string) grpc.ClientStream {
	s.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	s.Cleanup(cancel)
	return must.Get(s.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method))(s)
}

// limiter makes a limiter with a long timeout: a machine that runs all tests at once is slow.
func limiter(tb testing.TB, config core.Config) *core.Limiter {
	tb.Helper()
	if config.Timeout == 0 {
		config.Timeout = patience
	}
	return must.Get(core.New(config))(tb)
}

// limited is interceptors of limits on a store.
func limited(tb testing.TB, store core.Store, limits ...core.Limit) *grpclimit.Interceptors {
	tb.Helper()
	return grpclimit.New(limiter(tb, core.Config{Store: store, Limits: limits}))
}

func want[T comparable](tb testing.TB, what string, got, want T) {
	tb.Helper()
	check.Equal(tb, what, got, want)
}

// only returns the one value of a metadata key, "" if there is none.
func only(tb testing.TB, md metadata.MD, key string) string {
	tb.Helper()
	values := md[key]
	switch len(values) {
	case 0:
		return ""
	case 1:
	default:
		tb.Errorf("%s has %d values: %q", key, len(values), values)
	}
	return values[0]
}

// eventually waits until what holds, for a settlement happens in the background.
func eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if holds() {
			return
		}
	}
	tb.Errorf("%s: not within %v", what, patience)
}

// valuesOf returns the values of a metadata key of a call.
func valuesOf(ctx context.Context, key string) []string {
	return metadata.ValueFromIncomingContext(ctx, key)
}
