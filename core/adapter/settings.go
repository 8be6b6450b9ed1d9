package adapter

import (
	"context"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/seam"
)

var (
	prepare = seam.Prepare.(func(*core.Config) error)
	drain   = seam.Drain.(func(*core.Config, context.Context) error)
)

// Settings is a configuration that the limiters of an application share, each with limits of
// its own: what an adapter's With returns is built on it. It is safe for concurrent use.
type Settings struct{ config core.Config }

// NewSettings returns the settings of a configuration without Limits. It panics if the configuration
// has limits or can never work.
func NewSettings(config core.Config) *Settings {
	if err := prepare(&config); err != nil {
		panic(err)
	}
	return &Settings{config.Clone()} // each limiter reads it again
}

// Limiter returns a limiter of these limits. It panics where [core.New] returns an error.
func (s *Settings) Limiter(limits ...core.Limit) *core.Limiter {
	config := s.config
	config.Limits = limits
	return core.Must(core.New(config))
}

// Policy returns the limiter that policies make of these settings for a policy of that name. It
// panics if they return an error.
func (s *Settings) Policy(policies core.Policies, name string) *core.Limiter {
	return core.Must(policies.Limiter(s.config, name))
}

// Drain is [core.Limiter.Drain] for all limiters that were made from these settings.
func (s *Settings) Drain(ctx context.Context) error { return drain(&s.config, ctx) }
