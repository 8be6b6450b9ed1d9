package xds_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/internal/testclock"
	"github.com/weblimit/weblimit/service/envoy"
	"github.com/weblimit/weblimit/service/envoy/xds"
)

// quiet is for tests whose log does not matter.
var quiet = slog.New(slog.DiscardHandler)

// still is a store in memory whose clock stands still.
func still() *core.Memory {
	store := core.NewMemory()
	testclock.Set(store, time.Date(2025, 1, 2, 12, 0, 0, 0, time.UTC).UnixMicro)
	return store
}

// quick has a source come back soon.
func quick(config xds.Config) xds.Config {
	if config.Wait == 0 {
		config.Wait = patience
	}
	if config.Retry == 0 {
		config.Retry, config.MaxRetry = 10*time.Millisecond, 100*time.Millisecond
	}
	if config.Logger == nil {
		config.Logger = quiet
	}
	return config
}

// serving is a server whose limits come from a control plane.
type serving struct {
	*envoy.Server

	source *xds.Source
}

// newServing returns a server that follows its control plane. serve is what the control plane does meanwhile.
func newServing(t *testing.T, config xds.Config, server envoy.Config, serve func()) serving {
	t.Helper()
	source := must.Get(xds.New(quick(config)))(t)
	server.Source, server.Store = source, still()
	if server.Logger == nil {
		server.Logger = quiet
	}
	type made struct {
		server *envoy.Server
		err    error
	}
	done := make(chan made, 1)
	go func() {
		s, err := envoy.New(server)
		done <- made{s, err}
	}()
	if serve != nil {
		serve()
	}
	m := receive(t, "the server", done)
	must.OK(t, m.err)
	t.Cleanup(m.server.Watch(context.WithoutCancel(t.Context())))
	return serving{m.server, source}
}

// following returns a server that has taken the resource of the first stream, and the stream that it follows.
func following(t *testing.T, p *plane, config xds.Config, requests uint32) (serving, *stream) {
	t.Helper()
	config.Server = p.addr
	s := newServing(t, config, envoy.Config{AllowEmpty: true}, func() {
		first, _ := p.next(t)
		first.serve(t, "1", perUser("edge", requests))
	})
	st, _ := p.next(t)
	st.serve(t, "1", perUser("edge", requests))
	return s, st
}

// left returns what remains of the limit of the domain edge for a user, after one more request; -1 if it was denied, and -2 if
// no limit applies.
func (s serving) left(t *testing.T, user string) int {
	t.Helper()
	answer := must.Get(s.ShouldRateLimit(t.Context(), &rls.RateLimitRequest{Domain: "edge", Descriptors: []*ratelimit.RateLimitDescriptor{{
		Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "user", Value: user}},
	}}}))(t)
	switch status := answer.GetStatuses()[0]; {
	case status.GetCurrentLimit() == nil:
		return -2
	case answer.GetOverallCode() == rls.RateLimitResponse_OVER_LIMIT:
		return -1
	default:
		return int(status.GetLimitRemaining())
	}
}

// decides waits until the limit of the domain edge is one of so many requests.
func (s serving) decides(t *testing.T, requests int) {
	t.Helper()
	n := 0
	wait.Until(t, "another limit decides", func() bool {
		n++
		return s.left(t, time.Now().String()) == requests-1
	})
}
