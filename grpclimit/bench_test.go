package grpclimit_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/grpclimit"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/internal/test/race"
	"github.com/weblimit/weblimit/keyfuncs"
)

// transport is a grpc.ServerTransportStream that keeps nothing.
type transport struct{}

func (transport) Method() string               { return say }
func (transport) SetHeader(metadata.MD) error  { return nil }
func (transport) SendHeader(metadata.MD) error { return nil }
func (transport) SetTrailer(metadata.MD) error { return nil }

// one calls an interceptor as a server would.
func one(tb testing.TB, in *grpclimit.Interceptors) func() {
	tb.Helper()
	ctx := grpc.NewContextWithServerTransportStream(tb.Context(), transport{})
	ctx = peer.NewContext(ctx, &peer.Peer{Addr: loopbackAddr})
	ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("x-tenant", "42"))
	info := &grpc.UnaryServerInfo{Server: &service{}, FullMethod: say}
	message := wrapperspb.String("hello")
	handler := func(context.Context, any) (any, error) { return message, nil }
	return func() { _, _ = in.Unary(ctx, message, info, handler) }
}

var loopbackAddr = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}

func config(tb testing.TB, when core.HeadersWhen, limits ...core.Limit) *grpclimit.Interceptors {
	tb.Helper()
	return grpclimit.New(limiter(tb, core.Config{Store: core.NewMemory(), Limits: limits, HeadersWhen: when}))
}

const ample = 1_000_000_000

// What an allowed unary call allocates in addition: the decision, with everything that belongs to
// it, in one; for headers, the metadata and the slice of its values, in two. grpc copies
// metadata, with its own allocations. A key from metadata costs the copy of its values and its name in
// lower case.
func TestAllocations(t *testing.T) { // not parallel: it counts the allocations of the process
	race.Skip(t)
	byIP := core.PerSecond(ample).By(keyfuncs.ClientIP())
	for _, tt := range []struct {
		name string
		in   *grpclimit.Interceptors
		want float64
	}{
		{"without headers", config(t, core.OnDenial, byIP), 1},
		{"with headers", config(t, core.Always, byIP), 4},
		{"three limits", config(t, core.OnDenial, byIP, byIP.Named("b"), byIP.Named("c")), 1},
		{"by metadata", config(t, core.OnDenial, core.PerSecond(ample).By(keyfuncs.Header("X-Tenant"))), 3},
	} {
		call := one(t, tt.in)
		for range 2000 { // the first are looked at for advice
			call()
		}
		if got := testing.AllocsPerRun(2000, call); got > tt.want {
			t.Errorf("%s: %v allocations, want at most %v", tt.name, got, tt.want)
		}
	}
}

func BenchmarkInterceptor(b *testing.B) {
	byIP := core.PerSecond(ample).By(keyfuncs.ClientIP())
	for _, bm := range []struct {
		name string
		in   *grpclimit.Interceptors
	}{
		{"no headers", config(b, core.OnDenial, byIP)},
		{"headers", config(b, core.Always, byIP)},
		{"three limits", config(b, core.Always, byIP, byIP.Named("b"), byIP.Named("c"))},
		{"metadata", config(b, core.OnDenial, core.PerSecond(ample).By(keyfuncs.Header("X-Tenant")))},
		{"settled", config(b, core.OnDenial, core.PerSecond(ample).By(keyfuncs.Everyone()).RefundOn(core.ServerErrors))},
		{"denied", grpclimit.New(limittest.Exhausted())},
	} {
		b.Run(bm.name, func(b *testing.B) {
			call := one(b, bm.in)
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}

// A whole call over loopback, beside one without a limiter.
func whole(b *testing.B, in ...*grpclimit.Interceptors) {
	b.Helper()
	s := serve(b, &service{}, in...)
	message, out := wrapperspb.String("hello"), new(text)
	_ = s.conn.Invoke(b.Context(), say, message, out) // connects
	b.ReportAllocs()
	for b.Loop() {
		_ = s.conn.Invoke(b.Context(), say, message, out)
	}
}

func BenchmarkBare(b *testing.B) { whole(b) }

func BenchmarkAllowed(b *testing.B) { whole(b, grpclimit.New(limittest.Ample(1))) }

func BenchmarkAllowedThreeLimits(b *testing.B) { whole(b, grpclimit.New(limittest.Ample(3))) }

func BenchmarkDenied(b *testing.B) { whole(b, grpclimit.New(limittest.Exhausted())) }
