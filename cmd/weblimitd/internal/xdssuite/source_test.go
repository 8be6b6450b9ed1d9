package xdssuite

import (
	"context"
	"log/slog"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
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

// following is a server that follows a control plane.
type following struct {
	*envoy.Server

	source *xds.Source
}

func follow(t *testing.T, p *plane, config envoy.Config) following {
	t.Helper()
	patience := 3 * time.Minute
	if config.StartWithout {
		patience = 200 * time.Millisecond
	}
	source := must.Get(xds.New(xds.Config{
		Server: p.addr, NodeID: node, Metadata: map[string]string{"zone": "a"}, Retry: 10 * time.Millisecond, MaxRetry: 100 * time.Millisecond,
		Wait: patience, Logger: quiet,
	}))(t)
	config.Source, config.Store, config.Logger = source, still(), quiet
	s := must.Get(envoy.New(config))(t)
	t.Cleanup(s.Watch(context.WithoutCancel(t.Context())))
	return following{s, source}
}

// left is what remains of the limit of the domain edge after one more request; -1 if no limit applies.
func left(t *testing.T, c interface {
	ShouldRateLimit(ctx context.Context, r *rls.RateLimitRequest) (*rls.RateLimitResponse, error)
}, user string,
) int {
	t.Helper()
	answer := must.Get(c.ShouldRateLimit(t.Context(), request(user)))(t)
	if answer.GetStatuses()[0].GetCurrentLimit() == nil {
		return -1
	}
	return int(answer.GetStatuses()[0].GetLimitRemaining())
}

func request(user string) *rls.RateLimitRequest {
	return &rls.RateLimitRequest{Domain: "edge", Descriptors: []*ratelimit.RateLimitDescriptor{{
		Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "user", Value: user}},
	}}}
}

// The control plane of Envoy Gateway has nothing for its rate limit service until there is a Gateway, and then an empty set until
// there is a policy. The service serves, and has each limit as soon as there is one.
func TestAGatewayWithoutPolicies(t *testing.T) {
	t.Parallel()
	p := startPlane(t, "")
	s := follow(t, p, envoy.Config{AllowEmpty: true, StartWithout: true})
	check.Equal(t, "before there is anything", left(t, s, "a"), -1)
	check.Fails(t, "the status", s.Status().Err, "no configuration from")
	p.set(t, "1")
	p.accepts(t, "1")
	check.OK(t, s.Status().Err)
	check.Equal(t, "without policies", left(t, s, "a"), -1)
	p.set(t, "2", perUser("edge", 3), perUser("other", 1))
	p.accepts(t, "2")
	check.Equal(t, "with one", left(t, s, "a"), 2)
	p.set(t, "3")
	p.accepts(t, "3")
	check.Equal(t, "without it again", left(t, s, "a"), -1)
	p.mu.Lock()
	defer p.mu.Unlock()
	check.Equal(t, "the node", p.node.GetId(), node)
	check.Equal(t, "its metadata", p.node.GetMetadata().GetFields()["zone"].GetStringValue(), "a")
}

// A configuration that can't decide is refused with its reason. The snapshot cache sends it again after each refusal, and what is
// good is taken nevertheless.
func TestARefusedConfiguration(t *testing.T) {
	t.Parallel()
	p := startPlane(t, "")
	p.set(t, "0", perUser("edge", 9))
	s := follow(t, p, envoy.Config{AllowEmpty: true})
	p.set(t, "1", perUser("edge", 3))
	p.accepts(t, "1") // on the stream that follows
	wrong := perUser("edge", 5)
	wrong.Descriptors[0].RateLimit.Unit = 0
	p.set(t, "2", wrong)
	said := p.hears(t, "what is wrong", func(r *discovery.DiscoveryRequest) bool { return r.GetErrorDetail() != nil })
	check.Equal(t, "the version that decides", said.GetVersionInfo(), "1")
	check.Contains(t, "the reason", said.GetErrorDetail().GetMessage(), "edge:2:")
	check.Contains(t, "the reason", said.GetErrorDetail().GetMessage(), "descriptors[0].rate_limit: rate_limit needs a unit")
	check.Equal(t, "the limit before", left(t, s, "a"), 2)
	check.Fails(t, "the status", s.Status().Err, "needs a unit")
	p.mu.Lock()
	requests := len(p.said)
	p.mu.Unlock()
	wait.Until(t, "it is sent again", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.said) > requests
	})
	check.Equal(t, "refused", s.Status().Refused, 1)
	p.set(t, "3", perUser("edge", 9))
	p.accepts(t, "3")
	check.Equal(t, "the new limit", left(t, s, "a"), 7)
	check.OK(t, s.Status().Err)
}

// A control plane that starts again counts its versions anew: the same one can be something else.
func TestAControlPlaneThatStartsAgain(t *testing.T) {
	t.Parallel()
	p := startPlane(t, "")
	p.set(t, "1", perUser("edge", 3))
	s := follow(t, p, envoy.Config{AllowEmpty: true})
	p.accepts(t, "1")
	p.stop()
	wait.Until(t, "it is away", func() bool { return !s.source.Status().Connected })
	check.Equal(t, "the limit before", left(t, s, "a"), 2)
	again := startPlane(t, p.addr)
	again.set(t, "1", perUser("edge", 9))
	again.accepts(t, "1")
	check.Equal(t, "the new limit", left(t, s, "a"), 7)
}
