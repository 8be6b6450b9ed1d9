package grpclimittest_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/grpclimit"
	"github.com/weblimit/weblimit/grpclimit/grpclimittest"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/weblimittest"
)

// newClient starts a server with limits, and returns a client of it.
func newClient(t *testing.T, store core.Store, limits ...core.Limit) healthpb.HealthClient {
	t.Helper()
	server := grpc.NewServer(grpclimit.Limit(store, limits...).Options()...)
	healthpb.RegisterHealthServer(server, health.NewServer())
	l := bufconn.Listen(1 << 16)
	done := make(chan error)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		check.OK(t, <-done)
	})
	conn := must.Get(grpc.NewClient("passthrough:///test", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) })))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return healthpb.NewHealthClient(conn)
}

// serve returns a function that calls a server with limits as one of its clients.
func serve(t *testing.T, store core.Store, limits ...core.Limit) (call func(name string) *httptest.ResponseRecorder) {
	t.Helper()
	client := newClient(t, store, limits...)
	return func(name string) *httptest.ResponseRecorder {
		var header, trailer metadata.MD
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-client", name)
		_, err := client.Check(ctx, new(healthpb.HealthCheckRequest), grpc.Header(&header), grpc.Trailer(&trailer))
		return grpclimittest.Response(err, header, trailer)
	}
}

var perClient = core.PerMinute(2).By(keyfuncs.Header("X-Client")).Named("client")

func TestACallWaitsForRetryAfter(t *testing.T) {
	t.Parallel()
	store := weblimittest.New(t)
	daily := core.PerDay(9).By(keyfuncs.Header("X-Client")).Named("daily").Penalty(core.Block{After: 9, Within: time.Minute, For: time.Hour})
	call := serve(t, store, perClient, daily)

	first := call("a")
	weblimittest.Allowed(t, first)
	weblimittest.Remaining(t, first, "client", 1)
	weblimittest.Policies(t, first, "client", "daily")

	store.Exhaust("client", keyfuncs.Encode("header.x-client", "a"))
	denied := call("a")
	weblimittest.Denied(t, denied, "client")
	weblimittest.Allowed(t, call("b"))
	wait := weblimittest.RetryAfter(t, denied)
	check.Equal(t, "a call of two a minute waits", wait, 30*time.Second)
	store.Advance(wait - time.Second)
	weblimittest.Denied(t, call("a"), "client")
	store.Advance(time.Second)
	weblimittest.Allowed(t, call("a"))

	store.BlockFor("daily", time.Minute)
	blocked := call("c")
	weblimittest.Denied(t, blocked, "daily")
	check.Equal(t, "a client that is blocked for a minute waits", weblimittest.RetryAfter(t, blocked), time.Minute)
}

func TestAnOutage(t *testing.T) {
	t.Parallel()
	store := weblimittest.New(t)
	call := serve(t, store, perClient.OnOutage(core.Deny))
	for name, breaks := range map[string]func(){"fails": store.Fail, "hangs": store.Hang} {
		breaks()
		if w := call("a"); w.Code != http.StatusServiceUnavailable {
			t.Errorf("a store that %s: %d %s", name, w.Code, w.Body)
		}
		store.Recover()
	}
	weblimittest.Allowed(t, call("a"))
}

// What others call RESOURCE_EXHAUSTED, such as a message that is too large, is no denial.
func TestErrorsOfOthers(t *testing.T) {
	t.Parallel()
	for _, err := range []error{status.Error(codes.ResourceExhausted, "message larger than max"), errors.New("no status")} {
		w := grpclimittest.Response(err)
		weblimittest.Allowed(t, w)
		if w.Code != http.StatusInternalServerError {
			t.Errorf("%v: status %d", err, w.Code)
		}
	}
	weblimittest.Policies(t, grpclimittest.Response(nil))
}

// The code of docs/use/testing.md.
func TestACallOverItsLimit(t *testing.T) {
	t.Parallel()
	store := weblimittest.New(t)
	client := newClient(t, store, perClient)
	store.Exhaust("client")

	var header, trailer metadata.MD
	_, err := client.Check(t.Context(), new(healthpb.HealthCheckRequest), grpc.Header(&header), grpc.Trailer(&trailer))
	weblimittest.Denied(t, grpclimittest.Response(err, header, trailer), "client")
}
