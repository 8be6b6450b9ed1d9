package compose

import (
	"context"

	"github.com/weblimit/weblimit/core"
)

// Settings is a configuration that the limiters of an application share, each with limits of
// its own: what is shared by those of an adapter, and by services that follow policies. It is safe for concurrent use.
type Settings struct {
	config core.Config
	drain  func(context.Context) error
}

// NewSettings returns the settings of a configuration without Limits, or an error if it has limits or can never
// work.
func NewSettings(config core.Config) (*Settings, error) {
	s := &Settings{config: Clone(config)} // each limiter reads it again
	drain, err := door.Share(&s.config)
	if err != nil {
		return nil, err
	}
	s.drain = drain
	return s, nil
}

// With returns the configuration of a limiter of these limits.
func (s *Settings) With(limits ...core.Limit) core.Config {
	config := s.config
	config.Limits = limits
	return config
}

// Policy returns the limiter that policies make of these settings for a policy of that name. It
// panics if they return an error.
func (s *Settings) Policy(policies core.Policies, name string) *core.Limiter {
	return core.Must(policies.Limiter(s.config, name))
}

// Follow is Policy for programs whose requests name the policy. It returns the error: one that is
// [core.ErrNoPolicy] if there is no such policy. The policy can be removed later: see [core.Limiter.Ended].
func (s *Settings) Follow(policies core.Policies, name string) (*core.Limiter, error) {
	config := s.config
	config.MayEnd = true
	return policies.Limiter(config, name)
}

// Drain is [core.Limiter.Drain] for all limiters that were made from these settings.
func (s *Settings) Drain(ctx context.Context) error { return s.drain(ctx) }
