package core_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/keyfuncs"
)

// By, Tiers, When and CostBy apply to plain values, without HTTP.
func TestAllowOfPlainValues(t *testing.T) {
	t.Parallel()
	jobs := core.PerHour(10).By(keyfuncs.User("user")).Named("jobs").
		When(keyfuncs.Matches(func(r keyfuncs.Request) bool { return r.Value("kind") != "internal" })).
		Tiers(func(r keyfuncs.Request) core.Limit {
			if r.Value("plan") == "premium" {
				return core.PerHour(100)
			}
			return core.Limit{}
		}).
		CostBy(func(r keyfuncs.Request) int64 {
			n, _ := r.Value("items").(int)
			return int64(n)
		})
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{jobs})
	for _, tt := range []struct {
		values  keyfuncs.Values
		allowed bool
		left    int64
	}{
		{keyfuncs.Values{"user": "42", "items": 7}, true, 3},
		{keyfuncs.Values{"user": "42", "items": 4}, false, 3},
		{keyfuncs.Values{"user": "43", "items": 4}, true, 6},
		{keyfuncs.Values{"user": "44", "items": 80, "plan": "premium"}, true, 20},
		{keyfuncs.Values{"user": "42", "items": 99, "kind": "internal"}, true, -1},
	} {
		d := limiter.Allow(tt.values)
		left := int64(-1)
		if b, ok := d.Binding(); ok {
			left = b.Remaining
		}
		check.Equal(t, fmt.Sprintf("%v: allowed", tt.values), d.Allowed, tt.allowed)
		check.Equal(t, fmt.Sprintf("%v: left", tt.values), left, tt.left)
	}
	wantAllowed(t, "AllowKey, which has the same bucket", limiter.AllowKey(t.Context(), keyfuncs.Encode("user", "42"), 3))
}

// Without an adapter nothing says at start-up that a framework's value is missing.
func TestKeysOfAFrameworkHaveNoAnswerWithoutIt(t *testing.T) {
	t.Parallel()
	type framework struct{}
	native := func(keyfuncs.Request) (*framework, bool) { return nil, false }
	key := adapter.Key("item", native, func(*framework) string { return "x" })
	never := adapter.Matches(native, func(*framework) bool { return true })
	limiter := limiterOn(t, core.NewMemory(), core.PerHour(1).By(key).When(keyfuncs.Not(never)).Named("item").OnMissingKey(core.DenyRequest))
	check.Equal(t, "a key and a condition without their framework", outcomeOf(limiter.Allow(keyfuncs.Values{})), outcome{false, core.ReasonMissingKey})
}

func TestAdviceOnParametersThatAreNotKnown(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		limit  core.Limit
		values keyfuncs.Values
		want   int
	}{
		{"in front of the router", core.PerHour(9).By(keyfuncs.Param("id")), keyfuncs.Values{}, 1},
		{"another parameter", core.PerHour(9).By(keyfuncs.ClientIP(), keyfuncs.Param("id")), keyfuncs.Values{"route": "/items/:item"}, 1},
		{"the parameter", core.PerHour(9).By(keyfuncs.Param("id")), keyfuncs.Values{"route": "/items/:id", "id": "1"}, 0},
		{"no route", core.PerHour(9).By(keyfuncs.Param("id")), keyfuncs.Values{"route": ""}, 0},
		{"a limit for those that have it", core.PerHour(9).By(keyfuncs.Param("id")).OnMissingKey(core.SkipLimit), keyfuncs.Values{"route": "/"}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			limiter := core.Must(core.New(core.Config{Store: core.NewMemory(), Limits: []core.Limit{tt.limit}, Logger: slog.New(slog.NewTextHandler(&log, nil))}))
			for range 3 {
				limiter.Allow(tt.values)
			}
			check.Equal(t, "lines of advice", strings.Count(log.String(), "WL008"), tt.want)
		})
	}
}
