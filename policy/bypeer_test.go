package policy_test

import (
	"slices"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/policy"
)

// Status names the policies that count clients by an address which nothing says how to find.
func TestPoliciesByThePeer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		file string
		want []string
	}{
		"by ip":                    {"policies: {p: {limits: {a: {limit: 1/s, by: ip}}}}", []string{"p"}},
		"by ip and more":           {"policies: {p: {limits: {a: {limit: 1/s, by: {first: [user, ip]}}}}}", []string{"p"}},
		"in a group":               {"policies: {p: {groups: {g: {when: {methods: [GET]}, limits: {a: {limit: 1/s, by: ip}}}}}}", []string{"p"}},
		"only the prefix":          {"policies: {p: {client_ip: {ipv6_prefix: 56}, limits: {a: {limit: 1/s, by: ip}}}}", []string{"p"}},
		"found in the policy":      {"policies: {p: {client_ip: {hops: 1}, limits: {a: {limit: 1/s, by: ip}}}}", nil},
		"found in the defaults":    {"defaults: {client_ip: {hops: 1}}\npolicies: {p: {limits: {a: {limit: 1/s, by: ip}}}}", nil},
		"another key":              {"policies: {p: {limits: {a: {limit: 1/s, by: user}}}}", nil},
		"several":                  {"policies: {z: {limits: {a: {limit: 1/s, by: ip}}}, b: {limits: {b: {limit: 1/s, by: ip}}}}", []string{"z", "b"}},
		"a key of the application": {"policies: {p: {limits: {a: {limit: 1/s, by: mine}}}}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := policy.Options{Keys: map[string]keyfuncs.Func{"mine": keyfuncs.ClientIP()}}
			set := must.Get(policy.Parse("p.yaml", []byte(tt.file), options))(t)
			if got := set.Status().ByPeer; !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
