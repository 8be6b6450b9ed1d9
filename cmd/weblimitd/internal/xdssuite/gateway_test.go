package xdssuite

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	rlsconf "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/service/envoy"
)

// descriptor is one of a configuration, which is written as a message and as a file by code of this test alone.
type descriptor struct {
	key, value    string
	unit          string // "" without a limit
	requests      uint32
	shadow, quota bool
	below         []*descriptor
}

func (d *descriptor) message() *rlsconf.RateLimitDescriptor {
	m := &rlsconf.RateLimitDescriptor{Key: d.key, Value: d.value, ShadowMode: d.shadow, QuotaMode: d.quota}
	if d.unit != "" {
		m.RateLimit = &rlsconf.RateLimitPolicy{Unit: rlsconf.RateLimitUnit(rlsconf.RateLimitUnit_value[strings.ToUpper(d.unit)]), RequestsPerUnit: d.requests}
	}
	for _, b := range d.below {
		m.Descriptors = append(m.Descriptors, b.message())
	}
	return m
}

func (d *descriptor) write(b *strings.Builder, indent string) {
	fmt.Fprintf(b, "%s- key: %q\n", indent, d.key)
	indent += "  "
	if d.value != "" {
		fmt.Fprintf(b, "%svalue: %q\n", indent, d.value)
	}
	if d.unit != "" {
		fmt.Fprintf(b, "%srate_limit:\n%s  unit: %s\n%s  requests_per_unit: %d\n", indent, indent, d.unit, indent, d.requests)
	}
	fmt.Fprintf(b, "%sshadow_mode: %v\n%squota_mode: %v\n", indent, d.shadow, indent, d.quota)
	if len(d.below) > 0 {
		fmt.Fprintf(b, "%sdescriptors:\n", indent)
		for _, other := range d.below {
			other.write(b, indent+"  ")
		}
	}
}

// settings are the limits of one domain.
type settings struct {
	domain string
	routes []*descriptor
}

func (s *settings) message() *rlsconf.RateLimitConfig {
	m := &rlsconf.RateLimitConfig{Name: s.domain, Domain: s.domain}
	for _, r := range s.routes {
		m.Descriptors = append(m.Descriptors, r.message())
	}
	return m
}

func (s *settings) file() policy.File {
	var b strings.Builder
	fmt.Fprintf(&b, "domain: %q\ndescriptors:\n", s.domain)
	for _, r := range s.routes {
		r.write(&b, "  ")
	}
	return policy.File{Name: s.domain + ".yaml", Text: []byte(b.String())}
}

func pick(r *rand.Rand, all ...string) string { return all[r.IntN(len(all))] }

// chain is a rule of several matches, of which the last has the limit.
func chain(r *rand.Rand, quota bool, matches ...*descriptor) *descriptor {
	shadow := r.IntN(6) == 0
	last := matches[len(matches)-1]
	last.unit, last.requests, last.quota = pick(r, "second", "minute", "hour", "day", "month", "year"), uint32(r.IntN(4)), quota
	for i, m := range matches {
		m.shadow = shadow && (!quota || m == last) // Envoy AI Gateway says it of the last one only
		if i > 0 {
			matches[i-1].below = []*descriptor{m}
		}
	}
	return matches[0]
}

// ofEnvoyGateway are limits in the shape that Envoy Gateway gives a BackendTrafficPolicy: per route a rule of matches for headers,
// method, path, addresses and query, in this order. Its translator is in packages that nobody else can import; the shapes are
// those of its test data, internal/xds/translator/testdata/out/ratelimit-config.
func ofEnvoyGateway(r *rand.Rand, domain string) *settings {
	s := &settings{domain: domain}
	shared := r.IntN(4) == 0
	for route := range 1 + r.IntN(3) {
		name := fmt.Sprintf("httproute/default/backend-%d/rule/0/match/0/www_example_com", route)
		if shared {
			name = fmt.Sprintf("%s/rule/%d", domain, route)
		}
		top := &descriptor{key: name, value: name}
		for i := range 1 + r.IntN(3) {
			top.below = append(top.below, chain(r, false, matches(r, i)...))
		}
		s.routes = append(s.routes, top)
	}
	return s
}

// matches are those of one rule.
func matches(r *rand.Rand, rule int) (all []*descriptor) {
	fixed := func(key string) { all = append(all, &descriptor{key: key, value: key}) }
	distinct := func(key string) { all = append(all, &descriptor{key: key}) }
	either := func(key string) {
		if r.IntN(2) == 0 {
			fixed(key)
		} else {
			distinct(key)
		}
	}
	n := 0
	for ; n < r.IntN(3); n++ {
		either(fmt.Sprintf("rule-%d-match-%d", rule, n))
	}
	if r.IntN(4) == 0 {
		fixed(fmt.Sprintf("rule-%d-method", rule))
	}
	if r.IntN(4) == 0 {
		fixed(fmt.Sprintf("rule-%d-path", rule))
	}
	if r.IntN(3) == 0 && rule == 0 { // two rules for one network would be two of one key and value
		all = append(all, &descriptor{key: "masked_remote_address", value: pick(r, "0.0.0.0/0", "192.168.0.0/16", "invert:10.0.0.0/8", "2001:db8::/64")})
		if r.IntN(2) == 0 {
			distinct("remote_address")
		}
	}
	for m := range r.IntN(2) {
		either(fmt.Sprintf("rule-%d-match-%d", rule, n+m))
	}
	if len(all) == 0 {
		fixed(fmt.Sprintf("rule-%d-match--1", rule))
	}
	return all
}

// ofAIGateway are limits in the shape that Envoy AI Gateway gives a QuotaPolicy: per backend and model, in quota mode.
func ofAIGateway(r *rand.Rand, domain string) *settings {
	s := &settings{domain: domain}
	for backend := range 1 + r.IntN(2) {
		top := &descriptor{key: "backend_name", value: fmt.Sprintf("default/openai-%d", backend)}
		for model := range 1 + r.IntN(2) {
			m := &descriptor{key: "model_name_override", value: fmt.Sprintf("gpt-%d", model)}
			if r.IntN(2) == 0 {
				chain(r, true, m)
			} else {
				keys := []string{"rule-0-x-tier|premium-match-0", "rule-0-x-user-match-1", "rule-0-x-path|^/v1/(chat|images)$-match-0"}
				m.below = append(m.below, chain(r, true, &descriptor{key: keys[0], value: keys[0]}, &descriptor{key: keys[1]}),
					chain(r, true, &descriptor{key: keys[2], value: keys[2]}), chain(r, true, &descriptor{key: "rule-1-match--1", value: "rule-1-match--1"}))
			}
			top.below = append(top.below, m)
		}
		if r.IntN(2) == 0 {
			top.below = append(top.below, chain(r, true, &descriptor{key: "model_name_override"}))
		}
		s.routes = append(s.routes, top)
	}
	return s
}

// request is one that Envoy sends for such limits: ways from a route to a rule, of which some match nothing.
func (s *settings) request(r *rand.Rand) *rls.RateLimitRequest {
	request := &rls.RateLimitRequest{Domain: s.domain, HitsAddend: uint32(r.IntN(3))}
	for range 1 + r.IntN(3) {
		var entries []*ratelimit.RateLimitDescriptor_Entry
		for level := s.routes; len(level) > 0; {
			d := level[r.IntN(len(level))]
			value := d.value
			if value == "" || r.IntN(12) == 0 {
				value = pick(r, "alice", "bob", "192.168.0.7")
			}
			entries = append(entries, &ratelimit.RateLimitDescriptor_Entry{Key: d.key, Value: value})
			level = d.below
		}
		request.Descriptors = append(request.Descriptors, &ratelimit.RateLimitDescriptor{Entries: entries})
	}
	return request
}

// What a hundred policies of both gateways decide is the same by xDS and from files: the whole answer, over limits that are used up.
func TestDecisionsOfGateways(t *testing.T) {
	t.Parallel()
	p := startPlane(t, "")
	p.set(t, "0")
	s := follow(t, p, envoy.Config{AllowEmpty: true})
	random := rand.New(rand.NewPCG(2026, 11))
	seen := map[string]int{}
	for round := range 10 {
		var all []*settings
		var messages []*rlsconf.RateLimitConfig
		var files []policy.File
		for i := range 10 {
			domain := fmt.Sprintf("default/eg-%d-%d/http", round, i)
			of := ofEnvoyGateway
			if i%4 == 3 {
				of = ofAIGateway
			}
			made := of(random, domain)
			all = append(all, made)
			messages, files = append(messages, made.message()), append(files, made.file())
		}
		version := fmt.Sprint(round + 1)
		p.set(t, version, messages...)
		p.accepts(t, version)
		byFiles := must.Get(envoy.New(envoy.Config{Source: envoy.Files(files...), Store: still(), Logger: quiet}))(t)
		check.Equal(t, "limits", s.Status().Limits, byFiles.Status().Limits)
		for _, made := range all {
			for range 40 {
				request := made.request(random)
				want := must.Get(byFiles.ShouldRateLimit(t.Context(), request))(t)
				got := must.Get(s.ShouldRateLimit(t.Context(), request))(t)
				if !proto.Equal(got, want) {
					t.Fatalf("%v\nby xDS     %v\nfrom files %v\n%s", request, got, want, made.file().Text)
				}
				seen[got.GetOverallCode().String()]++
				for _, status := range got.GetStatuses() {
					if status.GetCurrentLimit() != nil {
						seen["limits"]++
					}
				}
			}
		}
	}
	if seen["OK"] < 500 || seen["OVER_LIMIT"] < 500 || seen["limits"] < 3000 {
		t.Errorf("of 4000 requests: %v", seen)
	}
}
