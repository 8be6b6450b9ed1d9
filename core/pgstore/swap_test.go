package pgstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/pgstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// Stores with one schema see what the others have written, for as long as it is kept.
func TestValuesAreSwapped(t *testing.T) {
	t.Parallel()
	pool, config := shared(t)
	swap := func(ttl time.Duration, keys, values string) []string {
		s := pgstore.New(pool, config)
		return must.Get(s.Registry().Server().Swap(t.Context(), strings.Fields(keys), strings.Fields(values), ttl))(t)
	}
	check.Slices(t, "the first finds", swap(time.Minute, "b a", "1 2"), []string{"", ""})
	check.Slices(t, "the second finds", swap(time.Minute, "a b c", "3 4 5"), []string{"2", "1", ""})
	check.Slices(t, "the first finds again", swap(time.Minute, "b a c", "1 2 6"), []string{"4", "3", "5"})
	must.Get(pool.Exec(t.Context(), "UPDATE "+config.Schema+".pgstore_record SET state = decode(repeat('00', 1 << 24), 'hex')"))(t)
	for _, found := range swap(time.Minute, "b a c", "1 2 6") {
		check.Equal(t, "bytes that are read where others wrote more", len(found), 1024)
	}
	must.Get(pool.Exec(t.Context(), "UPDATE "+config.Schema+".pgstore_record SET ends = ends - 3"))(t)
	check.Slices(t, "after two minutes", swap(time.Minute, "b a", "1 2"), []string{"", ""})
}
