package envoy_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/service/envoy"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// two has two limits per minute.
const two = `
domain: edge
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 5, name: per-user}
  - key: path
    rate_limit: {unit: hour, requests_per_unit: 2}
  - key: free
    rate_limit: {unlimited: true}
  - key: banned
    rate_limit: {unit: day, requests_per_unit: 0}
`

// said is a response in short: the overall code, and of each status the code and what remains.
func said(r *rls.RateLimitResponse) string {
	all := []string{r.GetOverallCode().String()}
	for _, s := range r.GetStatuses() {
		all = append(all, fmt.Sprint(s.GetCode(), " ", s.GetLimitRemaining()))
	}
	return strings.ReplaceAll(strings.Join(all, ", "), "OVER_LIMIT", "OVER")
}

func wantSaid(t *testing.T, r *rls.RateLimitResponse, want string) {
	t.Helper()
	if got := said(r); got != want {
		t.Errorf("got  %s\nwant %s\nin %v", got, want, r)
	}
}

func hits(d *ratelimit.RateLimitDescriptor, n uint64) *ratelimit.RateLimitDescriptor {
	d.HitsAddend = wrapperspb.UInt64(n)
	return d
}

// A request that one descriptor denies is charged to none, unless the server is to be as
// envoyproxy/ratelimit is.
func TestDescriptorsTogether(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		independent bool
		want        []string
	}{
		{false, []string{"OK, OK 4, OK 1", "OK, OK 3, OK 0", "OVER, OK 3, OVER 0", "OK, OK 2"}},
		{true, []string{"OK, OK 4, OK 1", "OK, OK 3, OK 0", "OVER, OK 2, OVER 0", "OK, OK 1"}},
	} {
		t.Run(fmt.Sprintf("independent %v", tt.independent), func(t *testing.T) {
			t.Parallel()
			c := dial(t, newServer(t, envoy.Config{Independent: tt.independent}, two))
			for i, want := range tt.want {
				r := request("edge", "user=a", "path=/")
				if i == len(tt.want)-1 {
					r = request("edge", "user=a")
				}
				wantSaid(t, ask(t, c, r), want)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	c := dial(t, newServer(t, envoy.Config{}, two))
	r := ask(t, c, request("edge", "user=a", "free=x", "other=x", "banned=x"))
	wantSaid(t, r, "OVER, OK 5, OK 4294967295, OK 0, OVER 0")
	s := r.GetStatuses()[0]
	if got := s.GetCurrentLimit(); got.GetName() != "per-user" || got.GetRequestsPerUnit() != 5 || got.GetUnit() != rls.RateLimitResponse_RateLimit_MINUTE {
		t.Errorf("current limit %v", got)
	}
	check.Equal(t, "until reset, at the begin of a minute", s.GetDurationUntilReset().AsDuration(), time.Minute)
	for _, i := range []int{1, 2} {
		if s := r.GetStatuses()[i]; s.GetCurrentLimit() != nil || s.GetDurationUntilReset() != nil {
			t.Errorf("where no limit applies: %v", s)
		}
	}
	check.Equal(t, "until reset, at noon", r.GetStatuses()[3].GetDurationUntilReset().AsDuration(), 12*time.Hour)
}

func TestHits(t *testing.T) {
	t.Parallel()
	of := func(n uint32, descriptors ...*ratelimit.RateLimitDescriptor) *rls.RateLimitRequest {
		return &rls.RateLimitRequest{Domain: "edge", HitsAddend: n, Descriptors: descriptors}
	}
	user := func() *ratelimit.RateLimitDescriptor { return descriptor("user=a") }
	back := func(n uint64) *ratelimit.RateLimitDescriptor {
		d := hits(user(), n)
		d.IsNegativeHits = true
		return d
	}
	type step struct {
		request *rls.RateLimitRequest
		want    string
	}
	for _, tt := range []struct {
		name   string
		config envoy.Config
		steps  []step
	}{
		{"of the request", envoy.Config{}, []step{
			{of(3, user()), "OK, OK 2"},
			{of(3, user()), "OVER, OVER 2"}, // a denied request is charged nothing
			{of(2, user()), "OK, OK 0"},
		}},
		{"of the request, as envoyproxy/ratelimit", envoy.Config{Independent: true, Overdraw: envoy.OverdrawAlways}, []step{
			{of(3, user()), "OK, OK 2"},
			{of(3, user()), "OVER, OVER 0"},
			{of(2, user()), "OVER, OVER 0"},
		}},
		{"of a descriptor", envoy.Config{}, []step{
			{of(3, hits(user(), 1)), "OK, OK 4"},
			{of(3, hits(user(), 4), descriptor("path=/")), "OVER, OK 0, OVER 2"}, // the other has 3 hits; the 4 are spent
		}},
		{"0 hits ask for room", envoy.Config{}, []step{
			{of(0, hits(user(), 0)), "OK, OK 5"},
			{of(0, hits(user(), 5)), "OK, OK 0"},
			{of(0, hits(user(), 0)), "OVER, OVER 0"},
			{of(0, hits(user(), 0), descriptor("path=/")), "OVER, OVER 0, OK 2"}, // which is charged nothing
			{of(0, descriptor("path=/")), "OK, OK 1"},
		}},
		{"what a response has cost uses up the limit", envoy.Config{}, []step{
			{of(0, hits(user(), 0)), "OK, OK 5"},
			{of(0, hits(user(), 50)), "OVER, OVER 0"}, // at the end of the stream
			{of(0, hits(user(), 0)), "OVER, OVER 0"},
		}},
		{"unless that is switched off", envoy.Config{Overdraw: envoy.OverdrawNever}, []step{
			{of(0, hits(user(), 50)), "OVER, OVER 5"},
			{of(0, hits(user(), 0)), "OK, OK 5"},
		}},
		{"negative hits give back, and never beyond", envoy.Config{}, []step{
			{of(4, user()), "OK, OK 1"},
			{of(0, back(2)), "OK, OK 3"},
			{of(0, back(100)), "OK, OK 5"},
			{of(1, user()), "OK, OK 4"},
		}},
		{"negative hits of a request that is denied give nothing back", envoy.Config{}, []step{
			{of(1, user()), "OK, OK 4"},
			{of(0, back(1), descriptor("banned=x")), "OVER, OK 4, OVER 0"},
			{of(1, user()), "OK, OK 3"},
		}},
		{"one descriptor twice", envoy.Config{}, []step{
			{of(2, user(), user()), "OK, OK 3, OK 1"},
			{of(1, user(), user()), "OVER, OK 0, OVER 0"},
			{of(1, user()), "OK, OK 0"},
		}},
		{"more than fits in any number", envoy.Config{}, []step{
			{of(1<<32-1, user()), "OVER, OVER 5"},
			{of(0, hits(user(), 1<<64-1), hits(user(), 1<<64-1)), "OVER, OVER 0, OVER 0"},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, newServer(t, tt.config, two))
			for i, step := range tt.steps {
				check.Equal(t, fmt.Sprint("step ", i+1), said(ask(t, c, step.request)), step.want)
			}
		})
	}
}

// A limit that a descriptor brings along counts instead of those of the files.
func TestOverride(t *testing.T) {
	t.Parallel()
	c := dial(t, newServer(t, envoy.Config{}, two))
	of := func(n uint32, unit typev3.RateLimitUnit) *rls.RateLimitRequest {
		r := request("edge", "user=a")
		r.Descriptors[0].Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit}
		return r
	}
	wantSaid(t, ask(t, c, of(2, typev3.RateLimitUnit_HOUR)), "OK, OK 1")
	wantSaid(t, ask(t, c, of(2, typev3.RateLimitUnit_MINUTE)), "OK, OK 1") // another unit
	r := ask(t, c, of(1000, typev3.RateLimitUnit_HOUR))                    // another number
	wantSaid(t, r, "OK, OK 998")
	check.Equal(t, "current limit", limitOf(r.GetStatuses()[0]), "1000 HOUR")
	wantSaid(t, ask(t, c, of(0, typev3.RateLimitUnit_HOUR)), "OVER, OVER 0")
	wantSaid(t, ask(t, c, request("edge", "user=a")), "OK, OK 4") // that of the file is not affected
	unmatched := of(1, typev3.RateLimitUnit_DAY)
	unmatched.Descriptors[0].Entries[0].Key = "anything"
	wantSaid(t, ask(t, c, unmatched), "OK, OK 0")
	wantSaid(t, ask(t, c, unmatched), "OVER, OVER 0")
	check.Equal(t, "an unknown unit", status.Code(check.ErrorOf(c.ShouldRateLimit(t.Context(), of(1, typev3.RateLimitUnit_UNKNOWN)))), grpccodes.InvalidArgument)
}

func TestUnanswerableRequests(t *testing.T) {
	t.Parallel()
	c := dial(t, newServer(t, envoy.Config{MaxDescriptors: 3, MaxEntries: 2}, two))
	for _, tt := range []struct {
		request *rls.RateLimitRequest
		want    string
	}{
		{request("", "user=a"), "rate limit domain must not be empty"},
		{request("edge"), "rate limit descriptor list must not be empty"},
		{request("edge", "a", "b", "c", "d"), "at most 3 descriptors are decided together, and the request has more"},
		{request("edge", "a,b,c"), "a descriptor has at most 2 entries, and one of the request has more"},
	} {
		if _, err := c.ShouldRateLimit(t.Context(), tt.request); status.Code(err) != grpccodes.InvalidArgument || status.Convert(err).Message() != tt.want {
			t.Errorf("%v: %v, want %s", tt.request, err, tt.want)
		}
	}
	// What no rule knows is not limited.
	wantSaid(t, ask(t, c, request("unknown", "user=a")), "OK, OK 0")
	wantSaid(t, ask(t, c, request("edge", "")), "OK, OK 0")
}

func TestShadow(t *testing.T) {
	t.Parallel()
	const text = `
domain: edge
descriptors:
  - key: try
    rate_limit: {unit: minute, requests_per_unit: 1}
    shadow_mode: true
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 2}
`
	both := request("edge", "try=a", "user=a")
	wantAnswers(t, dial(t, newServer(t, envoy.Config{}, text)), both, "OK, OK 0, OK 1", "OK, OK 0, OK 0", "OVER, OK 0, OVER 0")
	wantAnswers(t, dial(t, newServer(t, envoy.Config{Shadow: true}, text)), both, "OK, OK 0, OK 1", "OK, OK 0, OK 0", "OK, OK 0, OVER 0")
}

// In quota mode a request is denied if all of its quotas are used up.
func TestQuotaMode(t *testing.T) {
	t.Parallel()
	const text = `
domain: edge
descriptors:
  - {key: small, rate_limit: {unit: minute, requests_per_unit: 1}, quota_mode: true}
  - {key: large, rate_limit: {unit: minute, requests_per_unit: 2}, quota_mode: true}
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 4}}
`
	c := dial(t, newServer(t, envoy.Config{}, text))
	all := request("edge", "small=a", "large=a", "user=a")
	wantAnswers(t, c, all, "OK, OK 0, OK 1, OK 3", "OK, OVER 0, OK 0, OK 2",
		"OVER, OVER 0, OVER 0, OK 2") // and the user is charged nothing
	wantSaid(t, ask(t, c, request("edge", "small=a", "user=a")), "OVER, OVER 0, OK 2")
	wantSaid(t, ask(t, c, request("edge", "user=a")), "OK, OK 1")

	c = dial(t, newServer(t, envoy.Config{Quota: true}, text))
	wantAnswers(t, c, all,
		"OK, OK 0, OK 1, OK 3", "OK, OVER 0, OK 0, OK 2", "OK, OVER 0, OVER 0, OK 1", "OK, OVER 0, OVER 0, OK 0", "OVER, OVER 0, OVER 0, OVER 0")
}

// What a response has cost is charged also where it denies nothing: in shadow mode, and while another
// quota has room. Otherwise each response that costs more than what is left would be free.
func TestWhatAResponseHasCostIsCharged(t *testing.T) {
	t.Parallel()
	const text = `
domain: edge
descriptors:
  - {key: tokens, rate_limit: {unit: minute, requests_per_unit: 3}, quota_mode: true}
  - {key: credits, rate_limit: {unit: minute, requests_per_unit: 1000}, quota_mode: true}
  - {key: try, rate_limit: {unit: minute, requests_per_unit: 3}, shadow_mode: true}
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 3}}
`
	cost := func(n uint64, descriptors ...string) *rls.RateLimitRequest {
		r := request("edge", descriptors...)
		for _, d := range r.GetDescriptors() {
			hits(d, n)
		}
		return r
	}
	for _, independent := range []bool{false, true} {
		t.Run(fmt.Sprintf("independent %v", independent), func(t *testing.T) {
			t.Parallel()
			c := dial(t, newServer(t, envoy.Config{Independent: independent}, text))
			wantAnswers(t, c, cost(5, "tokens=a", "credits=a"), "OK, OVER 0, OK 995", "OK, OVER 0, OK 990")
			wantAnswers(t, c, cost(0, "tokens=a"), "OVER, OVER 0")
			wantAnswers(t, c, cost(5, "try=a"), "OK, OK 0", "OK, OK 0")
			wantAnswers(t, c, cost(1, "try=a", "user=a"), "OK, OK 0, OK 2")
			c = dial(t, newServer(t, envoy.Config{Shadow: true, Independent: independent}, text))
			wantAnswers(t, c, cost(5, "user=a"), "OK, OVER 0", "OK, OVER 0")
			wantAnswers(t, c, cost(0, "user=a"), "OK, OVER 0")
			// Not if that is switched off, and not units that are for the limit to grant.
			c = dial(t, newServer(t, envoy.Config{Overdraw: envoy.OverdrawNever, Independent: independent}, text))
			wantAnswers(t, c, cost(5, "tokens=a", "credits=a"), "OK, OVER 3, OK 995")
			wantAnswers(t, c, cost(5, "try=a"), "OK, OK 3")
		})
	}
}

// Headers are those of a limit that denies, whatever quotas say that deny nothing.
func TestHeadersOfALimitBesideAQuota(t *testing.T) {
	t.Parallel()
	c := dial(t, newServer(t, envoy.Config{LimitHeaders: &envoy.LimitHeaders{}, Independent: true}, `
domain: edge
descriptors:
  - {key: small, rate_limit: {unit: minute, requests_per_unit: 0}, quota_mode: true}
  - {key: large, rate_limit: {unit: minute, requests_per_unit: 20}, quota_mode: true}
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1}}
`))
	all := request("edge", "small=a", "large=a", "user=a")
	wantAnswers(t, c, all, "OK, OVER 0, OK 19, OK 0")
	r := ask(t, c, all)
	wantSaid(t, r, "OVER, OVER 0, OK 18, OVER 0")
	check.Equal(t, "limit and reset", fmt.Sprint(r.GetResponseHeadersToAdd()[0].GetValue(), " ", r.GetResponseHeadersToAdd()[2].GetValue()), "1 3600")
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	headers := func(r *rls.RateLimitResponse) string {
		var all []string
		for _, h := range r.GetResponseHeadersToAdd() {
			all = append(all, h.GetKey()+": "+h.GetValue())
		}
		return strings.Join(all, "\n")
	}
	for _, tt := range []struct {
		name   string
		config envoy.Config
		want   [3]string // of a request, of the next, which is denied, and of one that no limit is for
	}{
		{"by default", envoy.Config{}, [3]string{"", "", ""}},
		{"of envoyproxy/ratelimit", envoy.Config{LimitHeaders: &envoy.LimitHeaders{}}, [3]string{
			"RateLimit-Limit: 2\nRateLimit-Remaining: 1\nRateLimit-Reset: 3600",
			"RateLimit-Limit: 2\nRateLimit-Remaining: 1\nRateLimit-Reset: 3600", "",
		}},
		{"renamed", envoy.Config{LimitHeaders: &envoy.LimitHeaders{Limit: "x-limit", Remaining: "x-left", Reset: "x-reset"}}, [3]string{
			"x-limit: 2\nx-left: 1\nx-reset: 3600", "x-limit: 2\nx-left: 1\nx-reset: 3600", "",
		}},
		{"of the draft", envoy.Config{Headers: core.Draft11}, [3]string{
			"RateLimit: \"edge.user\";r=4;t=60, \"edge.path\";r=1;t=3600\nRateLimit-Policy: \"edge.user\";q=5;w=60, \"edge.path\";q=2;w=3600",
			"", "",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, newServer(t, tt.config, two))
			first := request("edge", "user=a", "path=/", "free=x")
			check.Equal(t, "headers", headers(ask(t, c, first)), tt.want[0])
			second := request("edge", "user=a", "path=/")
			second.HitsAddend = 2
			r := ask(t, c, second)
			if got := headers(r); tt.config.Headers != 0 {
				for _, part := range []string{"RateLimit: ", "Retry-After: 3600"} {
					check.Contains(t, "headers of a denial", got, part)
				}
			} else {
				check.Equal(t, "headers of a denial", got, tt.want[1])
			}
			check.Equal(t, "headers where no limit applies", headers(ask(t, c, request("edge", "free=x", "other=x"))), tt.want[2])
		})
	}
}

func TestDynamicMetadata(t *testing.T) {
	t.Parallel()
	const text = `
domain: edge
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 1}, metadata: {plan: {name: basic, level: 1}, tags: [a, 2, true, null]}}
  - {key: path, rate_limit: {unit: minute, requests_per_unit: 9}, metadata: {plan: {name: other, owner: web}}}
`
	c := dial(t, newServer(t, envoy.Config{DynamicMetadata: true, Independent: true}, text))
	r := request("edge", "user=a", "path=/,x=y")
	r.Descriptors[1] = hits(descriptor("path=/"), 2)
	r.HitsAddend = 1
	for i, want := range []string{
		`{"domain":"edge","descriptors":[{"entries":["user=a"]},{"entries":["path=/"],"hitsAddend":2}],"hitsAddend":1,"metadata":{"plan":{"name":"basic","level":1,"owner":"web"},"tags":["a",2,true,null]}}`,
		`{"domain":"edge","descriptors":[{"entries":["user=a"]},{"entries":["path=/"],"hitsAddend":2}],"hitsAddend":1,"metadata":{"plan":{"name":"other","owner":"web"}}}`,
	} {
		wanted, got := new(rls.RateLimitResponse), ask(t, c, r)
		must.OK(t, protojson.Unmarshal([]byte(`{"dynamicMetadata":`+want+`}`), wanted))
		if !proto.Equal(got.GetDynamicMetadata(), wanted.GetDynamicMetadata()) {
			t.Errorf("request %d: %v, want %s", i+1, got.GetDynamicMetadata(), want)
		}
	}
}

// Whatever hits a caller states, nothing overflows.
func TestHugeHits(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []envoy.Algorithm{envoy.FixedWindow, envoy.SlidingWindow, envoy.TokenBucket} {
		for name, store := range map[string]core.Store{
			"memory": core.NewMemory(),
			"Redis":  redisstore.New(redistest.Shared(t).Client(t), redisstore.Config{Prefix: redistest.Prefix(t)}),
		} {
			s := newServer(t, envoy.Config{Algorithm: algorithm, Store: store, Timeout: time.Minute},
				"domain: edge\ndescriptors:\n  - {key: user, rate_limit: {unit: year, requests_per_unit: 1000000}}\n")
			for i, step := range []struct {
				hits uint64
				back bool
				want string
			}{
				{math.MaxUint64, false, "OVER, OVER 0"},
				{0, false, "OVER, OVER 0"},
				{math.MaxUint64, true, "OK, OK 1000000"},
				{1 << 62, true, "OK, OK 1000000"},
				{1000000, false, "OK, OK 0"},
			} {
				if algorithm == envoy.TokenBucket && i == 2 {
					step.want = "OK, OK 0" // it owed a whole bucket, and gets one at a time
				}
				r := request("edge", "user=a")
				hits(r.Descriptors[0], step.hits).IsNegativeHits = step.back
				got, err := s.ShouldRateLimit(t.Context(), r)
				if err != nil || said(got) != step.want {
					t.Errorf("%v in %s, step %d: %v, %v, want %s", algorithm, name, i+1, got, err, step.want)
				}
			}
		}
	}
}

// A fixed window counts every number and unit that a file or an override can have. Others count all but the
// largest, of which both are told.
func TestEveryNumberCounts(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []envoy.Algorithm{envoy.FixedWindow, envoy.SlidingWindow, envoy.TokenBucket} {
		for _, n := range []uint32{0, 1, 2, 7, 1 << 31, 999_999_937, math.MaxUint32 - 1, math.MaxUint32} {
			for name, unit := range rls.RateLimitResponse_RateLimit_Unit_value {
				if unit == 0 {
					continue
				}
				rule := fmt.Sprintf("\n  - {key: user, rate_limit: {unit: %s, requests_per_unit: %d}}\n", name, n)
				_, tooLarge := envoy.New(envoy.Config{Algorithm: algorithm, Store: still(), Source: envoy.Files(files("domain: edge\ndescriptors:" + rule)...)})
				if tooLarge != nil {
					check.Fails(t, rule, tooLarge, "too large to count exactly")
					check.Equal(t, "large"+rule, n >= 999_999_937 && algorithm != envoy.FixedWindow, true)
					rule = "\n  - {key: user}\n"
				}
				s := newServer(t, envoy.Config{Algorithm: algorithm}, "domain: edge\ndescriptors:"+rule)
				override := request("edge", "other=a")
				override.Descriptors[0].Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: typev3.RateLimitUnit(unit)}
				for what, r := range map[string]*rls.RateLimitRequest{"rule": request("edge", "user=a"), "override": override} {
					hits(r.Descriptors[0], uint64(n))
					want := "OK, OK 0"
					if n == 0 {
						want = "OVER, OVER 0"
					}
					got, err := s.ShouldRateLimit(t.Context(), r)
					if tooLarge != nil {
						if what == "override" && status.Code(err) != grpccodes.InvalidArgument {
							t.Errorf("an override of %d per %s: %v", n, name, err)
						}
					} else if err != nil || said(got) != want {
						t.Errorf("%v, %s of %d per %s: %v, %v, want %s", algorithm, what, n, name, got, err, want)
					}
				}
			}
		}
	}
}

// Nor do counters begin again at 0.
func TestHugeHitsAreCounted(t *testing.T) {
	t.Parallel()
	s := newServer(t, envoy.Config{}, two)
	r := request("edge", "user=a", "free=a")
	for _, d := range r.GetDescriptors() {
		hits(d, math.MaxUint64)
	}
	for range 3 {
		must.Get(s.ShouldRateLimit(t.Context(), r))(t)
	}
	check.Equal(t, "hits of a limit", s.Hits()["edge.user"].Over, 3<<40)
	check.Equal(t, "hits without one", s.Hits()["edge.free"].Total, 3<<40)
}

func TestAlgorithms(t *testing.T) {
	t.Parallel()
	now := noon
	text := "domain: edge\ndescriptors:\n  - {key: user, rate_limit: {unit: minute, requests_per_unit: 4}}\n"
	for _, tt := range []struct {
		name   string
		config envoy.Config
		text   string
		want   string // what remains after a whole limit and half a minute into the next one
	}{
		{"fixed window", envoy.Config{}, text, "OK, OK 3"},
		{"sliding window of the server", envoy.Config{Algorithm: envoy.SlidingWindow}, text, "OK, OK 1"},
		{"of the domain", envoy.Config{Algorithms: map[string]envoy.Algorithm{"edge": envoy.SlidingWindow, "other": envoy.TokenBucket}}, text, "OK, OK 1"},
		{"of the file", envoy.Config{Algorithm: envoy.SlidingWindow}, "# weblimit: token_bucket\n" + text, "OK, OK 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			now := now
			tt.config.Store = at(func() int64 { return now.UnixMicro() }) //nolint:gocritic // now changes
			s := direct{newServer(t, tt.config, tt.text)}
			r := request("edge", "user=a")
			r.HitsAddend = 4
			wantAnswers(t, s, r, "OK, OK 0")
			now = now.Add(90 * time.Second)
			wantAnswers(t, s, request("edge", "user=a"), tt.want)
		})
	}
}
