//go:build linux

package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/metadata"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/service/client"
)

const (
	soakQuota   = 500 // of each counted key
	soakKeys    = 10
	soakCallers = 16
	soakWindows = 8
)

// soakPolicies are the policies of a version, which all limits of churn name in their numbers.
func soakPolicies(n int64) string {
	return fmt.Sprintf(`version: "%d"
policies:
  churn:
    timeout: 1m
    limits:
      a: {limit: %d/s, by: ip}
      b: {limit: %d/minute fixed, by: ip}
  local:
    timeout: 1m
    limits:
      local: {limit: %d/720h fixed, by: ip}
  deny:
    timeout: 1m
    limits:
      deny: {limit: %d/720h fixed, by: ip, on_outage: deny}
`, n, 1_000_000+n, 1_000_000+n, soakQuota, soakQuota)
}

// soaked is a weblimitd under churn, and what its callers were told.
type soaked struct {
	*daemon
	t              *testing.T
	redis          *redistest.Server
	policy, tokens string // files

	gate    sync.RWMutex // held for reading by every call; whoever holds it alone sees the service idle
	token   atomic.Pointer[string]
	serial  atomic.Int64 // of new keys
	version atomic.Int64 // the newest that was written
	kept    *http.Client
	grpc    rls.RateLimitServiceClient

	answers atomic.Int64
	reloads atomic.Int64
	outages atomic.Int64 // answers that the store had no part in
	mu      sync.Mutex
	allowed map[string]int64 // by policy and key. Guarded by mu.
	unknown map[string]int64 // answers without Redis, which may have charged them. Guarded by mu.
	used    map[string]bool  // Redis has denied the key. Guarded by mu.
}

// TestSoak has callers ask a weblimitd on a real Redis while keys are always new, connections come and go,
// the policy changes a hundred times a second, tokens are rotated, and Redis is killed and restarted.
//
// Every call must be answered, by one version of the policy. Memory, goroutines and files stay as they
// were. Limits admit what docs/run/guarantees.md says: Redis keeps its data here, so a limit with on_outage:
// deny admits its quota at most, one with local its quota and what was granted while Redis was away; both
// exactly their quota when it was not.
func TestSoak(t *testing.T) {
	// Redis writes before it answers. A process that is killed loses nothing of that, synced or not.
	server := redistest.StartTCP(t, "--appendonly", "yes", "--appendfsync", "no")
	dir := child.Dir(t)
	s := &soaked{
		t: t, redis: server, policy: filepath.Join(dir, "limits.yaml"), tokens: filepath.Join(dir, "tokens"),
		allowed: make(map[string]int64), unknown: make(map[string]int64), used: make(map[string]bool),
		kept: &http.Client{Timeout: 2 * time.Minute},
	}
	s.rotate(1)
	write(t, s.policy, soakPolicies(0))
	s.daemon = startDaemon(t, "127.0.0.1:0", "--redis", "redis://"+server.Addr(), "--policy", s.policy, "--tokens-file", s.tokens)
	s.kept.Transport = dialing("tcp", s.data)
	s.grpc = dial(t, s.daemon.grpc)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	for i := range soakCallers {
		all.Go(func() { s.call(ctx, rand.New(rand.NewPCG(uint64(i), 2))) })
	}
	all.Go(func() { s.change(ctx) })

	var idle []footprint
	for window := range soakWindows {
		span := *soak / soakWindows
		time.Sleep(span / 2) // the load goes on: how long is what the soak is told
		if window%2 == 1 {
			server.Kill()
			time.Sleep(min(span/4, 500*time.Millisecond))
			server.Restart(t)
		}
		time.Sleep(span / 2)
		idle = append(idle, s.idle())
		if t.Failed() {
			break
		}
	}
	s.flat(idle)
	s.exact(ctx)
	stop()
	all.Wait()
	s.counted()
	t.Logf("%d answers, %d of them without Redis; %d reloads, %.0f a second; %d new keys", s.answers.Load(), s.outages.Load(),
		s.reloads.Load(), float64(s.reloads.Load())/soak.Seconds(), s.serial.Load())
	for i, f := range idle {
		t.Logf("window %d: %v", i+1, f)
	}
}

// call asks until the end: new keys, keys whose answers are counted, and Envoy's way.
func (s *soaked) call(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil && !s.t.Failed() {
		c := s.kept
		if random.IntN(10) == 0 { // on a connection of its own
			fresh := dialing("tcp", s.data)
			fresh.DisableKeepAlives = true
			c = &http.Client{Transport: fresh, Timeout: 2 * time.Minute}
		}
		switch n := random.IntN(100); {
		case n < 60:
			s.check(c, "churn", "user:"+strconv.FormatInt(s.serial.Add(1), 10))
		case n < 75:
			s.check(c, "local", "user:"+strconv.Itoa(random.IntN(soakKeys)))
		case n < 90:
			s.check(c, "deny", "user:"+strconv.Itoa(random.IntN(soakKeys)))
		default:
			s.envoy(ctx)
		}
	}
}

// check asks, and counts the answer. Anything but a decision is an error.
func (s *soaked) check(c *http.Client, policy, key string) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	body := fmt.Appendf(nil, `{"policy":%q,"key":%q}`, policy, key)
	r, err := http.NewRequest(http.MethodPost, "http://"+s.data+"/v1/check", bytes.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+*s.token.Load())
	response, err := c.Do(r)
	if err != nil {
		s.t.Errorf("a call was lost: %v", err)
		return
	}
	defer func() { _ = response.Body.Close() }()
	var a client.Answer
	if err := json.NewDecoder(response.Body).Decode(&a); err != nil || response.StatusCode != http.StatusOK {
		s.t.Errorf("%s: %v %+v", response.Status, err, a)
		return
	}
	s.answers.Add(1)
	if a.Outage {
		s.outages.Add(1)
	}
	switch a.Reason {
	case "within limit", "limit exceeded", "cached denial", "outage local", "outage denied":
	default:
		s.t.Errorf("%s: an answer without a reason that is named here: %+v", policy, a)
	}
	if policy == "churn" {
		s.oneVersion(&a)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := policy + " " + key
	switch {
	case a.Allowed:
		s.allowed[name]++
	case !a.Outage:
		s.used[name] = true
	}
	if a.Outage {
		s.unknown[name]++
	}
}

// oneVersion checks that all limits of an answer are of the version that it names.
func (s *soaked) oneVersion(a *client.Answer) {
	name, _, _ := strings.Cut(a.Version, "#")
	for _, l := range a.Limits {
		if strconv.FormatInt(l.Quota-1_000_000, 10) != name {
			s.t.Errorf("version %s has decided by %s of %d", a.Version, l.Name, l.Quota)
		}
	}
	if len(a.Limits) != 2 || !a.Allowed {
		s.t.Errorf("a new key was answered %+v", a)
	}
}

func (s *soaked) envoy(ctx context.Context) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	ctx = metadata.AppendToOutgoingContext(context.WithoutCancel(ctx), "authorization", "Bearer "+*s.token.Load())
	answer, err := s.grpc.ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: "edge", Descriptors: []*corev3.RateLimitDescriptor{
		{Entries: []*corev3.RateLimitDescriptor_Entry{{Key: "user", Value: strconv.FormatInt(s.serial.Add(1), 10)}}},
	}})
	if err != nil || answer.GetOverallCode() != rls.RateLimitResponse_OK {
		s.t.Errorf("gRPC: %v %v", answer, err)
	}
	s.answers.Add(1)
}

// change changes the policy every 10 ms, and the tokens now and then.
func (s *soaked) change(ctx context.Context) {
	began := time.Now()
	for n := int64(1); ctx.Err() == nil && !s.t.Failed(); n++ {
		// By a schedule, which catches up after a pause.
		time.Sleep(time.Until(began.Add(time.Duration(n) * 10 * time.Millisecond)))
		s.gate.RLock()
		s.version.Store(n)
		write(s.t, s.policy, soakPolicies(n))
		s.reload()
		s.gate.RUnlock()
		if n%50 == 0 {
			s.rotateWhileServing(n)
		}
	}
}

func (s *soaked) reload() {
	status, body, err := s.ask(http.MethodPost, "/reload")
	if err != nil || status != http.StatusOK {
		s.t.Errorf("reload: %d %v %s", status, err, body)
	}
	s.reloads.Add(1)
}

// rotate makes a token, and returns it with the one before.
func (s *soaked) rotate(n int64) (next, before string) {
	next = fmt.Sprintf("token-of-the-soak-%06d", n)
	if old := s.token.Load(); old != nil {
		before = *old
	}
	write(s.t, s.tokens, strings.TrimSpace(next+"\n"+before)+"\n")
	if before == "" {
		s.token.Store(&next)
	}
	return next, before
}

// rotateWhileServing changes the token as docs/service/weblimitd.md says: both are valid, callers change, and the
// old one is taken away.
func (s *soaked) rotateWhileServing(n int64) {
	next, before := s.rotate(n)
	s.reload()
	s.token.Store(&next)
	s.gate.Lock() // until no call has the old one
	defer s.gate.Unlock()
	write(s.t, s.tokens, next+"\n")
	s.reload()
	r, err := http.NewRequest(http.MethodPost, "http://"+s.data+"/v1/check", http.NoBody)
	if err != nil {
		s.t.Error(err)
		return
	}
	r.Header.Set("Authorization", "Bearer "+before)
	response, err := s.kept.Do(r)
	if err != nil {
		s.t.Error(err)
		return
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		s.t.Errorf("a token that was taken away is answered with %s", response.Status)
	}
}

// footprint is what an idle service holds.
type footprint struct {
	heap, rss         int64
	goroutines, files int64
}

func (f footprint) String() string {
	return fmt.Sprintf("heap %.1f MB, RSS %.1f MB, %d goroutines, %d files", float64(f.heap)/1e6, float64(f.rss)/1e6, f.goroutines, f.files)
}

var (
	heapLine      = regexp.MustCompile(`# HeapAlloc = (\d+)`)
	goroutineLine = regexp.MustCompile(`goroutine profile: total (\d+)`)
)

// idle measures the service while no call runs.
func (s *soaked) idle() (f footprint) {
	s.gate.Lock()
	defer s.gate.Unlock()
	read := func(path string, line *regexp.Regexp) (n int64) {
		status, body, err := s.ask(http.MethodGet, path)
		found := line.FindStringSubmatch(body)
		if err != nil || status != http.StatusOK || found == nil {
			s.t.Errorf("%s: %d %v", path, status, err)
			return 0
		}
		n, _ = strconv.ParseInt(found[1], 10, 64) // digits
		return n
	}
	// What ends after its answer, which takes its time on a busy machine.
	f.goroutines, f.files = math.MaxInt64, math.MaxInt64
	for less, tries := true, 0; less && tries < 100; tries++ {
		time.Sleep(50 * time.Millisecond) // in which more of it ends
		goroutines, files := read("/debug/pprof/goroutine?debug=1", goroutineLine), int64(s.files())
		less = goroutines < f.goroutines || files < f.files
		f.goroutines, f.files = min(f.goroutines, goroutines), min(f.files, files)
	}
	read("/debug/pprof/heap?gc=1&debug=1", heapLine)
	f.heap = read("/debug/pprof/heap?gc=1&debug=1", heapLine)
	f.rss = s.rss()
	return f
}

// flat compares the windows after the second with the last ones.
func (s *soaked) flat(idle []footprint) {
	if len(idle) < soakWindows {
		return
	}
	middle := func(part []footprint, of func(footprint) int64) int64 {
		all := make([]int64, len(part))
		for i, f := range part {
			all[i] = of(f)
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	for _, tt := range []struct {
		what string
		of   func(footprint) int64
		more func(before int64) int64
	}{
		{"heap", func(f footprint) int64 { return f.heap }, func(b int64) int64 { return b/10 + 4<<20 }},
		{"goroutines", func(f footprint) int64 { return f.goroutines }, func(int64) int64 { return 20 }},
		{"files", func(f footprint) int64 { return f.files }, func(int64) int64 { return 20 }},
	} {
		before, after := middle(idle[1:4], tt.of), middle(idle[soakWindows-3:], tt.of)
		if after > before+tt.more(before) {
			s.t.Errorf("%s has grown from %d to %d: %v", tt.what, before, after, idle)
		}
	}
}

// exact asks fresh keys twice their quota while everything but Redis goes on changing.
func (s *soaked) exact(ctx context.Context) {
	wait.Until(s.t, "Redis decides again", func() bool {
		before, answers := s.outages.Load(), s.answers.Load()
		for tries := 0; tries < 1000 && s.answers.Load() < answers+5*soakCallers && !s.t.Failed(); tries++ {
			time.Sleep(10 * time.Millisecond) // until some were asked since, also on a busy machine
		}
		time.Sleep(200 * time.Millisecond) // in which an outage would show
		return s.outages.Load() == before
	})
	before := s.outages.Load()
	var all sync.WaitGroup
	var next atomic.Int64
	for range soakCallers {
		all.Go(func() {
			for n := next.Add(1); n <= 2*2*soakQuota && ctx.Err() == nil && !s.t.Failed(); n = next.Add(1) {
				s.check(s.kept, []string{"local", "deny"}[n%2], "user:exact")
			}
		})
	}
	all.Wait()
	if got := s.outages.Load() - before; got != 0 {
		s.t.Errorf("%d answers without Redis, which was there", got)
	}
}

// counted checks what was admitted of each limit.
func (s *soaked) counted() {
	if s.t.Failed() {
		return
	}
	for _, policy := range []string{"local", "deny"} {
		check.Equal(s.t, policy+": allowed without an outage", s.allowed[policy+" user:exact"], soakQuota)
		for i := range soakKeys {
			name := fmt.Sprintf("%s user:%d", policy, i)
			got, most := s.allowed[name], int64(soakQuota)
			if policy == "local" {
				most += soakQuota + 1 // one replica grants the quota again while Redis is away
			}
			if got > most {
				s.t.Errorf("%s: %d allowed, at most %d may be", name, got, most)
			}
			if s.used[name] && got+s.unknown[name] < soakQuota {
				s.t.Errorf("%s: Redis has denied it after %d allowed and %d answers without Redis, of %d", name, got, s.unknown[name], soakQuota)
			}
		}
	}
	s.t.Logf("allowed of %d: %v", soakQuota, s.allowed)
}
