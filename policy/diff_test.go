package policy_test

import (
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/policy"
)

func TestDiff(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, before, after, want string }{
		{"nothing", "limit: 5/15m, by: ip", "limit: 5/15m, by: ip, description: other", ""},
		{"fewer", "limit: 5/15m, by: ip", "limit: 3/15m, by: ip", "p, a: 5 → 3 per 15m; keys keep what they used"},
		{"another window", "limit: 5/15m, by: ip", "limit: 5/hour, by: ip", "p, a: 5/15m → 5/hour; keys keep what they used"},
		{"another algorithm", "limit: 5/15m, by: ip", "limit: 5/15m log, by: ip", "p, a: 5/15m → 5/15m log; keys keep what they used"},
		{"a burst", "limit: 5/s, by: ip", "limit: 5/s burst 20, by: ip", "p, a: 5/s → 5/s burst 20; keys keep what they used"},
		{"another key", "limit: 5/s, by: ip", "limit: 5/s, by: [ip, user]", "p, a: by ip → [ip, user]; all keys begin anew"},
		{"another key and number", "limit: 5/s, by: ip", "limit: 6/s, by: user", "p, a: by ip → user; all keys begin anew\np, a: 5 → 6 per second; all keys begin anew"},
		{"slots", "limit: 5/s, by: ip", "limit: concurrent 5, by: ip", "p, a: 5/s → concurrent 5; all keys begin anew"},
		{"shadow", "limit: 5/s, by: ip, shadow: true", "limit: 5/s, by: ip", "p, a: enforced from now on: clients over it are denied, with what they have used so far"},
		{"a trial", "limit: 5/s, by: ip", "limit: 5/s, by: ip, shadow: true", "p, a: in shadow mode from now on: nobody is denied"},
		{"a condition", "limit: 5/s, by: ip", "limit: 5/s, by: ip, when: {methods: [POST]}", "p, a: when: (not set) → {methods: [POST]}; other requests are limited than before"},
		{"a penalty", "limit: 5/s, by: ip", "limit: 5/s, by: ip, penalty: {after: 3, within: 1m, for: 1h}", "p, a: penalty: (not set) → {after: 3, within: 1m, for: 1h}"},
	} {
		file := func(limit string) string { return "policies: {p: {limits: {a: {" + limit + "}}}}" }
		check.Equal(t, tt.name, differences(t, file(tt.before), file(tt.after)), tt.want)
	}
	choices := func(of string) string {
		return "policies: {p: {limits: {a: {limit: 1/s, by: ip}, b: {limit: 2/s, by: ip}}" + of + "}}"
	}
	check.Equal(t, "a choice", differences(t, choices(""), choices(", choices: [[a, b]]")), "p: choices: (not set) → [[a, b]]")
	const before = "defaults: {shadow: true}\npolicies: {p: {limits: {a: {limit: 1/s, by: ip}}}, old: {limits: {b: {limit: 1/s, by: ip}}}}"
	const after = "defaults: {timeout: 1s}\npolicies: {p: {limits: {a: {limit: 1/s, by: ip}}}, new: {limits: {c: {limit: 1/s, by: ip}}}}"
	const want = `old: the policy is gone
p: timeout: (not set) → 1s
p, a: enforced from now on: clients over it are denied, with what they have used so far
new: new policy with 1 limit`
	check.Equal(t, "policies", differences(t, before, after), want)
}

// differences returns what Diff says of two texts, a line each.
func differences(t *testing.T, before, after string) string {
	t.Helper()
	changes := must.Get(policy.Diff(policy.File{Name: "before", Text: []byte(before)}, policy.File{Name: "after", Text: []byte(after)}))(t)
	lines := make([]string, len(changes))
	for i, c := range changes {
		lines[i] = c.String()
	}
	return strings.Join(lines, "\n")
}
