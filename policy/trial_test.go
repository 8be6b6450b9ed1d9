package policy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/policy"
)

func TestTables(t *testing.T) {
	t.Parallel()
	file := policy.File{Name: "limits.yaml", Text: []byte(`
policies:
  api:
    bypass: [{tokens: {header: X-Token, values: ["${env:TOKEN}"]}}]
    limits:
      client: {limit: 10/hour fixed, by: ip}
      tenant: {limit: 2/minute, by: {param: org}, on_missing_key: skip, cost_by: size, tiers: {by: plan, limits: {pro: 20/minute}}}
    groups:
      sign-in:
        when: {paths: [/login], unless-staff: 1}
        limits: {login: {limit: 5/15m log, by: ip, unless: {condition: staff}}}
`)}
	file.Text = []byte(strings.Replace(string(file.Text), ", unless-staff: 1", "", 1))
	options := policy.Options{AnyName: true, Env: func(name string) (string, bool) { return "0123456789abcdef-" + name, true }}
	trials, err := policy.Test(file, policy.File{Name: "table.yaml", Text: []byte(`
tests:
  - name: the sixth attempt is denied
    policy: api
    requests:
      - {method: POST, path: /login, ip: 192.0.2.7, times: 5, expect: allowed, by: login}
      - {method: POST, path: /login, ip: 192.0.2.7, expect: denied, by: login, remaining: 0}
      - {method: POST, path: //login, ip: 192.0.2.7, expect: denied, by: login}
      - {method: POST, path: /login, ip: 192.0.2.7, headers: {x-token: 0123456789abcdef-TOKEN}, expect: bypassed}
      - {method: POST, path: /login, ip: "2001:db8::1", expect: allowed, by: login, remaining: 4}
      - {method: POST, path: /login, ip: 192.0.2.7, after: 15m, expect: allowed}
  - name: plans
    policy: api
    requests:
      - {params: {org: a}, times: 2, expect: allowed}
      - {params: {org: a}, expect: denied, by: tenant}
      - {params: {org: b}, stored: {plan: pro}, times: 3, expect: allowed}
  - name: wrong on purpose
    policy: api
    requests:
      - {params: {org: a}, times: 3, expect: allowed}
      - {path: /login, expect: denied}
      - {path: /login, expect: allowed, by: client}
      - {path: /login, expect: allowed, remaining: 9}
  - name: no such policy
    policy: app
    requests: [{expect: allowed}]
`)}, options)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, trial := range trials {
		for _, f := range trial.Failures {
			told = append(told, fmt.Sprintf("%s: %v", trial.Name, f))
		}
	}
	const want = `wrong on purpose: table.yaml:21:9: tests[2].requests[0]: number 3: want allowed, got denied, by limit tenant with 0 left (limit exceeded)
wrong on purpose: table.yaml:22:9: tests[2].requests[1]: want denied, got allowed, by limit login with 4 left
wrong on purpose: table.yaml:23:9: tests[2].requests[2]: want it by limit client, got allowed, by limit login with 3 left
wrong on purpose: table.yaml:24:9: tests[2].requests[3]: want 9 left, got allowed, by limit login with 2 left
no such policy: table.yaml:26:13: tests[3].policy: there is no policy "app"; did you mean "api"?`
	check.Equal(t, "told", strings.Join(told, "\n"), want)
	var wrong *policy.Error
	if _, err := policy.Test(file, policy.File{Name: "table.yaml", Text: []byte("tests: [{name: a, policy: api, requests: [{expcet: allowed}]}]")}, options); !errors.As(err, &wrong) {
		t.Errorf("a wrong table: %v", err)
	}
}
