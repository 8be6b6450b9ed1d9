package memstore_test

import (
	"fmt"
	"testing"

	"github.com/weblimit/weblimit/core/memstore"
)

func TestConfigsThatMakeNoSensePanic(t *testing.T) {
	t.Parallel()
	for want, config := range map[string][]memstore.Config{
		"weblimit: memstore.New: more than one Config":                               {{}, {}},
		"weblimit: memstore.New: Config.MaxBuckets must be at least 64, got 63":      {{MaxBuckets: 63}},
		"weblimit: memstore.New: Config.MaxBuckets must be at least 64, got 1":       {{MaxBuckets: 1}},
		"weblimit: memstore.New: Config.MaxBuckets must be at least 64, got -100000": {{MaxBuckets: -100000}},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); got != want {
					t.Errorf("%+v: panic %q, want %q", config, got, want)
				}
			}()
			memstore.New(config...)
		}()
	}
	for _, config := range [][]memstore.Config{nil, {{}}, {{MaxBuckets: 64}}} {
		if m := memstore.New(config...); m.Len() != 0 {
			t.Errorf("%+v: a new store holds %d buckets", config, m.Len())
		}
	}
}
