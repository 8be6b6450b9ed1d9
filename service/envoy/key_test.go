package envoy

import (
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// Trap 42: what a client puts into a value looks like no further entry, and like no hash.
func TestValuesThatLookLikeKeys(t *testing.T) {
	t.Parallel()
	entries := func(keysAndValues ...string) (all []*ratelimit.RateLimitDescriptor_Entry) {
		for i := 0; i < len(keysAndValues); i += 2 {
			all = append(all, &ratelimit.RateLimitDescriptor_Entry{Key: keysAndValues[i], Value: keysAndValues[i+1]})
		}
		return all
	}
	d := &domain{name: "edge"}
	hash := string(appendPart(nil, "a value|with=more"))
	seen := make(map[string]int)
	for i, of := range [][]*ratelimit.RateLimitDescriptor_Entry{
		entries("user", "a", "path", "b"), entries("user", "a|path=b"), entries("user|path", "b"), entries("user=a|path", "b"),
		entries("user", "a~b"), entries("user", "a value|with=more"), entries("user", hash),
	} {
		for _, key := range []string{string(d.overrideKey(rls.RateLimitResponse_RateLimit_DAY, of)), keyOf(d, of)} {
			if other, there := seen[key]; there {
				t.Errorf("descriptors %d and %d have the key %q", other, i, key)
			}
			seen[key] = i
		}
	}
}

// keyOf is the key of a rule without wildcards.
func keyOf(d *domain, entries []*ratelimit.RateLimitDescriptor_Entry) string {
	nodes := make([]*node, len(entries))
	for i := range nodes {
		nodes[i] = new(node)
	}
	return string(d.key(nodes, entries))
}
