package pgstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core/pgstore"
	"github.com/weblimit/weblimit/internal/test/check"
)

func TestConfigs(t *testing.T) {
	t.Parallel()
	pool := newPool(t, "host=/nowhere user=u dbname=d")
	panics := func(what string, f func()) {
		defer func() {
			if recover() == nil {
				t.Errorf("New with %s did not panic", what)
			}
		}()
		f()
	}
	for _, schema := range []string{"a b", `x"y`, "A", "1a", "a;drop", strings.Repeat("a", 64), "pg-x"} {
		panics("schema "+schema, func() { pgstore.New(pool, pgstore.Config{Schema: schema}) })
		check.Fails(t, "Migrate with schema "+schema, pgstore.Migrate(t.Context(), pool, pgstore.Config{Schema: schema}), "Schema")
	}
	panics("no pool", func() { pgstore.New(nil) })
	panics("two configs", func() { pgstore.New(pool, pgstore.Config{}, pgstore.Config{}) })
	panics("-1 connections", func() { pgstore.New(pool, pgstore.Config{Connections: -1}) })
	for _, timeout := range []time.Duration{-1, 5, time.Hour} { // 5 are nanoseconds
		panics("a timeout of "+timeout.String(), func() { pgstore.New(pool, pgstore.Config{Timeout: timeout}) })
	}
	check.Fails(t, "Open accepts no pool", check.ErrorOf(pgstore.Open(t.Context(), nil)), "")
	check.Fails(t, "Open of a server that is not there succeeds", check.ErrorOf(pgstore.Open(t.Context(), pool)), "")
}
