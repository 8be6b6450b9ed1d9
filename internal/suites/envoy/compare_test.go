package envoy

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/edge"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/service/envoy"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func parse(descriptors ...string) (all []*ratelimit.RateLimitDescriptor) {
	for _, text := range descriptors {
		d := new(ratelimit.RateLimitDescriptor)
		for entry := range strings.SplitSeq(text, ",") {
			key, value, _ := strings.Cut(entry, "=")
			d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
		all = append(all, d)
	}
	return all
}

func pick(r *rand.Rand, all ...string) string { return all[r.IntN(len(all))] }

// randomFile writes a file of random rules, in what versions of envoyproxy/ratelimit have in common.
func randomFile(r *rand.Rand, domain string) policy.File {
	var b strings.Builder
	fmt.Fprintf(&b, "domain: %s\ndescriptors:\n", domain)
	randomRules(r, &b, "  ", 3)
	return policy.File{Name: domain + ".yaml", Text: []byte(b.String())}
}

// The names of limits say in their answers what mode they are in.
const (
	inShadow = "in-shadow"
	inQuota  = "in-quota"
)

func randomRules(r *rand.Rand, b *strings.Builder, indent string, depth int) {
	taken := map[string]bool{}
	for range 4 + r.IntN(4) {
		key, value := pick(r, "a", "b", "c"), pick(r, "", "", "x", "y", "x*", "*", "xy*")
		if taken[key+"="+value] {
			continue
		}
		taken[key+"="+value] = true
		fmt.Fprintf(b, "%s- key: %s\n", indent, key)
		in := indent + "  "
		if value != "" {
			fmt.Fprintf(b, "%svalue: %q\n", in, value)
		}
		if strings.HasSuffix(value, "*") && r.IntN(2) == 0 {
			fmt.Fprintf(b, "%sshare_threshold: true\n", in)
		}
		if r.IntN(5) > 0 {
			fmt.Fprintf(b, "%srate_limit:\n", in)
			if r.IntN(10) == 0 {
				fmt.Fprintf(b, "%s  unlimited: true\n", in)
			} else {
				fmt.Fprintf(b, "%s  unit: %s\n%s  requests_per_unit: %d\n", in, pick(r, "day", "week", "month", "year"), in, r.IntN(7))
			}
			name := pick(r, "", "", "", "", "one", "two", inShadow, inQuota, inQuota, inShadow+inQuota)
			if name != "" {
				fmt.Fprintf(b, "%s  name: %s\n", in, name)
			} else if r.IntN(4) == 0 {
				fmt.Fprintf(b, "%s  replaces: [{name: %s}]\n", in, pick(r, "one", "two", inQuota))
			}
			for mode, mark := range map[string]string{"shadow_mode": inShadow, "quota_mode": inQuota} {
				if strings.Contains(name, mark) {
					fmt.Fprintf(b, "%s%s: true\n", in, mode)
				}
			}
			if r.IntN(4) == 0 {
				fmt.Fprintf(b, "%s%s: true\n", in, pick(r, "detailed_metric", "value_to_metric"))
			}
		}
		if depth > 1 && r.IntN(2) == 0 {
			fmt.Fprintf(b, "%sdescriptors:\n", in)
			randomRules(r, b, in+"  ", depth-1)
		}
	}
}

// randomRequest has no two descriptors that one limit counts for: these are asked as one. Entries of an
// override are for it alone, and say its numbers, since here overrides count apart.
func randomRequest(r *rand.Rand, domain string, most uint32) *rls.RateLimitRequest {
	request := &rls.RateLimitRequest{Domain: domain, HitsAddend: uint32(r.IntN(int(most) + 1))}
	value := func() string { return pick(r, "x", "y", "xy", "x1", "xy2", "z", "") }
	for _, i := range r.Perm(3)[:1+r.IntN(3)] {
		text := "abc"[i:i+1] + "=" + value()
		for range min(r.IntN(3), r.IntN(3)) {
			text += "," + pick(r, "a", "b", "c") + "=" + value()
		}
		d := parse(text)[0]
		if r.IntN(8) == 0 {
			unit := pick(r, "DAY", "WEEK", "MONTH", "YEAR")
			n := r.IntN(5)
			d.Entries[0].Value = fmt.Sprint("override", n, unit)
			d.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(n), Unit: typev3.RateLimitUnit(rls.RateLimitResponse_RateLimit_Unit_value[unit])}
		}
		if r.IntN(4) == 0 {
			d.HitsAddend = wrapperspb.UInt64(uint64(r.IntN(2 * int(most))))
		}
		request.Descriptors = append(request.Descriptors, d)
	}
	return request
}

// peers is an answer of envoyproxy/ratelimit with what docs/service/envoy.md excepts: quotas are as in its
// versions since July 2026, and 0 hits are over the limit if nothing remains. same reports whether that
// has changed nothing that headers show.
func peers(request *rls.RateLimitRequest, r *rls.RateLimitResponse, shadow, quota bool) (same bool) {
	same = true
	quotas, over, denied := 0, 0, false
	for i, s := range r.GetStatuses() {
		l := s.GetCurrentLimit()
		if l == nil {
			continue
		}
		isQuota, inShadow := quota || strings.Contains(l.GetName(), inQuota), strings.Contains(l.GetName(), inShadow)
		if hits := request.GetDescriptors()[i].GetHitsAddend(); hits != nil && hits.GetValue() == 0 && s.GetLimitRemaining() == 0 && !inShadow {
			s.Code, same = rls.RateLimitResponse_OVER_LIMIT, false
		}
		if isQuota && s.GetDurationUntilReset() == nil { // it is over
			s.Code = rls.RateLimitResponse_OVER_LIMIT
		}
		same = same && !inShadow // limits in shadow mode do not show in headers here
		isOver := s.GetCode() == rls.RateLimitResponse_OVER_LIMIT
		if isQuota {
			quotas++
		}
		if isQuota && isOver {
			over++
		}
		denied = denied || isOver && !isQuota
	}
	if r.OverallCode = rls.RateLimitResponse_OK; !shadow && (denied || quotas > 0 && over == quotas) {
		r.OverallCode = rls.RateLimitResponse_OVER_LIMIT
	}
	return same
}

// answer is what both have to say alike.
func answer(r *rls.RateLimitResponse) string {
	all := []string{r.GetOverallCode().String()}
	for _, s := range r.GetStatuses() {
		all = append(all, fmt.Sprint(s.GetCode(), " ", s.GetLimitRemaining(), " of ", s.GetCurrentLimit().GetRequestsPerUnit(), s.GetCurrentLimit().GetUnit(), s.GetCurrentLimit().GetName()))
	}
	fields := r.GetDynamicMetadata().GetFields()
	for _, name := range []string{"domain", "descriptors", "hitsAddend"} {
		text, _ := protojson.Marshal(fields[name])
		all = append(all, strings.ReplaceAll(string(text), " ", "")) // of which messages as text have one or two
	}
	return strings.Join(all, ", ")
}

// headers are those that both have to set alike.
func headers(r *rls.RateLimitResponse) string {
	var all []string
	for _, h := range r.GetResponseHeadersToAdd() {
		if h.GetKey() != "RateLimit-Reset" { // a second later, it is another
			all = append(all, h.GetKey()+": "+h.GetValue())
		}
	}
	return strings.Join(all, ", ")
}

// Random requests, ten thousand in a long run, under forty random files have the same answers: codes, limits, what
// remains, when it resets, headers and metadata.
func TestSameAnswers(t *testing.T) {
	t.Parallel()
	edge.AwayFrom(24*time.Hour, 3*time.Minute)
	for _, tt := range []struct {
		name        string
		most        uint32 // hits
		environment string
		config      envoy.Config
	}{
		{"of one hit", 1, "", envoy.Config{}},
		{"of up to three hits", 3, "", envoy.Config{}},
		{"all in shadow mode", 3, "SHADOW_MODE=true", envoy.Config{Shadow: true}},
		{"all in quota mode", 3, "QUOTA_MODE=true", envoy.Config{Quota: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			domains, requests := 20, long.Rounds(25, 250) // of each domain
			r := rand.New(rand.NewPCG(2026, uint64(tt.most)))
			var files []policy.File
			for i := range domains {
				files = append(files, randomFile(r, fmt.Sprintf("d%d", i)))
			}
			peer := startPeer(t, redistest.StartTCP(t), files, tt.environment, "RESPONSE_DYNAMIC_METADATA=true")
			config := tt.config
			config.Independent, config.Overdraw, config.Timeout = true, envoy.OverdrawAlways, time.Minute
			config.DynamicMetadata, config.LimitHeaders = true, &envoy.LimitHeaders{}
			ours := startOurs(t, redistest.StartTCP(t), files, config)
			seen := map[string]int{}
			for i := range domains * requests {
				request := randomRequest(r, fmt.Sprintf("d%d", i%domains), tt.most)
				began := time.Now()
				want := must.Get(peer.ShouldRateLimit(t.Context(), request))(t)
				got := must.Get(ours.ShouldRateLimit(t.Context(), request))(t)
				sameHeaders := peers(request, want, config.Shadow, config.Quota)
				if answer(got) != answer(want) || sameHeaders && headers(got) != headers(want) {
					t.Fatalf("request %d, %v:\nweblimit  %s\n          %s\nratelimit %s\n          %s\n%s",
						i, request, answer(got), headers(got), answer(want), headers(want), files[i%domains].Text)
				}
				if sameHeaders && headers(got) != "" {
					seen["headers"]++
				}
				for j, s := range got.GetStatuses() {
					later := int64(time.Since(began).Seconds()) // than the other was asked
					theirs := want.GetStatuses()[j].GetDurationUntilReset()
					if d := s.GetDurationUntilReset().GetSeconds() - theirs.GetSeconds(); theirs != nil && (d < -1-later || d > 1) {
						t.Fatalf("request %d, %v: until reset %v, theirs is %v", i, request, s, want.GetStatuses()[j])
					}
					name := s.GetCurrentLimit().GetName()
					for what, is := range map[string]bool{
						"a limit": s.GetCurrentLimit() != nil, "a descriptor over its limit": s.GetCode() == rls.RateLimitResponse_OVER_LIMIT,
						"a limit in shadow mode without room": strings.Contains(name, inShadow) && s.GetLimitRemaining() == 0,
						"a quota that is over":                strings.Contains(name, inQuota) && s.GetCode() == rls.RateLimitResponse_OVER_LIMIT,
						"an override":                         request.GetDescriptors()[j].GetLimit() != nil,
						"0 hits":                              request.GetDescriptors()[j].GetHitsAddend() != nil && request.GetDescriptors()[j].GetHitsAddend().GetValue() == 0,
					} {
						if is {
							seen[what]++
						}
					}
				}
				seen[got.GetOverallCode().String()]++
			}
			n := domains * requests
			for what, least := range map[string]int{
				"a limit": n / 2, "a descriptor over its limit": n / 10, "headers": n / 4, "a limit in shadow mode without room": n / 100,
				"a quota that is over": n / 100, "an override": n / 10, "0 hits": n / 20, "OK": n / 10,
			} {
				if seen[what] < least {
					t.Errorf("of %d requests, %d have %s, want at least %d", n, seen[what], what, least)
				}
			}
			t.Logf("%d requests: %v", n, seen)
		})
	}
}

// What differs on purpose, as docs/service/envoy.md says.
func TestDifferences(t *testing.T) {
	t.Parallel()
	files := []policy.File{{Name: "edge.yaml", Text: []byte(`
domain: edge
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 3}}
  - {key: path, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: role, rate_limit: {unit: year, requests_per_unit: 1}}
  - {key: role_admin, value: "1", rate_limit: {unlimited: true}}
`)}}
	peer := startPeer(t, redistest.StartTCP(t), files)
	ours := startOurs(t, redistest.StartTCP(t), files, envoy.Config{Timeout: time.Minute})
	for _, tt := range []struct {
		name         string
		descriptors  [][]string // of one request after the other
		ours, theirs string     // codes
	}{
		{"a denied request is charged nothing", [][]string{{"user=a", "path=/"}, {"user=a", "path=/"}, {"user=a", "path=/"}, {"user=a"}}, "OK OVER OVER OK", "OK OVER OVER OVER"},
		{"a value chooses no other key", [][]string{{"role=admin_1"}, {"role=admin_1"}}, "OK OVER", "OK OK"},
	} {
		got, theirs := codesOf(t, ours, tt.descriptors), codesOf(t, peer, tt.descriptors)
		if got != tt.ours || theirs != tt.theirs {
			t.Errorf("%s: weblimit %s, want %s; ratelimit %s, want %s", tt.name, got, tt.ours, theirs, tt.theirs)
		}
	}
}

func codesOf(t *testing.T, c rls.RateLimitServiceClient, requests [][]string) string {
	t.Helper()
	var all []string
	for _, descriptors := range requests {
		r := must.Get(c.ShouldRateLimit(t.Context(), &rls.RateLimitRequest{Domain: "edge", Descriptors: parse(descriptors...)}))(t)
		all = append(all, strings.TrimSuffix(r.GetOverallCode().String(), "_LIMIT"))
	}
	return strings.Join(all, " ")
}
