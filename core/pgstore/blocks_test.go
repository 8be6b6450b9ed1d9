package pgstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/pgstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/must"
)

// Blocks of long keys, of keys of any bytes, and of more keys than are read at a time.
func TestBlocksOfManyAndLongKeys(t *testing.T) {
	t.Parallel()
	s := pgstore.New(shared(t))
	rule := mustRule(t, core.PerHour(1).Named("plan").Penalty(store.Block{After: 1, Within: time.Hour, For: time.Hour}))
	other := mustRule(t, core.PerHour(1).Named("other").Penalty(store.Block{After: 1, Within: time.Hour, For: time.Hour}))
	keys := map[string]bool{"": true, "\x00": true, "\xff\xff\xff": true, strings.Repeat("k", 512): true, strings.Repeat("k", 513): true, strings.Repeat("é", 4000): true}
	for i := range 2100 {
		keys[fmt.Sprint("key", i)] = true
	}
	var checks []core.Check
	for key := range keys {
		checks = append(checks, checkOf(key, rule, 1))
	}
	must.OK(t, s.Block(t.Context(), checks, time.Hour))
	must.OK(t, s.Block(t.Context(), []core.Check{checkOf("elsewhere", other, 1)}, time.Hour))
	for b, err := range s.Blocks(t.Context(), []*core.Rule{rule}) {
		if err != nil || !keys[b.Key] {
			t.Fatalf("block of %q, %v", b.Key, err)
		}
		delete(keys, b.Key)
	}
	if len(keys) > 0 {
		t.Errorf("%d blocks are missing", len(keys))
	}
}
