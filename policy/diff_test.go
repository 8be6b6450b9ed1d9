package policy_test

import (
	"strings"
	"testing"

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
		file := func(limit string) policy.File {
			return policy.File{Name: "x", Text: []byte("policies: {p: {limits: {a: {" + limit + "}}}}")}
		}
		changes, err := policy.Diff(file(tt.before), file(tt.after))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		var lines []string
		for _, c := range changes {
			lines = append(lines, c.String())
		}
		if got := strings.Join(lines, "\n"); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
	before := policy.File{Name: "x", Text: []byte("defaults: {shadow: true}\npolicies: {p: {limits: {a: {limit: 1/s, by: ip}}}, old: {limits: {b: {limit: 1/s, by: ip}}}}")}
	after := policy.File{Name: "x", Text: []byte("defaults: {timeout: 1s}\npolicies: {p: {limits: {a: {limit: 1/s, by: ip}}}, new: {limits: {c: {limit: 1/s, by: ip}}}}")}
	changes, err := policy.Diff(before, after)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, c := range changes {
		lines = append(lines, c.String())
	}
	const want = `old: the policy is gone
p: timeout: (not set) → 1s
p, a: enforced from now on: clients over it are denied, with what they have used so far
new: new policy with 1 limit`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("policies:\n%s\nwant\n%s", got, want)
	}
}
