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
func randomFile(r *rand.Rand, domain string, shadow bool) policy.File {
	var b strings.Builder
	fmt.Fprintf(&b, "domain: %s\ndescriptors:\n", domain)
	randomRules(r, &b, "  ", 3, shadow)
	return policy.File{Name: domain + ".yaml", Text: []byte(b.String())}
}

func randomRules(r *rand.Rand, b *strings.Builder, indent string, depth int, shadow bool) {
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
			name := pick(r, "", "", "", "one", "two")
			if name != "" {
				fmt.Fprintf(b, "%s  name: %s\n", in, name)
			} else if r.IntN(4) == 0 {
				fmt.Fprintf(b, "%s  replaces: [{name: %s}]\n", in, pick(r, "one", "two"))
			}
			if shadow && r.IntN(8) == 0 {
				fmt.Fprintf(b, "%sshadow_mode: true\n", in)
			}
			if r.IntN(4) == 0 {
				fmt.Fprintf(b, "%s%s: true\n", in, pick(r, "detailed_metric", "value_to_metric"))
			}
		}
		if depth > 1 && r.IntN(2) == 0 {
			fmt.Fprintf(b, "%sdescriptors:\n", in)
			randomRules(r, b, in+"  ", depth-1, shadow)
		}
	}
}

// randomRequest has no two descriptors that one limit counts for: these are asked as one.
func randomRequest(r *rand.Rand, domain string, most uint32) *rls.RateLimitRequest {
	request := &rls.RateLimitRequest{Domain: domain, HitsAddend: uint32(r.IntN(int(most) + 1))}
	value := func() string { return pick(r, "x", "y", "xy", "x1", "xy2", "z", "") }
	for _, i := range r.Perm(3)[:1+r.IntN(3)] {
		text := "abc"[i:i+1] + "=" + value()
		for range min(r.IntN(3), r.IntN(3)) {
			text += "," + pick(r, "a", "b", "c") + "=" + value()
		}
		request.Descriptors = append(request.Descriptors, parse(text)...)
	}
	return request
}

// answer is what both have to say alike.
func answer(r *rls.RateLimitResponse) string {
	all := []string{r.GetOverallCode().String()}
	for _, s := range r.GetStatuses() {
		all = append(all, fmt.Sprint(s.GetCode(), " ", s.GetLimitRemaining(), " of ", s.GetCurrentLimit().GetRequestsPerUnit(), s.GetCurrentLimit().GetUnit(), s.GetCurrentLimit().GetName()))
	}
	return strings.Join(all, ", ")
}

// Random requests, ten thousand in a long run, under forty random files have the same answers: codes, limits, what
// remains, and when it resets.
func TestSameAnswers(t *testing.T) {
	t.Parallel()
	edge.AwayFrom(24*time.Hour, 3*time.Minute)
	for _, tt := range []struct {
		name   string
		shadow bool // limits in shadow mode, which charge more hits than remain there, and here do not
		most   uint32
	}{
		{"of one hit, with shadow mode", true, 1},
		{"of up to three hits", false, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			domains, requests := 20, long.Rounds(60, 250) // of each domain
			r := rand.New(rand.NewPCG(2026, uint64(tt.most)))
			var files []policy.File
			for i := range domains {
				files = append(files, randomFile(r, fmt.Sprintf("d%d", i), tt.shadow))
			}
			peer := startPeer(t, redistest.StartTCP(t), files)
			ours := startOurs(t, redistest.StartTCP(t), files, envoy.Config{
				Independent: true, Overdraw: envoy.OverdrawAlways, Timeout: time.Minute,
			})
			counts := map[rls.RateLimitResponse_Code]int{}
			limited := 0
			for i := range domains * requests {
				request := randomRequest(r, fmt.Sprintf("d%d", i%domains), tt.most)
				began := time.Now()
				want := must.Get(peer.ShouldRateLimit(t.Context(), request))(t)
				got := must.Get(ours.ShouldRateLimit(t.Context(), request))(t)
				if answer(got) != answer(want) {
					t.Fatalf("request %d, %v:\nweblimit  %s\nratelimit %s\n%s", i, request, answer(got), answer(want), files[i%domains].Text)
				}
				for j, s := range got.GetStatuses() {
					later := int64(time.Since(began).Seconds()) // than the other was asked
					if d := s.GetDurationUntilReset().GetSeconds() - want.GetStatuses()[j].GetDurationUntilReset().GetSeconds(); d < -1-later || d > 1 {
						t.Fatalf("request %d, %v: until reset %v, theirs is %v", i, request, s, want.GetStatuses()[j])
					}
					if s.GetCurrentLimit() != nil {
						limited++
					}
				}
				counts[got.GetOverallCode()]++
			}
			if counts[rls.RateLimitResponse_OVER_LIMIT] < domains*requests/10 || limited < domains*requests/2 {
				t.Errorf("the test sees too little: %v, %d descriptors with a limit", counts, limited)
			}
			t.Logf("%d requests: %v, %d descriptors with a limit", domains*requests, counts, limited)
		})
	}
}

// What differs on purpose, as docs/envoy.md says.
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
