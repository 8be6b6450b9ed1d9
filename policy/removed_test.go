package policy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/compose"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/policy"
)

// limitsPerHour is a file of policies, such as "a=5", each with one limit of its name.
func limitsPerHour(policies ...string) string {
	text := "policies:\n"
	for _, p := range policies {
		name, limit, _ := strings.Cut(p, "=")
		text += fmt.Sprintf("  %s: {limits: {%s: {limit: %s/hour fixed, by: everyone}}}\n", name, name, limit)
	}
	return text
}

// A policy that is followed by its name can be removed: its limiter ends, the store forgets its limits,
// and the policy may come back. One that an adapter has at start-up stays.
func TestRemovedPolicies(t *testing.T) {
	t.Parallel()
	store := core.NewMemory()
	from, set := sourceOf(t, limitsPerHour("a=5", "b=5", "fixed=5"), quiet())
	settings := must.Get(compose.NewSettings(core.Config{Store: store}))(t)
	settings.Policy(set, "fixed")
	follow := func(name string) *core.Limiter {
		t.Helper()
		return must.Get(settings.Follow(set, name))(t)
	}
	a, b := follow("a"), follow("b")
	if d := a.AllowKey(t.Context(), "k", 3); !d.Allowed {
		t.Fatal(d)
	}

	from.put(limitsPerHour("b=5", "fixed=5"))
	must.OK(t, set.Reload(t.Context()))
	if !a.Ended() || b.Ended() {
		t.Errorf("ended: a %v, b %v", a.Ended(), b.Ended())
	}
	if _, err := settings.Follow(set, "a"); !errors.Is(err, core.ErrNoPolicy) || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("a removed policy: %v", err)
	}
	if d := a.AllowKey(t.Context(), "k", 1); !d.Allowed || a.Stats().Version != "" {
		t.Errorf("a request that had begun: %v; version %q", d, a.Stats().Version)
	}
	for _, d := range store.Registry().Declarations() {
		if d.Rule.Name == "a" {
			t.Error("the store still has the limit of the removed policy")
		}
	}

	from.put(limitsPerHour("a=6", "b=5", "fixed=5"))
	must.OK(t, set.Reload(t.Context()))
	if !a.Ended() {
		t.Error("a limiter that has ended goes on")
	}
	if d := follow("a").AllowKey(t.Context(), "k", 2); !d.Allowed { // 4 were used
		t.Errorf("back: %v", d)
	}
	if d := follow("a").AllowKey(t.Context(), "k", 1); d.Allowed {
		t.Errorf("what was used is used no more: %v", d)
	}
	must.Get(set.Rollback())(t)
	check.Is(t, "rolled back", check.ErrorOf(settings.Follow(set, "a")), core.ErrNoPolicy)

	from.put(limitsPerHour("a=6"))
	if err := set.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), `"fixed" is in use`) || b.Ended() {
		t.Errorf("the policy of an adapter was removed: %v; b ended: %v", err, b.Ended())
	}
}

// Check refuses a file for a program that can't use it, at the line of the policy.
func TestCheckOfTheProgram(t *testing.T) {
	t.Parallel()
	options := quiet()
	options.Validate = func(name string, limits []core.Limit) error {
		if rule, err := limits[0].Rule(); err != nil || rule.Quota > 5 {
			return fmt.Errorf("weblimit: %s has more than 5", rule.Name)
		}
		return nil
	}
	from, set := sourceOf(t, limitsPerHour("a=5"), options)
	from.put(limitsPerHour("a=5", "b=6"))
	if err := set.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "limits.yaml:3:3: policies.b: b has more than 5") {
		t.Error(err)
	}
}

// Policies of the application, each around a Set: with methods of the Set, with those of the interface, and
// with a method of its own.
type (
	embedded    struct{ *policy.Set }
	ofInterface struct{ core.Policies }
	counting    struct {
		*policy.Set
		asked *int
	}
)

func (c counting) Limiter(config core.Config, name string) (*core.Limiter, error) {
	*c.asked++
	return c.Set.Limiter(config, name)
}

// However the application wraps a Set, a policy that requests name can be removed, and later reloads are
// taken. A Limiter method of the wrapper is what is asked.
func TestRemovedPoliciesOfAWrappedSet(t *testing.T) {
	t.Parallel()
	asked := 0
	for name, wrapped := range map[string]func(*policy.Set) core.Policies{
		"the Set":                   func(s *policy.Set) core.Policies { return s },
		"the Set, embedded":         func(s *policy.Set) core.Policies { return embedded{s} },
		"Policies, embedded":        func(s *policy.Set) core.Policies { return ofInterface{s} },
		"with a Limiter of its own": func(s *policy.Set) core.Policies { return counting{s, &asked} },
	} {
		t.Run(name, func(t *testing.T) {
			from, set := sourceOf(t, limitsPerHour("a=5", "b=5", "fixed=5"), quiet())
			settings, policies := must.Get(compose.NewSettings(core.Config{Store: core.NewMemory()}))(t), wrapped(set)
			settings.Policy(policies, "fixed")
			a, b := must.Get(settings.Follow(policies, "a"))(t), must.Get(settings.Follow(policies, "b"))(t)
			from.put(limitsPerHour("b=5", "fixed=5"))
			must.OK(t, set.Reload(t.Context()))
			from.put(limitsPerHour("b=1", "fixed=5"))
			must.OK(t, set.Reload(t.Context()))
			if !a.Ended() || b.Ended() || b.AllowKey(t.Context(), "k", 2).Allowed {
				t.Errorf("ended: a %v, b %v; or b does not follow its policy", a.Ended(), b.Ended())
			}
			from.put(limitsPerHour("b=1"))
			if err := set.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), `"fixed" is in use`) {
				t.Errorf("the policy of an adapter was removed: %v", err)
			}
		})
	}
	if asked != 3 {
		t.Errorf("a wrapper's Limiter was asked %d times, want 3", asked)
	}
}
