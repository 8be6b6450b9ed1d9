package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/must"
)

const policyFile = `version: v1
policies:
  api:
    bypass: [{tokens: {header: X-Token, values: ["${env:TOKEN}"]}}]
    limits:
      client: {limit: 100/minute, by: ip}
      login: {limit: 5/15m log, by: account, when: {routes: [POST /login]}}
`

func policyFiles(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir + "/"
}

func TestPolicyCommands(t *testing.T) {
	t.Parallel()
	dir := policyFiles(t, map[string]string{
		"good.yaml":  policyFile,
		"wrong.yaml": "policies:\n  api:\n    limits:\n      login: {limit: 5/15m, by: ipp, cots: 2}\n      \"\\e[2J\": 1\n",
		"table.yaml": `
tests:
  - name: the sixth attempt is denied
    policy: api
    requests:
      - {method: POST, route: /login, stored: {account: ann}, times: 5, expect: allowed}
      - {method: POST, route: /login, stored: {account: ann}, expect: denied, by: login}
      - {method: POST, route: /login, headers: {X-Token: secret-of-TOKEN-x}, stored: {account: ann}, expect: denied}
`,
		"failing.yaml": "tests: [{name: nothing passes, policy: api, requests: [{expect: denied}]}]",
	})
	c := call{env: map[string]string{"TOKEN": "0123456789abcdef"}}
	wants(t, c.ok(t, "policy", "check", dir+"good.yaml"), "version v1#", "policies api")
	said := c.run(t, "policy", "check", dir+"wrong.yaml")
	if said.code != exitError {
		t.Errorf("check of a wrong file ends with %d", said.code)
	}
	wants(t, said.out, "wrong.yaml:4:38: policies.api.limits.login.cots: unknown field", `did you mean "cost"?`)
	if strings.Contains(said.out, "\x1b") {
		t.Error("a control character reaches the terminal")
	}
	wants(t, c.ok(t, "policy", "test", dir+"good.yaml", dir+"table.yaml"), "1 tests passed")
	failed := c.run(t, "policy", "test", dir+"good.yaml", dir+"failing.yaml")
	wants(t, failed.out, "FAIL nothing passes", "want denied, got allowed, by limit client with 99 left")
	if failed.code != exitError {
		t.Errorf("a test that failed ends with %d", failed.code)
	}
	c.input = "policies: {api: {limits: {client: {limit: 60/minute, by: ip}}}}"
	wants(t, c.ok(t, "policy", "diff", dir+"good.yaml", "-"), "api, client: 100 → 60 per minute; keys keep what they used", "api, login: the limit is gone")
	c.input = "policies:\n    api: {limits:   {a: {limit: 1/s, by: ip}}}"
	wants(t, c.ok(t, "policy", "fmt", "-"), "policies:\n  api: {limits: {a: {limit: 1/s, by: ip}}}\n")
	wants(t, c.fails(t, exitError, "policy", "fmt", "-l", dir+"table.yaml"), "usual form")
	c.ok(t, "policy", "fmt", "-w", dir+"table.yaml")
	c.ok(t, "policy", "fmt", "-l", dir+"table.yaml")
	wants(t, c.ok(t, "policy", "schema"), `"$schema"`)
	wants(t, c.fails(t, exitError, "policy", "check", dir+"none.yaml"), "no such file")
	wants(t, c.fails(t, exitUsage, "policy", "check"), "requires at least 1 arg")
}
