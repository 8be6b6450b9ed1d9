package envoy_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/testclock"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/service/envoy"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	ok   = rls.RateLimitResponse_OK
	over = rls.RateLimitResponse_OVER_LIMIT
)

// quiet is for tests whose log does not matter.
var quiet = slog.New(slog.DiscardHandler)

// noon is early in every unit but the year: nothing starts anew during a test.
var noon = time.Date(2025, 1, 2, 12, 0, 0, 0, time.UTC)

// still is a store in memory whose clock stands still.
func still() *core.Memory { return at(noon.UnixMicro) }

// at is a store in memory with a clock.
func at(now func() int64) *core.Memory {
	store := core.NewMemory()
	testclock.Set(store, now)
	return store
}

func newServer(t testing.TB, config envoy.Config, texts ...string) *envoy.Server {
	t.Helper()
	if config.Source == nil {
		config.Source = envoy.Files(files(texts...)...)
	}
	if config.Store == nil {
		config.Store = still()
	}
	if config.Logger == nil {
		config.Logger = quiet
	}
	return must.Get(envoy.New(config))(t)
}

// direct asks a server without the network.
type direct struct{ *envoy.Server }

func (d direct) ShouldRateLimit(ctx context.Context, r *rls.RateLimitRequest, _ ...grpc.CallOption) (*rls.RateLimitResponse, error) {
	return d.Server.ShouldRateLimit(ctx, r)
}

// wantAnswers asks for the same again and again.
func wantAnswers(t *testing.T, c rls.RateLimitServiceClient, r *rls.RateLimitRequest, wants ...string) {
	t.Helper()
	for _, want := range wants {
		wantSaid(t, ask(t, c, r), want)
	}
}

func files(texts ...string) (all []policy.File) {
	for i, text := range texts {
		all = append(all, policy.File{Name: string(rune('a'+i)) + ".yaml", Text: []byte(text)})
	}
	return all
}

// dial serves a server on the loopback, and returns a client of go-control-plane.
func dial(t testing.TB, s *envoy.Server) rls.RateLimitServiceClient {
	t.Helper()
	return rls.NewRateLimitServiceClient(connect(t, s))
}

func connect(t testing.TB, s *envoy.Server, options ...grpc.ServerOption) *grpc.ClientConn {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	g := grpc.NewServer(options...)
	s.Register(g)
	go func() { _ = g.Serve(listener) }()
	t.Cleanup(g.Stop)
	conn := must.Get(grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// request is a request of a domain, with descriptors such as "user=alice,path=/a". An entry without =
// has no value.
func request(domain string, descriptors ...string) *rls.RateLimitRequest {
	r := &rls.RateLimitRequest{Domain: domain}
	for _, d := range descriptors {
		r.Descriptors = append(r.Descriptors, descriptor(d))
	}
	return r
}

func descriptor(text string) *ratelimit.RateLimitDescriptor {
	d := new(ratelimit.RateLimitDescriptor)
	if text == "" {
		return d
	}
	for entry := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(entry, "=")
		d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	return d
}

func ask(t testing.TB, c rls.RateLimitServiceClient, r *rls.RateLimitRequest) *rls.RateLimitResponse {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	response, err := c.ShouldRateLimit(ctx, r)
	if err != nil {
		t.Fatalf("%v: %v", r, err)
	}
	if len(response.GetStatuses()) != len(r.GetDescriptors()) {
		t.Fatalf("%v: %d statuses", r, len(response.GetStatuses()))
	}
	return response
}
