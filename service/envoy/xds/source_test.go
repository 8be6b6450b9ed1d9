package xds_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rlsconf "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/service/envoy"
	"github.com/weblimit/weblimit/service/envoy/xds"
)

// What the control plane has first decides, and then each change. It hears of each once that decides.
func TestChanges(t *testing.T) {
	t.Parallel()
	p := startPlane(t, "")
	config := xds.Config{Server: p.addr, NodeID: "me", Metadata: map[string]string{"zone": "a"}}
	s := newServing(t, config, envoy.Config{AllowEmpty: true}, func() {
		st, request := p.next(t)
		check.Equal(t, "the type", request.GetTypeUrl(), typeURL)
		check.Equal(t, "the node", request.GetNode().GetId(), "me")
		check.Equal(t, "its metadata", request.GetNode().GetMetadata().GetFields()["zone"].GetStringValue(), "a")
		check.Equal(t, "names of resources", len(request.GetResourceNames()), 0)
		accepts(t, "1", st.serve(t, "1", perUser("edge", 3)))
		receive(t, "the end of the first stream", st.gone)
	})
	check.Equal(t, "what is left", s.left(t, "a"), 2)
	st, request := p.next(t)
	check.Equal(t, "the version that a new stream asks from", request.GetVersionInfo(), "")
	accepts(t, "1", st.serve(t, "1", perUser("edge", 3)))
	check.Equal(t, "changes", s.Status().Changes, 0)

	accepts(t, "2", st.serve(t, "2", perUser("edge", 5), perUser("other", 1)))
	check.Equal(t, "what is used stays used", s.left(t, "a"), 3)
	check.Equal(t, "domains", s.Status().Domains, 2)
	accepts(t, "3", st.serve(t, "3", perUser("other", 1), perUser("edge", 5))) // the same in another order
	check.Equal(t, "changes", s.Status().Changes, 1)
	accepts(t, "4", st.serve(t, "4"))
	check.Equal(t, "without resources", s.left(t, "a"), -2)
	check.Equal(t, "domains", s.Status().Domains, 0)
	accepts(t, "5", st.serve(t, "5", perUser("edge", 5)))
	check.Equal(t, "what was used is still", s.left(t, "a"), 2)

	now := s.source.Status()
	check.Equal(t, "connected", now.Connected && now.Err == nil, true)
	check.Equal(t, "the version", now.Version, "5")
	check.Equal(t, "accepted", now.Accepted, 4)
	check.Equal(t, "refused", now.Refused, 0)
}

func accepts(t *testing.T, version string, said *discovery.DiscoveryRequest) {
	t.Helper()
	if said.GetVersionInfo() != version || said.GetErrorDetail() != nil {
		t.Errorf("of version %s it says %v", version, said)
	}
}

func refuses(t *testing.T, before string, said *discovery.DiscoveryRequest, why string) {
	t.Helper()
	check.Equal(t, "the version that decides", said.GetVersionInfo(), before)
	check.Equal(t, "the code", codes.Code(said.GetErrorDetail().GetCode()), codes.InvalidArgument)
	check.Contains(t, "the refusal", said.GetErrorDetail().GetMessage(), why)
}

// The server judges what the control plane sends, and the control plane hears everything that is wrong with it.
func TestARefusalSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	p := startPlane(t, "")
	s, st := following(t, p, xds.Config{}, 3)
	wrong := perUser("edge", 5)
	wrong.Descriptors[0].RateLimit.Unit = 9
	wrong.Descriptors = append(wrong.Descriptors, &rlsconf.RateLimitDescriptor{Value: "x"})
	other := perUser("edge", 7)
	other.Name = "other"
	said := st.serve(t, "2", wrong, other)
	refuses(t, "1", said, `descriptors[0].rate_limit.unit: unknown unit "9"`)
	refuses(t, "1", said, "descriptors[1]: a descriptor needs a key")
	refuses(t, "1", said, "other:1:12: domain: the domain")
	check.Equal(t, "the limit before", s.left(t, "a"), 2)
	now := s.Status()
	if wrong := (*envoy.Error)(nil); !errors.As(now.Err, &wrong) || len(wrong.Problems) != 3 {
		t.Errorf("the status says %v", now.Err)
	}
	check.Equal(t, "refused", now.Refused, 1)
	check.Equal(t, "refused", s.source.Status().Refused, 1)

	// A control plane may send the same again at once. It is not judged again, and the answer takes its time.
	began := time.Now()
	refuses(t, "1", st.serve(t, "2", wrong, other), "unknown unit")
	refuses(t, "1", st.serve(t, "2b", other, wrong), "unknown unit") // in another order, as of a map
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("two more refusals took %v", took)
	}
	check.Equal(t, "refused", s.Status().Refused, 1)

	accepts(t, "3", st.serve(t, "3", perUser("edge", 3)))
	check.OK(t, s.Status().Err)
	accepts(t, "4", st.serve(t, "4", perUser("edge", 4)))
	check.Equal(t, "the new limit", s.left(t, "a"), 2)
	check.Equal(t, "the version", s.source.Status().Version, "4")
}

// While the control plane is away, what decided goes on. It may come back with the same version for something else.
func TestAwayAndBack(t *testing.T) {
	t.Parallel()
	p := startPlane(t, "")
	s, _ := following(t, p, xds.Config{}, 3)
	p.server.Stop()
	wait.Until(t, "the stream is lost", func() bool { return !s.source.Status().Connected })
	wait.Until(t, "it is known why", func() bool { return strings.Contains(s.source.Status().Err.Error(), "refused") })
	check.Equal(t, "the limit before", s.left(t, "a"), 2)
	check.OK(t, s.Reload(t.Context())) // of which nothing is wrong
	check.OK(t, s.Status().Err)

	again := startPlane(t, p.addr)
	st, request := again.next(t)
	check.Equal(t, "the version that a new stream asks from", request.GetVersionInfo(), "")
	accepts(t, "1", st.serve(t, "1", perUser("edge", 9)))
	check.Equal(t, "the limit of the same version", s.left(t, "a"), 7)
	st.ending <- status.Error(codes.Unavailable, "moving")
	st, _ = again.next(t)
	accepts(t, "0", st.serve(t, "0", perUser("edge", 4)))
	check.Equal(t, "the limit", s.left(t, "a"), 1)
}

// A control plane that ends gracefully waits for its streams. The source goes to the one that takes its place.
func TestAControlPlaneEndsGracefully(t *testing.T) {
	t.Parallel()
	p := startPlane(t, "")
	s, _ := following(t, p, xds.Config{}, 3)
	ended := make(chan struct{})
	go func() {
		p.server.GracefulStop()
		close(ended)
	}()
	receive(t, "the end of the control plane", ended)
	st, _ := startPlane(t, p.addr).next(t)
	accepts(t, "1", st.serve(t, "1", perUser("edge", 9)))
	check.Equal(t, "the new limit", s.left(t, "a"), 8)
}

// The first Load waits for a while, and says what there was to wait for.
func TestTheStart(t *testing.T) {
	t.Parallel()
	p := startPlane(t, "")
	load := func(wait time.Duration, server string) error {
		source := must.Get(xds.New(quick(xds.Config{Server: server, Wait: wait, NodeID: "me"})))(t)
		return check.ErrorOf(envoy.New(envoy.Config{Source: source, Store: still(), Logger: quiet}))
	}
	fails := func(what, server, why string) { // a busy machine may not find out within the time
		t.Helper()
		wait.For(t, what+" is found", func() error {
			if err := load(300*time.Millisecond, server); !strings.Contains(err.Error(), why) {
				return err
			}
			return nil
		})
	}
	fails("a silent control plane", startPlane(t, "").addr, `for the node "me": it is connected and has sent nothing`)
	fails("none", "127.0.0.1:1", "connection refused")
	fails("no name", "nothing.invalid:1", "nothing.invalid")

	// What is wrong with the first answer is told, too.
	failed := make(chan error, 1)
	for _, tt := range []struct {
		resources []*rlsconf.RateLimitConfig
		why       string
	}{
		{[]*rlsconf.RateLimitConfig{{Name: "a", Domain: "a", Descriptors: []*rlsconf.RateLimitDescriptor{{}}}}, "a descriptor needs a key"},
		{[]*rlsconf.RateLimitConfig{perUser("a", 1), perUser("a", 2)}, `a: two resources have the name "a"`},
		{nil, "there are no files"}, // without AllowEmpty
	} {
		go func() { failed <- load(patience, p.addr) }()
		st, _ := p.next(t)
		st.send(t, answerOf(t, "1", messages(tt.resources)...))
		refuses(t, "", st.request(t), tt.why)
		check.Fails(t, "New", receive(t, "the end of New", failed), tt.why)
		receive(t, "the end of the stream", st.gone)
	}
}

// A server may start without limits, and has them once the control plane answers.
func TestAStartWithoutLimits(t *testing.T) {
	t.Parallel()
	p := startPlane(t, "")
	p.server.Stop() // so that it has no stream of the start
	s := newServing(t, xds.Config{Server: p.addr, Wait: 50 * time.Millisecond}, envoy.Config{AllowEmpty: true, StartWithout: true}, nil)
	check.Equal(t, "a domain that nobody knows yet", s.left(t, "a"), -2)
	now := s.Status()
	check.Equal(t, "the version", now.Version, "")
	check.Fails(t, "the status", now.Err, "no configuration from")
	check.Equal(t, "since when", now.Since.IsZero(), false)
	check.Fails(t, "a reload meanwhile", s.Reload(t.Context()), "no configuration from")
	p = startPlane(t, p.addr)
	st, _ := p.next(t)
	wait.Until(t, "it is connected", func() bool { return s.source.Status().Connected })
	check.Fails(t, "a reload meanwhile", s.Reload(t.Context()), "connected and has sent nothing")
	wrong := perUser("edge", 3)
	wrong.Descriptors[0].Key = ""
	refuses(t, "", st.serve(t, "1", wrong), "a descriptor needs a key")
	check.Equal(t, "after a refusal", s.left(t, "a"), -2)
	accepts(t, "2", st.serve(t, "2", perUser("edge", 3)))
	check.Equal(t, "the limit", s.left(t, "a"), 2)
	check.OK(t, s.Status().Err)
}

// Whoever loads and never acknowledges does not have the stream of the first Load for ever, and Watch does without it.
func TestNothingRuns(t *testing.T) {
	t.Parallel()
	p := startPlane(t, "")
	source := must.Get(xds.New(quick(xds.Config{Server: p.addr})))(t)
	source.Acknowledge(errors.New("of nothing"))
	check.Equal(t, "refused", source.Status().Refused, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check.Fails(t, "a Load that has ended", check.ErrorOf(source.Load(ctx)), "no configuration from")
	source.Watch(ctx, func() { t.Error("a change") })
}
