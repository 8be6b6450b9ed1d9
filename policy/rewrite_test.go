package policy_test

import (
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/policy"
)

func TestFormat(t *testing.T) {
	t.Parallel()
	const written = `# yaml-language-server: $schema=x

version:   "7"   # raised for the sale


policies:
      api:
          # who asks for much
          limits:
               client: {limit: 300/minute burst 50,   by: ip}   

               # attackers
               login:
                     limit: 5/15m log
                     by: [ip,
                          user]

      web:
          bypass:
          - routes: [GET /healthz]
          limits: {page: {limit: '9/s', by: "ip"}}
`
	const want = `# yaml-language-server: $schema=x

version: "7" # raised for the sale

policies:
  api:
    # who asks for much
    limits:
      client: {limit: 300/minute burst 50, by: ip}

      # attackers
      login:
        limit: 5/15m log
        by: [ip, user]

  web:
    bypass:
      - routes: [GET /healthz]
    limits: {page: {limit: '9/s', by: "ip"}}
`
	made, err := policy.Format(policy.File{Name: "x", Text: []byte(written)})
	if err != nil || string(made) != want {
		t.Errorf("%v\n%s", err, made)
	}
	again, err := policy.Format(policy.File{Name: "x", Text: made})
	if err != nil || string(again) != want {
		t.Errorf("the second time: %v\n%s", err, again)
	}
	made, err = policy.Format(policy.File{Name: "x", Text: []byte(`{"policies":{"a":{"limits":{}}}}`)})
	if err != nil || string(made) != "{\n  \"policies\": {\n    \"a\": {\n      \"limits\": {}\n    }\n  }\n}\n" {
		t.Errorf("JSON: %v\n%s", err, made)
	}
	text := "policies:\n  api:\n    description: |\n      one\n\n      two\n    limits: {a: {limit: 1/s, by: ip}}\n"
	if made, err := policy.Format(policy.File{Name: "x", Text: []byte(text)}); err == nil && string(made) != text {
		t.Errorf("a text with a blank line: %s", made)
	}
	quoted := "policies:\n  api:\n    description: \"one\n\n      two\"\n    limits: {a: {limit: 1/s, by: ip}}\n"
	check.Fails(t, "a blank line between quotes", check.ErrorOf(policy.Format(policy.File{Name: "x", Text: []byte(quoted)})), "are there blank lines in a text?")
	check.Fails(t, "what is no YAML", check.ErrorOf(policy.Format(policy.File{Name: "x", Text: []byte("a: [")})), "")
}
