package xds_test

import (
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/service/envoy"
	"github.com/weblimit/weblimit/service/envoy/xds"
)

// After the end nothing of the source runs any more, whatever it was doing: following, waiting for the control plane, waiting
// to be told.
func TestNothingIsLeft(t *testing.T) {
	if child.Apart(t) {
		return
	}
	p, silent := startPlane(t, ""), startPlane(t, "")
	for range 3 {
		source := must.Get(xds.New(quick(xds.Config{Server: p.addr})))(t)
		done := make(chan *envoy.Server, 1)
		go func() {
			done <- must.Get(envoy.New(envoy.Config{Source: source, Store: still(), Logger: quiet}))(t)
		}()
		first, _ := p.next(t)
		first.serve(t, "1", perUser("edge", 3))
		stop := receive(t, "the server", done).Watch(t.Context())
		st, _ := p.next(t)
		st.serve(t, "1", perUser("edge", 3))
		wrong := perUser("edge", 3)
		wrong.Descriptors[0].Key = ""
		st.serve(t, "2", wrong)
		st.send(t, answerOf(t, "3", wrong)) // which is refused later
		stop()
		check.Equal(t, "connected", source.Status().Connected, false)

		// A server that is away, and one that is silent.
		for _, server := range []string{"127.0.0.1:1", silent.addr} {
			source := must.Get(xds.New(quick(xds.Config{Server: server, Wait: 20 * time.Millisecond})))(t)
			stop := must.Get(envoy.New(envoy.Config{Source: source, Store: still(), Logger: quiet, StartWithout: true}))(t).Watch(t.Context())
			stop()
		}
	}
	p.server.Stop()
	silent.server.Stop()
	wait.For(t, "nothing runs", func() error {
		var stacks strings.Builder
		must.OK(t, pprof.Lookup("goroutine").WriteTo(&stacks, 2))
		for goroutine := range strings.SplitSeq(stacks.String(), "\n\n") {
			if strings.Contains(goroutine, "google.golang.org/grpc") || strings.Contains(goroutine, "envoy/xds.") {
				return errorOf(goroutine)
			}
		}
		return nil
	})
}

type errorOf string

func (e errorOf) Error() string { return string(e) }
