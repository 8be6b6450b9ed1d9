package grpclimit_test

import (
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/grpclimit"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/internal/test/must"
)

// changing has one policy, whose limits a test changes.
type changing struct {
	live   compose.Live
	config core.Config
}

// Limiter implements [core.Policies].
func (c *changing) Limiter(config core.Config, _ string) (*core.Limiter, error) {
	c.config = config
	config.Limits = []core.Limit{everyone(1, "a")}
	return c.live.Limiter(config)
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	policies := new(changing)
	limits := grpclimit.With(core.Config{Store: core.NewMemory(), Timeout: patience})
	s := serve(t, &service{}, limits.Policy(policies, "calls"))
	want(t, "the first call", s.call(say).code, codes.OK)
	want(t, "the second call", s.call(say).code, codes.ResourceExhausted)
	policies.config.Limits = []core.Limit{everyone(2, "a"), everyone(9, "b")}
	must.OK(t, policies.live.Replace(policies.config))
	want(t, "a call under the next version", s.call(say).code, codes.OK)
	want(t, "one more", s.call(say).code, codes.ResourceExhausted)
}
