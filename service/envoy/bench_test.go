package envoy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/service/envoy"
)

// A decision in memory, without the network: of one and of three descriptors, by ten and by ten
// thousand rules.
func BenchmarkShouldRateLimit(b *testing.B) {
	for _, rules := range []int{10, 10_000} {
		var text strings.Builder
		text.WriteString("domain: edge\ndescriptors:\n")
		for i := range rules {
			fmt.Fprintf(&text, "  - {key: tenant, value: t%d, rate_limit: {unit: hour, requests_per_unit: 4000000000}}\n", i)
		}
		s := newServer(b, envoy.Config{Store: core.NewMemory()}, text.String())
		for name, descriptors := range map[string][]string{"1": {"tenant=t1"}, "3": {"tenant=t1", "tenant=t2", "tenant=t3"}} {
			r := request("edge", descriptors...)
			b.Run(fmt.Sprintf("rules=%d/descriptors=%s", rules, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := s.ShouldRateLimit(b.Context(), r); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
