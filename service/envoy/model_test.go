package envoy_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/edge"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/service/envoy"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// modelled is a descriptor of a configuration as the model has it: a list that is searched.
type modelled struct {
	key, value   string
	limit        *modelledLimit
	share        bool
	shadow, quot bool
	below        []*modelled
}

type modelledLimit struct {
	n         int64
	unit      string
	unlimited bool
	name      string
	replaces  string
}

// model counts by what docs/service/envoy.md says, one descriptor after the other, in a map.
type model struct {
	config envoy.Config
	rules  []*modelled
	used   map[string]int64
}

// find returns the rule of a descriptor, and what it counts by.
func (m *model) find(entries []*ratelimit.RateLimitDescriptor_Entry) (*modelled, string) {
	level, counts := m.rules, ""
	var found *modelled
	for _, e := range entries {
		found = nil
		rank := 3
		for _, d := range level {
			at := 3
			switch {
			case d.key != e.GetKey():
			case strings.Contains(d.value, "*"):
				pattern := "(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(d.value), `\*`, ".*") + "$"
				if regexp.MustCompile(pattern).MatchString(e.GetValue()) {
					at = 1
				}
			case d.value == "":
				at = 2
			case d.value == e.GetValue():
				at = 0
			}
			if at < rank {
				found, rank = d, at
			}
		}
		if found == nil {
			return nil, ""
		}
		value := "=" + e.GetValue()
		if found.share {
			value = "*" + found.value
		}
		counts += fmt.Sprintf("%q%q", e.GetKey(), value)
		level = found.below
	}
	if found == nil || found.limit == nil {
		return nil, ""
	}
	return found, counts
}

// bucket is what several descriptors of a request may share.
type bucket struct {
	rule   *modelled
	counts string
	cost   int64
	spent  bool

	fits, charged bool
}

func (m *model) left(b *bucket) int64 { return max(b.rule.limit.n-m.used[b.counts], 0) }

func (b *bucket) costs(hits int64) int64 {
	if b.rule.limit.n == 0 {
		return 1 << 40
	}
	return hits
}

// answer returns what said would say of the response.
func (m *model) answer(r *rls.RateLimitRequest) string {
	type part struct {
		rule   *modelled
		bucket *bucket
		hits   int64
		back   bool
	}
	parts := make([]part, len(r.GetDescriptors()))
	buckets := map[string]*bucket{}
	var order []*bucket
	replaced := map[string]bool{}
	for i, d := range r.GetDescriptors() {
		parts[i].rule, _ = m.find(d.GetEntries())
		if rule := parts[i].rule; rule != nil && rule.limit.replaces != "" {
			replaced[rule.limit.replaces] = true
		}
	}
	for i, d := range r.GetDescriptors() {
		p := &parts[i]
		if p.rule == nil || p.rule.limit.unlimited {
			continue
		}
		if replaced[p.rule.limit.name] {
			p.rule = nil
			continue
		}
		_, counts := m.find(d.GetEntries())
		p.hits, p.back = max(int64(r.GetHitsAddend()), 1), d.GetIsNegativeHits()
		if d.GetHitsAddend() != nil {
			p.hits = int64(d.GetHitsAddend().GetValue())
		}
		name := fmt.Sprint(p.back, counts)
		b := buckets[name]
		if b == nil {
			b = &bucket{rule: p.rule, counts: counts}
			b.spent = m.config.Overdraw == envoy.OverdrawAlways
			if buckets[name] = b; !p.back {
				order = append(order, b)
			}
		}
		b.spent = b.spent || m.config.Overdraw == envoy.OverdrawStated && d.GetHitsAddend() != nil
		b.cost += b.costs(p.hits)
		p.bucket = b
	}
	quotas := 0
	for _, b := range order {
		if b.rule.quot || m.config.Quota {
			quotas++
		}
	}
	granted := true
	for _, b := range order {
		b.fits = b.cost <= b.rule.limit.n-m.used[b.counts] || b.cost == 0
		alone := b.rule.shadow || m.config.Shadow || m.config.Independent || quotas > 1 && (b.rule.quot || m.config.Quota)
		granted = granted && (b.fits || alone)
	}
	for _, b := range order {
		if b.charged = granted && b.fits; b.charged {
			m.used[b.counts] += b.cost
		}
	}
	alternative := false
	for _, b := range order {
		if b.cost == 0 && m.left(b) == 0 {
			b.fits = false
		}
		alternative = alternative || (b.rule.quot || m.config.Quota) && (b.fits || b.rule.shadow || m.config.Shadow)
	}
	denied := false
	for _, b := range order {
		judged := b.rule.shadow || m.config.Shadow || alternative && (b.rule.quot || m.config.Quota)
		denied = denied || !b.fits && !judged
	}
	for _, b := range order {
		switch spends := b.spent && b.cost > 0; {
		case b.charged && denied && !m.config.Independent && !spends:
			m.used[b.counts] -= b.cost
			b.charged = false
		case !b.charged && spends && m.left(b) > 0:
			m.used[b.counts] = min(m.used[b.counts]+b.cost, 2*max(b.rule.limit.n, 1))
			b.charged = true
		}
	}
	left := map[*bucket]int64{}
	for _, b := range order {
		left[b] = m.left(b)
		if b.charged && b.fits {
			left[b] += b.cost
		}
	}
	if len(order) == 0 || !denied || m.config.Independent {
		for _, b := range buckets {
			if buckets["true"+b.counts] == b {
				m.used[b.counts] -= min(b.cost, m.used[b.counts])
			}
		}
	}
	all := []string{"OK"}
	if denied && !m.config.Shadow {
		all[0] = "OVER"
	}
	for i := range parts {
		p := &parts[i]
		code, remains := "OK", int64(0)
		switch b := p.bucket; {
		case p.rule == nil:
		case p.rule.limit.unlimited:
			remains = math.MaxUint32
		case p.back:
			remains = m.left(b)
		case b.fits && b.charged:
			left[b] -= b.costs(p.hits)
			remains = left[b]
		case b.fits:
			remains = left[b]
		default:
			if cost := b.costs(p.hits); cost > 0 && !b.charged && cost <= left[b] {
				left[b] -= cost
			} else if !p.rule.shadow {
				code = "OVER"
			}
			remains = left[b]
		}
		all = append(all, fmt.Sprint(code, " ", remains))
	}
	return strings.Join(all, ", ")
}

var modelUnits = []string{"day", "week", "month", "year"}

// randomRules makes descriptors.
func randomRules(r *rand.Rand, depth int) (all []*modelled) {
	taken := map[string]bool{}
	for range 3 + r.IntN(5) {
		d := &modelled{key: pick(r, "a", "b"), value: pick(r, "", "", "", "x", "y", "x*", "*y", "*", "x*y*")}
		if taken[d.key+"="+d.value] {
			continue
		}
		taken[d.key+"="+d.value] = true
		d.share = strings.Contains(d.value, "*") && r.IntN(2) == 0
		if r.IntN(4) > 0 {
			d.limit = &modelledLimit{n: int64(r.IntN(9)), unit: pick(r, modelUnits...)}
			if r.IntN(12) == 0 {
				d.limit.unlimited = true
			}
			d.limit.name, d.limit.replaces = pick(r, "", "", "", "", "n1", "n2"), pick(r, "", "", "", "", "", "n1", "n2")
			if d.limit.name == d.limit.replaces {
				d.limit.replaces = ""
			}
			d.shadow, d.quot = r.IntN(8) == 0, r.IntN(5) == 0
		}
		if depth > 1 && r.IntN(3) > 0 {
			d.below = randomRules(r, depth-1)
		}
		all = append(all, d)
	}
	return all
}

func pick(r *rand.Rand, all ...string) string { return all[r.IntN(len(all))] }

// write writes descriptors as a file has them.
func write(b *strings.Builder, all []*modelled, indent string) {
	for _, d := range all {
		fmt.Fprintf(b, "%s- key: %s\n", indent, d.key)
		indent := indent + "  "
		if d.value != "" {
			fmt.Fprintf(b, "%svalue: %q\n", indent, d.value)
		}
		if d.share {
			fmt.Fprintf(b, "%sshare_threshold: true\n", indent)
		}
		if l := d.limit; l != nil {
			fmt.Fprintf(b, "%srate_limit:\n", indent)
			if l.unlimited {
				fmt.Fprintf(b, "%s  unlimited: true\n", indent)
			} else {
				fmt.Fprintf(b, "%s  unit: %s\n%s  requests_per_unit: %d\n", indent, l.unit, indent, l.n)
			}
			if l.name != "" {
				fmt.Fprintf(b, "%s  name: %s\n", indent, l.name)
			}
			if l.replaces != "" {
				fmt.Fprintf(b, "%s  replaces: [{name: %s}]\n", indent, l.replaces)
			}
		}
		if d.shadow {
			fmt.Fprintf(b, "%sshadow_mode: true\n", indent)
		}
		if d.quot {
			fmt.Fprintf(b, "%squota_mode: true\n", indent)
		}
		if len(d.below) > 0 {
			fmt.Fprintf(b, "%sdescriptors:\n", indent)
			write(b, d.below, indent+"  ")
		}
	}
}

func randomRequest(r *rand.Rand) *rls.RateLimitRequest {
	request := &rls.RateLimitRequest{Domain: "d", HitsAddend: uint32(r.IntN(4))}
	for range 1 + r.IntN(4) {
		d := new(ratelimit.RateLimitDescriptor)
		for range 1 + min(r.IntN(3), r.IntN(3)) {
			d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{
				Key: pick(r, "a", "b"), Value: pick(r, "x", "y", "xy", "x1", "zy", "", "x*", "x1y2", "=|~#*"),
			})
		}
		if r.IntN(6) == 0 {
			d.HitsAddend = wrapperspb.UInt64(uint64(r.IntN(8)))
		}
		d.IsNegativeHits = r.IntN(12) == 0
		request.Descriptors = append(request.Descriptors, d)
	}
	return request
}

// Random requests, fifty under each of many random files, are answered as a model says that was written from the
// documentation.
func TestModel(t *testing.T) {
	t.Parallel()
	edge.AwayFrom(24*time.Hour, 3*time.Minute)
	for _, store := range []struct {
		name  string
		files int
		make  func(t *testing.T) core.Store
	}{
		{"memory", 60, func(*testing.T) core.Store { return still() }},
		{"Redis", 25, func(t *testing.T) core.Store {
			return redisstore.New(redistest.Shared(t).Client(t), redisstore.Config{
				Prefix: redistest.Prefix(t), DenialCache: redisstore.DenialCache{Disabled: true}, // a repeated denial tells what remained then
			})
		}},
	} {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			files, denied, answers := long.Rounds(store.files, 1000), 0, map[string]bool{}
			for seed := range uint64(files) {
				r := rand.New(rand.NewPCG(seed, 15))
				config := envoy.Config{
					Store: store.make(t), Independent: r.IntN(3) == 0, Overdraw: envoy.Overdraw(r.IntN(3)),
					Shadow: r.IntN(20) == 0, Quota: r.IntN(20) == 0, Logger: quiet, Timeout: time.Minute,
				}
				rules := randomRules(r, 3)
				var text strings.Builder
				text.WriteString("domain: d\ndescriptors:\n")
				write(&text, rules, "  ")
				config.Source = envoy.Files(policy.File{Name: "a.yaml", Text: []byte(text.String())})
				s := newServer(t, config)
				m := &model{config: config, rules: rules, used: map[string]int64{}}
				for i := range 50 {
					request := randomRequest(r)
					response := must.Get(s.ShouldRateLimit(t.Context(), request))(t)
					want := m.answer(request)
					if got := said(response); got != want {
						config.Source = nil // its text follows
						t.Fatalf("seed %d, request %d: %v\ngot  %s\nwant %s\n%+v\n%s", seed, i, request, got, want, config, text.String())
					}
					if answers[want] = true; response.GetOverallCode() == over {
						denied++
					}
				}
			}
			if all := 50 * files; denied < all/10 || denied > all*8/10 || len(answers) < min(all, 10_000)/10 {
				t.Errorf("of %d requests, %d are denied, with %d different answers: the test sees too little", all, denied, len(answers))
			}
		})
	}
}
