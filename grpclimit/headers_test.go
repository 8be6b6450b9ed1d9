package grpclimit_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/grpclimit"
	"github.com/weblimit/weblimit/keyfuncs"
)

func everyone(n int64, name string) core.Limit {
	return core.PerDay(n).By(keyfuncs.Everyone()).Named(name)
}

// Headers are with the first message, or with the end of a response without one.
func TestWhereHeadersAre(t *testing.T) {
	t.Parallel()
	own := metadata.Pairs("own", "1")
	for _, tt := range []struct {
		name    string
		service service
		method  string
		header  bool // else trailer
		first   string
	}{
		{"a reply", service{}, say, true, ""},
		{"a failure", service{say: func(context.Context, *text) (*text, error) { return nil, status.Error(codes.NotFound, "none") }}, say, false, ""},
		{"a reply with headers", service{say: func(ctx context.Context, in *text) (*text, error) { return in, grpc.SetHeader(ctx, own) }}, say, true, "1"},
		{"a reply after its headers", service{say: func(ctx context.Context, in *text) (*text, error) { return in, grpc.SendHeader(ctx, own) }}, say, false, "1"},
		{"a stream", service{}, chat, true, ""},
		{"a stream with headers", service{chat: func(s grpc.ServerStream) error { return s.SendHeader(own) }}, chat, true, "1"},
		{"a stream with set headers", service{chat: func(s grpc.ServerStream) error { _ = s.SetHeader(own); return s.SendMsg(new(text)) }}, chat, true, "1"},
		{"a stream after its headers", service{chat: func(s grpc.ServerStream) error {
			if err := grpc.SendHeader(s.Context(), own); err != nil {
				return err
			}
			return s.SendMsg(new(text))
		}}, chat, false, "1"},
		{"an empty stream", service{chat: func(grpc.ServerStream) error { return nil }}, chat, true, ""},
		{"a failed stream", service{chat: func(grpc.ServerStream) error { return status.Error(codes.Internal, "on purpose") }}, chat, false, ""},
	} {
		s := serve(t, &tt.service, limited(t, core.NewMemory(), everyone(9, "api")))
		var a answer
		if tt.method == say {
			a = s.call(say)
		} else {
			stream := s.open(t.Context(), chat)
			_ = stream.SendMsg(new(text))
			_ = stream.CloseSend()
			drain(stream)
			a.header, _ = stream.Header()
			a.trailer = stream.Trailer()
		}
		with, without := a.header, a.trailer
		if !tt.header {
			with, without = without, with
		}
		want(t, tt.name, only(t, with, "ratelimit-policy"), `"api";q=9;w=86400`)
		want(t, tt.name, only(t, with, "ratelimit"), `"api";r=8;t=76800`)
		want(t, tt.name+": the others", len(without["ratelimit"])+len(without["ratelimit-policy"]), 0)
		want(t, tt.name+": its own", only(t, a.header, "own"), tt.first)
	}
}

// Several limiters write one set of headers, as over HTTP.
func TestHeadersOfTwoLimiters(t *testing.T) {
	t.Parallel()
	of := func(l core.Limit) *grpclimit.Interceptors {
		return grpclimit.New(limiter(t, core.Config{Store: core.NewMemory(), Headers: core.Draft11 | core.XRateLimit, Limits: []core.Limit{l}}))
	}
	s := serve(t, &service{}, of(everyone(5, "outer")), of(everyone(2, "inner")))
	for _, left := range []string{"1", "0"} {
		a := s.call(say)
		want(t, "policy", only(t, a.header, "ratelimit-policy"), `"outer";q=5;w=86400, "inner";q=2;w=86400`)
		want(t, "X-RateLimit-Remaining", only(t, a.header, "x-ratelimit-remaining"), left)
	}
	a := s.call(say)
	want(t, "code", a.code, codes.ResourceExhausted)
	want(t, "policy", only(t, a.trailer, "ratelimit-policy"), `"outer";q=5;w=86400, "inner";q=2;w=86400`)
	want(t, "X-RateLimit-Limit", only(t, a.trailer, "x-ratelimit-limit"), "2")
	want(t, "Retry-After", only(t, a.trailer, "retry-after") != "", true)
	want(t, "pushback", only(t, a.trailer, "grpc-retry-pushback-ms"), "-1")
	want(t, "header metadata", len(a.header), 0)
}

func TestHeadersInAllDialects(t *testing.T) {
	t.Parallel()
	for dialect, names := range map[core.Headers][]string{
		core.Draft11:         {"ratelimit", "ratelimit-policy"},
		core.Draft07:         {"ratelimit", "ratelimit-policy"},
		core.Draft03:         {"ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"},
		core.XRateLimit:      {"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"},
		core.XRateLimitDelta: {"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"},
		core.XQuota:          {"x-quota-limit", "x-quota-remaining", "x-quota-reset"},
	} {
		s := serve(t, &service{}, grpclimit.New(limiter(t, core.Config{
			Store: core.NewMemory(), Headers: dialect,
			Limits: []core.Limit{core.PerMonth(1, time.UTC).By(keyfuncs.Everyone()).Named("api").WarnAt(0.5)},
		})))
		a := s.call(say)
		want(t, "warning", strings.HasPrefix(only(t, a.header, "x-ratelimit-warning"), "approaching limit"), true)
		denied := s.call(say)
		for _, name := range names {
			want(t, name, only(t, a.header, name) != "", true)
			want(t, name, only(t, denied.trailer, name) != "", true)
		}
	}
	s := serve(t, &service{}, grpclimit.New(limiter(t, core.Config{
		Store: core.NewMemory(), HeadersWhen: core.Never, Limits: []core.Limit{everyone(1, "api")},
	})))
	want(t, "none", len(s.call(say).header["ratelimit"]), 0)
	a := s.call(say)
	want(t, "none", len(a.trailer["ratelimit"]), 0)
	want(t, "Retry-After", only(t, a.trailer, "retry-after") != "", true)
}

func TestTheHandlerKnowsTheDecision(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 1)
	note := func(ctx context.Context) {
		d, ok := grpclimit.FromContext(ctx)
		binding, _ := d.Binding()
		if !ok || binding.Rule == nil {
			seen <- "nothing"
			return
		}
		seen <- binding.Rule.Name
	}
	s := serve(t, &service{
		say:  func(ctx context.Context, in *text) (*text, error) { note(ctx); return in, nil },
		chat: func(s grpc.ServerStream) error { note(s.Context()); return nil },
	}, limited(t, core.NewMemory(), everyone(9, "outer")), limited(t, core.NewMemory(), everyone(9, "inner"), everyone(99, "third")))
	want(t, "code", s.call(say).code, codes.OK)
	want(t, "unary", await(t, "the unary handler", seen), "inner")
	stream := s.open(t.Context(), chat)
	_ = stream.RecvMsg(new(text))
	want(t, "stream", await(t, "the stream's handler", seen), "inner")
}
