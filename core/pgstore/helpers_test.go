package pgstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/must"
)

func mustRule(t testing.TB, l core.Limit) *core.Rule {
	t.Helper()
	r := must.Get(l.Rule())(t)
	return &r
}

func checkOf(key string, rule *core.Rule, cost int64) core.Check {
	return core.Check{Key: []byte(key), Rule: rule, Cost: cost}
}

func take(t testing.TB, s core.Store, checks ...core.Check) []core.Result {
	t.Helper()
	results := make([]core.Result, len(checks))
	must.OK(t, s.Take(t.Context(), checks, results))
	return results
}

// takeWithin returns how long one take took, and its error.
func takeWithin(s core.Store, d time.Duration, c core.Check) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	began := time.Now()
	err := s.Take(ctx, []core.Check{c}, make([]core.Result, 1))
	return time.Since(began), err
}

// classOf returns the class of a store's error, or "" for none.
func classOf(err error) store.Class {
	var e *store.Error
	if !errors.As(err, &e) {
		return ""
	}
	return e.Class
}
