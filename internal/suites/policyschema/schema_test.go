package policyschema

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/policy"
)

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text := must.Get(jsonschema.UnmarshalJSON(bytes.NewReader(policy.Schema())))(t)
	c := jsonschema.NewCompiler()
	must.OK(t, c.AddResource("policy.json", text))
	return must.Get(c.Compile("policy.json"))(t)
}

// read reads YAML as an editor does.
func read(text string) (any, error) {
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return nil, err
	}
	asJSON, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
}

// The files that the loader refuses are refused by the schema, except those whose name says otherwise.
func TestTheSchemaRefusesWhatTheLoaderRefuses(t *testing.T) {
	t.Parallel()
	schema := compiled(t)
	text := must.Get(os.ReadFile("../../../policy/testdata/wrong.txt"))(t)
	_, rest, _ := strings.Cut(string(text), "\n--- ")
	for section := range strings.SplitSeq(rest, "\n--- ") {
		name, body, _ := strings.Cut(section, "\n")
		file, _, _ := strings.Cut(body, "=== \n")
		value, err := read(file)
		if err != nil || value == nil {
			continue // no schema is asked
		}
		err = schema.Validate(value)
		if accepts := strings.HasPrefix(name, "!"); accepts != (err == nil) {
			t.Errorf("%s: the schema says %v", name, err)
		}
	}
}

// good is a file with every kind of value.
const good = `
version: v1
defaults:
  client_ip: {trusted_proxies: [10.0.0.0/8, private], ipv6_prefix: 56}
  bypass:
    - routes: [GET /healthz]
    - tokens: {header: X-Token, values: ["${env:T}"]}
    - {from: [192.0.2.0/24], methods: [GET], not: {header: {name: X-A, is: [b]}}}
policies:
  api:
    description: the api
    headers: [draft11, x_ratelimit]
    headers_when: near_limit
    missing_key: {status: 401, challenge: Bearer}
    denial_texts: {de: "warte {retry_after}"}
    timeout: 50ms
    replicas: 3
    fallback: {f: {limit: 5/s, by: ip}}
    max_waiting: 10
    silence: [WL001]
    limits:
      client: {limit: 300/minute burst 50, by: ip, warn_at: [0.8, 1], on_outage: deny}
      tenant:
        limit: 1000/minute
        by: [tenant, {header: X-T}, {first: [user, ip]}]
        on_missing_key: deny
        cost: 2
        tiers: {by: {header: X-Plan}, limits: {free: 100/minute}}
        penalty: {after: 20, within: 1h, for: 1h30m, factor: 3}
        once_per: {key: {header: Idempotency-Key}, for: 24h}
        keep_free: {share: 0.2, for: {value: {of: {stored: plan}, is: [pro]}}}
        refund_on: [server_errors]
        slow_down: {from: 0.5, up_to: 2s}
    groups:
      login:
        when: {any: [{paths: [/login]}, {percent: {of: user, up_to: 10}}, {preflight: true}]}
        shadow: true
        limits: {login: {limit: 5/15m log, by: {api_key: [X-Key, "?key"]}}}
`

func load(text []byte) error {
	_, err := policy.Parse("x", text, policy.Options{WithoutSecrets: true, AnyName: true})
	return err
}

// Whatever the schema refuses, the loader refuses: of files in which one value is another, is gone, or
// is new.
func TestTheLoaderRefusesWhatTheSchemaRefuses(t *testing.T) {
	t.Parallel()
	schema := compiled(t)
	value := must.Get(read(good))(t)
	must.OK(t, load([]byte(good)))
	must.OK(t, schema.Validate(value))
	text, _ := json.Marshal(value)
	random := rand.New(rand.NewPCG(1, 2))
	both, neither, more := 0, 0, 0
	rounds := long.Rounds(1000, 100_000)
	for range rounds {
		var changed any
		_ = json.Unmarshal(text, &changed)
		changed = mutate(random, changed)
		file, _ := json.Marshal(changed)
		again := must.Get(jsonschema.UnmarshalJSON(bytes.NewReader(file)))(t)
		refused, loaded := schema.Validate(again), load(file)
		switch {
		case refused != nil && loaded == nil:
			t.Fatalf("the loader takes what the schema refuses: %v\n%s", refused, file)
		case refused != nil:
			both++
		case loaded == nil:
			neither++
		default:
			more++
		}
	}
	t.Logf("refused by both %d, by neither %d, by the loader alone %d", both, neither, more)
	if both < rounds/5 || neither < rounds/50 {
		t.Error("too few files were refused, or accepted, to compare")
	}
}

var odd = []any{nil, true, false, 0, 1, -1, 0.5, 1e9, 7, "", "ip", "user", "5/m", "true", "1h", "10ms", "/x", "GET", "draft11", "WL002", "${env:X}", "no", []any{}, []any{"ip"}, []any{1}, map[string]any{}, map[string]any{"header": "X-A"}, map[string]any{"limit": "5/m", "by": "ip"}}

var oddNames = []string{"limit", "by", "cost", "shadow", "when", "x", "é", "unless", "estimate", "headers", "limits", "methods", "paths", "header", "user", "timeout", "hops", "is"}

// mutate changes one value somewhere in v.
func mutate(random *rand.Rand, v any) any {
	switch of := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(of))
		for name := range of {
			names = append(names, name)
		}
		slices.Sort(names)
		switch n := random.IntN(12); {
		case n == 0:
			return odd[random.IntN(len(odd))]
		case n == 1:
			of[oddNames[random.IntN(len(oddNames))]] = odd[random.IntN(len(odd))]
		case n == 2 && len(names) > 0:
			delete(of, names[random.IntN(len(names))])
		case len(names) > 0:
			name := names[random.IntN(len(names))]
			of[name] = mutate(random, of[name])
		}
		return of
	case []any:
		if len(of) > 0 && random.IntN(4) > 0 {
			i := random.IntN(len(of))
			of[i] = mutate(random, of[i])
			return of
		}
		return append(of, odd[random.IntN(len(odd))])
	}
	return odd[random.IntN(len(odd))]
}
