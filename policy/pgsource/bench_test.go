package pgsource_test

import (
	"context"
	"testing"

	"github.com/weblimit/weblimit/policy"
)

// BenchmarkLook is what each process of a fleet asks once a second.
func BenchmarkLook(b *testing.B) {
	ctx, from := context.Background(), migrated(b)
	for n := range policy.KeptReleases {
		publish(b, from, n+1)
	}
	for b.Loop() {
		if err := from.Look(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
