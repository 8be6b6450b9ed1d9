package envoy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/service/envoy"
)

// alike are pairs of descriptors whose limits look alike. Those of the last pair have one hash of 40 bits: the first of
// SHA-256 of "0 " and the path.
var alike = map[string][2]string{
	"keys and values":   {"user=a_b", "user_a=b"},
	"no value":          {"user_a=", "user=a"},
	"dots and levels":   {"a.b=", "a=,b="},
	"dots of a value":   {"a=b.c", "a=b,c="},
	"odd characters":    {"path=/a", "path=-a"},
	"overrides":         {"override=", "other="},
	"40 bits of hashes": {"path=/" + strings.Repeat("a", 50) + "778079", "path=/" + strings.Repeat("a", 50) + "423627"},
}

// fileOf returns a file of a domain with a limit of 5 an hour for a descriptor.
func fileOf(domain, of string) string {
	text := &strings.Builder{}
	fmt.Fprintf(text, "domain: %s\n", domain)
	entries := descriptor(of).GetEntries()
	for i, entry := range entries {
		in := strings.Repeat("  ", i)
		fmt.Fprintf(text, "%sdescriptors:\n%s- key: %q\n", in, in, entry.GetKey())
		if entry.GetValue() != "" {
			fmt.Fprintf(text, "%s  value: %q\n", in, entry.GetValue())
		}
	}
	fmt.Fprintf(text, "%srate_limit: {unit: hour, requests_per_unit: 5}\n", strings.Repeat("  ", len(entries)))
	return text.String()
}

// A limit has its name whatever other limits there are, and in which order files are read: else processes of one store
// would count apart, and a file that comes with a reload would have those of another begin anew.
func TestOtherFilesChangeNoName(t *testing.T) {
	t.Parallel()
	for name, pair := range alike {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := still()
			one, other := fileOf("edge", pair[0]), fileOf("edge", pair[1])
			asked := 0
			for _, texts := range [][]string{{one, other}, {other, one}, {one}, {one + "# a comment\n", other}} {
				asked++
				s := newServer(t, envoy.Config{Store: store, MergeDomains: true}, texts...)
				wantAnswers(t, direct{s}, request("edge", pair[0]), fmt.Sprint("OK, OK ", 5-asked))
			}
			s := newServer(t, envoy.Config{Store: store, MergeDomains: true}, other)
			wantAnswers(t, direct{s}, request("edge", pair[1]), "OK, OK 4")
		})
	}
}

// Names are for people, and end in a hash where they would not tell limits apart.
func TestNamesOfLimits(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for of, want := range map[string]string{
		"user=":                                "edge.user",
		"action=login,remote_address=":         "edge.action-login.remote_address",
		"a=b-c":                                "edge.a-b-c",
		"a=b,c=":                               "edge.a-b.c",
		"a-b=c":                                "edge.a-b-c..",
		"a=b.c":                                "edge.a-b.c..",
		"path=/a b":                            "edge.path--a-b..",
		"a=" + strings.Repeat("x", 57):         "edge.a-" + strings.Repeat("x", 57),
		"a=" + strings.Repeat("x", 58):         "edge.a-" + strings.Repeat("x", 33) + "..",
		"a=" + strings.Repeat("x", 58) + ",b=": "edge.a-" + strings.Repeat("x", 33) + "..",
		"a=é":                                  "edge.a--..",
	} {
		s := newServer(t, envoy.Config{Headers: core.Draft11}, fileOf("edge", of))
		header := ask(t, direct{s}, request("edge", of)).GetResponseHeadersToAdd()[0].GetValue()
		name, _, _ := strings.Cut(strings.TrimPrefix(header, `"`), `"`)
		if hash, found := strings.CutPrefix(name, want); !found || strings.HasSuffix(want, "..") != (len(hash) == 22) {
			t.Errorf("%s: %s, want %s", of, name, want)
		}
		if other := seen[name]; other != "" {
			t.Errorf("%s and %s have the name %s", other, of, name)
		}
		seen[name] = of
	}
}

// Where two names have one hash in stores, here 0xdc27f44f0b16f, files are refused, and none of the two gets another name.
func TestTwoLimitsThatStoresCanNotTellApart(t *testing.T) {
	t.Parallel()
	one, other := fileOf("edge", "tenant=fec2eb4fdae86"), fileOf("edge", "tenant=a34eb5b001846")
	all := []policy.File{{Name: "a.yaml", Text: []byte(one)}, {Name: "b.yaml", Text: []byte(other)}}
	for range 2 {
		_, err := envoy.New(envoy.Config{Source: envoy.Files(all...), Store: still(), Logger: quiet, MergeDomains: true})
		check.Fails(t, "two names have one hash", err, all[1].Name+":3:3: descriptors[0]: stores can't tell this limit from "+all[0].Name+":3: their names, ")
		slices.Reverse(all)
	}
}
