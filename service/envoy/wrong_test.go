package envoy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/service/envoy"
)

// What is wrong with a file is said with its place and what was meant. The first are the files that
// envoyproxy/ratelimit's own tests refuse.
func TestWrongFiles(t *testing.T) {
	t.Parallel()
	rule := func(s string) string { return "domain: d\ndescriptors:\n  - key: k\n    rate_limit: {" + s + "}\n" }
	for _, tt := range []struct{ text, want string }{
		{"domain:\ndescriptors:\n  - key: k\n", `a.yaml:1:8: domain: the file needs a domain, as Envoy's configuration names it`},
		{"domain: d\ndescriptors:\n  - value: v\n", `a.yaml:3:5: descriptors[0]: a descriptor needs a key`},
		{"domain: d\ndescriptors:\n  - {key: k, value: v}\n  - {key: k, value: v}\n", `a.yaml:4:5: descriptors[1]: the same key and value are in a.yaml:3 already`},
		{rule("unit: foo, requests_per_unit: 5"), `a.yaml:4:24: descriptors[0].rate_limit.unit: unknown unit "foo"; units are second, minute, hour, day, week, month, year`},
		{rule("unit: second, requests_per_unit: 5, name: a, replaces: [{name: a}]"), `a.yaml:4:63: descriptors[0].rate_limit.replaces: "a" replaces itself`},
		{rule("unit: second, requests_per_unit: 5, replaces: [{name: ''}]"), `a.yaml:4:65: descriptors[0].rate_limit.replaces[0]: it needs the name of the rate_limit that is replaced`},
		{"foo:\nbar: [", `a.yaml:2: this is not valid YAML: did not find expected node content`},
		{"domain: d\ndescriptors:\n  - key: k\n    ratelimit: {unit: second, requests_per_unit: 5}\n", `a.yaml:4:5: descriptors[0].ratelimit: a descriptor has no field "ratelimit"; did you mean "rate_limit"?`},
		{rule("unit: second, requestsperunit: 5"), `a.yaml:4:32: descriptors[0].rate_limit.requestsperunit: rate_limit has no field "requestsperunit"; did you mean "requests_per_unit"?` + "\n" +
			`a.yaml:4:5: descriptors[0].rate_limit: rate_limit needs requests_per_unit; 0 denies everything`},
		{"0.25: d\n", `a.yaml:1:1: the name of a field is text, not the number 0.25`},
		{"domain: d\ndescriptors:\n  - a\n  - b\n", `a.yaml:3:5: descriptors[0]: a descriptor must be a map of fields, not "a"`},
		{rule("unlimited: true, unit: day"), `a.yaml:4:41: descriptors[0].rate_limit.unit: an unlimited rate_limit has no unit`},
		// Ours
		{"", `a.yaml: the file is empty; it needs "domain" and "descriptors"`},
		{"[1, 2]", `a.yaml:1:1: the file must be a map of fields, not a list`},
		{"domain: [d]\n", `a.yaml:1:1: domain: it must be text, not a list`},
		{"domain: d\ndescriptors: {key: k}\n", `a.yaml:2:1: descriptors: it must be a list, not a map of fields`},
		{"domain: d\ndomain: e\n", `a.yaml:2:1: "domain" is there twice, first in line 1`},
		{"domain: d\n---\ndomain: e\n", `a.yaml:2:1: a file is one document, of one domain: put what follows "---" into another file`},
		{"domain: d\nrate_limit: {unit: second, requests_per_unit: 5}\n", `a.yaml:2:1: rate_limit: the file has no field "rate_limit"; it belongs in a descriptor`},
		{rule("unit: second, requests_per_unit: 5, shadow_mode: true"), `a.yaml:4:54: descriptors[0].rate_limit.shadow_mode: rate_limit has no field "shadow_mode"; it belongs in a descriptor`},
		{"domain: d\ndescriptors:\n  - key: k\n    unit: second\n", `a.yaml:4:5: descriptors[0].unit: a descriptor has no field "unit"; it belongs in rate_limit`},
		{"domain: d\ndescriptors:\n  - key: k\n    something: else\n", `a.yaml:4:5: descriptors[0].something: a descriptor has no field "something"; it has key, value, rate_limit, descriptors, shadow_mode, quota_mode, detailed_metric, value_to_metric, share_threshold, metadata`},
		{rule("unit: minutes, requests_per_unit: 5"), `unknown unit "minutes"; did you mean "minute"?; units are`},
		{rule("requests_per_unit: 5"), `a.yaml:4:5: descriptors[0].rate_limit: rate_limit needs a unit: second, minute, hour, day, week, month, year`},
		{rule("unit: second"), `rate_limit needs requests_per_unit; 0 denies everything`},
		{rule("unit: second, requests_per_unit: -1"), `requests_per_unit: it must be from 0 to 4294967295, not -1`},
		{rule("unit: second, requests_per_unit: 4294967296"), `requests_per_unit: it must be from 0 to 4294967295, not 4294967296`},
		{rule("unit: second, requests_per_unit: 1.5"), `requests_per_unit: it must be a whole number from 0 to 4294967295, not the number 1.5`},
		{rule("unit: second, requests_per_unit: '5'"), `requests_per_unit: it must be a whole number from 0 to 4294967295, not "5"`},
		{rule("unlimited: maybe"), `unlimited: it must be true or false, not "maybe"`},
		{rule("unlimited: 'true'"), `unlimited: it must be true or false, not "true"`},
		{rule("unit: second, requests_per_unit: 5, replaces: x"), `replaces: it must be a list, not "x"`},
		{"domain: d\ndescriptors:\n  - key: k\n    rate_limit: 5\n", `a.yaml:4:17: descriptors[0].rate_limit: rate_limit must be a map of fields, not the number 5`},
		{"domain: d\ndescriptors:\n  - {key: k, value: v, share_threshold: true}\n", `a.yaml:3:5: descriptors[0]: share_threshold is for values with a wildcard, such as "v*"`},
		{"domain: d\ndescriptors:\n  - {key: k, metadata: x}\n", `metadata must be a map of fields, not "x"`},
		{"domain: d\ndescriptors:\n  - {key: k, metadata: {n: .inf}}\n", `".inf" is no number that metadata can have`},
		{"domain: d\ndescriptors: &a\n  - key: k\n    descriptors: *a\n", `a.yaml:4:18: descriptors[0].descriptors: *a is inside of what it stands for`},
		{"# weblimit: leaky\ndomain: d\n", `a.yaml:1:1: the comment "# weblimit: leaky": unknown algorithm; there are fixed_window, sliding_window, token_bucket`},
		{"# weblimit: fixed_window\n# weblimit: token_bucket\ndomain: d\n", `a.yaml:2:1: a file has one comment that begins with weblimit:`},
		{"domain: \xff\n", `a.yaml: the file is not UTF-8 text`},
		{strings.Repeat("#", 9<<20), `a.yaml: the file has more than 8388608 bytes`},
		{bomb(), `the file has more than 1000000 values, with every alias written out`},
		{deep(), `values are nested more than 100 deep`},
	} {
		_, err := envoy.New(envoy.Config{Source: envoy.Files(files(tt.text)...), Store: still(), Logger: quiet})
		var wrong *envoy.Error
		if !errors.As(err, &wrong) {
			t.Errorf("%.80q: %v", tt.text, err)
			continue
		}
		var lines []string
		for _, p := range wrong.Problems {
			lines = append(lines, p.String())
		}
		got := strings.Join(lines, "\n")
		for _, want := range strings.Split(tt.want, "\n") {
			if !strings.Contains(got, want) {
				t.Errorf("%.80q:\ngot  %s\nwant %s", tt.text, got, want)
			}
		}
	}
}

// bomb is a file of aliases of aliases.
func bomb() string {
	var b strings.Builder
	b.WriteString("domain: d\ndescriptors:\n  - {key: k, metadata: {a0: &a0 [x, x, x, x, x, x, x, x, x, x]")
	for i := range 9 {
		fmt.Fprintf(&b, ", a%d: &a%d [%s*a%d]", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	b.WriteString("}}\n")
	return b.String()
}

func deep() string {
	return "domain: d\ndescriptors:\n  - {key: k, metadata: {a: " + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}}\n"
}

// Of a file that passes a bound nothing else is told: what seems to be missing may stand in what is not read.
func TestAFileBeyondABoundHasOneProblem(t *testing.T) {
	t.Parallel()
	nested := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	text := "descriptors:\n  - metadata: {a: " + nested + "}\n    key: k\n    rate_limit: {unit: second, requests_per_unit: 5}\ndomain: d\n"
	_, err := envoy.New(envoy.Config{Source: envoy.Files(files(text)...), Store: still(), Logger: quiet})
	var wrong *envoy.Error
	if !errors.As(err, &wrong) || len(wrong.Problems) != 1 || !strings.HasSuffix(err.Error(), "values are nested more than 100 deep") {
		t.Error(err)
	}
}

func TestWrongDomains(t *testing.T) {
	t.Parallel()
	const one, other = "domain: d\ndescriptors: [{key: a}]\n", "domain: d\ndescriptors: [{key: b}]\n"
	for _, tt := range []struct {
		config envoy.Config
		texts  []string
		want   string
	}{
		{envoy.Config{}, []string{one, other}, `b.yaml:1:9: domain: the domain "d" is in a.yaml:1, too`},
		{envoy.Config{MergeDomains: true}, []string{one, one}, `b.yaml:2:15: descriptors[0]: the same key and value are in a.yaml:2 already`},
		{envoy.Config{MergeDomains: true}, []string{one, "# weblimit: token_bucket\n" + other}, `b.yaml:2:9: domain: the domain "d" counts by fixed_window in a.yaml:1`},
		{envoy.Config{}, nil, "there are no files"},
	} {
		tt.config.Source, tt.config.Store = envoy.Files(files(tt.texts...)...), still()
		check.Fails(t, fmt.Sprintf("%q", tt.texts), check.ErrorOf(envoy.New(tt.config)), tt.want)
	}
	c := dial(t, newServer(t, envoy.Config{MergeDomains: true},
		"domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1}}]\n",
		"domain: d\ndescriptors: [{key: b, rate_limit: {unit: day, requests_per_unit: 2}}]\n"))
	wantSaid(t, ask(t, c, request("d", "a=x", "b=x")), "OK, OK 0, OK 1")
}

// What YAML allows, and envoyproxy/ratelimit reads, is read.
func TestRightFiles(t *testing.T) {
	t.Parallel()
	c := dial(t, newServer(t, envoy.Config{}, `{"domain": "json", "descriptors": [{"key": "k", "rate_limit": {"unit": "SECOND", "requests_per_unit": 3}}]}`, `
domain: yaml
descriptors:
  - key: k
    value: 50          # numbers and words are texts
    rate_limit: &limit
      unit: Minute
      requests_per_unit: 0x10
  - key: k
    value: yes
    rate_limit: *limit
    shadow_mode: no
  - key: merged
    rate_limit:
      <<: *limit
      requests_per_unit: 7
  - key: open
    value: null
    rate_limit:
    descriptors:
`))
	for _, tt := range []struct{ domain, descriptor, want string }{
		{"json", "k=x", "OK, OK 2"},
		{"yaml", "k=50", "OK, OK 15"},
		{"yaml", "k=yes", "OK, OK 15"},
		{"yaml", "merged=x", "OK, OK 6"},
		{"yaml", "open=x", "OK, OK 0"},
	} {
		wantSaid(t, ask(t, c, request(tt.domain, tt.descriptor)), tt.want)
	}
}

func TestWrongConfigs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		change func(*envoy.Config)
		want   string
	}{
		{func(c *envoy.Config) { c.Source = nil }, "Config.Source is missing"},
		{func(c *envoy.Config) { c.Store = nil }, "Config.Store is missing"},
		{func(c *envoy.Config) { c.Algorithm = 9 }, "Config.Algorithm is unknown"},
		{func(c *envoy.Config) { c.Algorithms = map[string]envoy.Algorithm{"d": 9} }, `Config.Algorithms of "d" is unknown`},
		{func(c *envoy.Config) { c.Overdraw = 9 }, "Config.Overdraw is unknown"},
		{func(c *envoy.Config) { c.NearLimit = 1.5 }, "Config.NearLimit must be above 0"},
		{func(c *envoy.Config) { c.MaxDescriptors = 256 }, "Config.MaxDescriptors must be from 1 to 255"},
		{func(c *envoy.Config) { c.MaxEntries = -1 }, "Config.MaxEntries must be at least 1"},
		{func(c *envoy.Config) { c.MaxSeries = -1 }, "Config.MaxSeries must be at least 1"},
		{func(c *envoy.Config) { c.Timeout = 1 }, "Config.Timeout must be at least 1ms"},
		{func(c *envoy.Config) { c.LimitHeaders = &envoy.LimitHeaders{Limit: "a:b"} }, `Config.LimitHeaders: "a:b" is no name of a header`},
		{func(c *envoy.Config) { c.LimitHeaders = &envoy.LimitHeaders{Limit: "ratelimit-reset"} }, `Config.LimitHeaders: two of the names are "RateLimit-Reset"`},
		{func(c *envoy.Config) { c.OnOutage = 9 }, "unknown outage action"},
		{func(c *envoy.Config) { c.Source = envoy.Directory("testdata/none") }, "no such file"},
		{func(c *envoy.Config) { c.Source = envoy.Directory("wrong_test.go") }, "is no directory"},
	} {
		config := envoy.Config{Source: envoy.Files(files(two)...), Store: still(), Logger: quiet}
		tt.change(&config)
		if _, err := envoy.New(config); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}
