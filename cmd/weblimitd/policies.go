package main

import (
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/settings"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/service/gateway"
)

// policyOptions are the settings of policies.
type policyOptions struct {
	policy     settings.String
	policyKeep settings.String
	endMark    settings.Bool
}

func (o *policyOptions) add(g settings.Group) {
	g.Add("policy", &o.policy, "", "policy file; redis:KEY or postgres:NAME for one that is published there")
	g.Add("policy-keep", &o.policyKeep, "", "file in which the last good policy is kept, for a start while the other can't be read").Needs("policy")
	g.Add("end-mark", &o.endMark, "false", "refuse a file in YAML, of policies or of Envoy, that does not end with a line \"...\", since it may be cut off")
}

// loadPolicies reads the policies. Values that they name, such as a client's plan, are what the caller
// says: there is no application here.
func (s *daemon) loadPolicies() (*policy.Set, error) {
	o := s.options
	if o.policy == "" {
		return nil, nil
	}
	options := policy.Options{AnyName: true, Keep: string(o.policyKeep), EndMark: bool(o.endMark), Logger: s.log, Validate: s.validatePolicy}
	switch source, err := s.backend.published("policy", string(o.policy)); {
	case err != nil:
		return nil, err
	case source != nil:
		return policy.From(source, options)
	}
	return policy.Load(string(o.policy), options)
}

// validatePolicy refuses a policy that the store can't count, and logs whether gateways can't ask it.
func (s *daemon) validatePolicy(name string, limits []core.Limit) error {
	if err := s.backend.takes(limits); err != nil {
		return err
	}
	s.warnOfGateways(name, limits)
	return nil
}

// warnOfGateways logs whether gateways can't ask a policy. It is no error: callers of the JSON API can.
func (s *daemon) warnOfGateways(name string, limits []core.Limit) {
	if err := gateway.Validate(name, limits); err != nil {
		s.log.Warn("weblimitd: gateways get an error for this policy; callers of the JSON API may use it",
			"policy", name, "error", store.Reason(err))
	}
}
