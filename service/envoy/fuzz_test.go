package envoy

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// What the protobuf library reads is read in the same way, and what it refuses is refused, but for
// strings that are no UTF-8.
func FuzzRequest(f *testing.F) {
	whole := must.Get(proto.Marshal(&rls.RateLimitRequest{
		Domain: "edge", HitsAddend: 7, Descriptors: []*ratelimit.RateLimitDescriptor{{
			Entries:    []*ratelimit.RateLimitDescriptor_Entry{{Key: "user", Value: "a"}, {Key: "path"}},
			Limit:      &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 5, Unit: 2},
			HitsAddend: wrapperspb.UInt64(3), IsNegativeHits: true,
		}, {}},
	}))(f)
	f.Add(whole)
	f.Add(append(bytes.Clone(whole), whole...))
	f.Add(bytes.Replace(whole, []byte("edge"), []byte("\xff\xfe\xfd\xfc"), 1))
	f.Add(whole[:len(whole)-3])
	f.Add([]byte{0x0b, 0x0b, 0x0c, 0x0c})
	f.Add([]byte("\x0a\x01\xff\x0a\x01a"))            // the last domain counts
	f.Add([]byte("\x12\x06\x12\x04\x30\x30\x30\x30")) // an unknown field of a limit
	f.Fuzz(func(t *testing.T, wire []byte) {
		got, want := new(rls.RateLimitRequest), new(rls.RateLimitRequest)
		gotErr := proto.Unmarshal(wire, &lenient{got, most{math.MaxInt, math.MaxInt}})
		wantErr := proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(wire, want)
		switch {
		case wantErr != nil && strings.Contains(wantErr.Error(), "UTF-8"):
		case (gotErr == nil) != (wantErr == nil):
			t.Errorf("%x: %v, and the library says %v", wire, gotErr, wantErr)
		case gotErr == nil && !proto.Equal(got, want):
			t.Errorf("%x: %v, and the library reads %v", wire, got, want)
		}
	})
}

// Whatever a file holds, it is read or refused, in bounded time and without a panic.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"domain: d\ndescriptors:\n  - key: k\n    value: a*b*\n    rate_limit: {unit: day, requests_per_unit: 1}\n",
		"a: &a [*a]", "<<: [{domain: d}, {<<: {domain: e}}]", "domain: d\ndescriptors: [{key: '*', share_threshold: true, metadata: {1: .nan}}]",
		"# weblimit: token_bucket\ndomain: \"\\x1f\"\ndescriptors: [{key: k, descriptors: [{key: k, rate_limit: {unlimited: yes}}]}]",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(_ *testing.T, text []byte) {
		p := new(problems)
		if d := parse("a.yaml", text, false, p); d != nil && d.domain != "" {
			c := &compiler{problems: p, config: &Config{}, made: rules{domains: map[string]*domain{}}, names: map[uint64]named{}}
			c.document(d)
		}
	})
}

// A wildcard matches as a simple search says.
func FuzzWildcard(f *testing.F) {
	f.Add("a*b*c", "abc")
	f.Add("*", "")
	f.Add("a*a", "a")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 12 || len(text) > 20 || !bytes.Contains([]byte(pattern), []byte("*")) {
			return
		}
		l := new(level)
		l.add(&node{value: pattern})
		check.Equal(t, fmt.Sprintf("%q matches %q", pattern, text), l.find("", text) != nil, slowly(pattern, text))
	})
}

func slowly(pattern, text string) bool {
	switch {
	case pattern == "":
		return text == ""
	case pattern[0] == '*':
		return slowly(pattern[1:], text) || text != "" && slowly(pattern, text[1:])
	}
	return text != "" && pattern[0] == text[0] && slowly(pattern[1:], text[1:])
}
