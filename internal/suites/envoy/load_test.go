package envoy

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/program"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/policy"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

var (
	load   = flag.Bool("load", false, "measure both services; a minute")
	rounds = flag.Int("rounds", 5, "rounds of each measurement")
)

const loadRules = `
domain: edge
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 4000000000}}
  - {key: path, rate_limit: {unit: minute, requests_per_unit: 4000000000}}
  - {key: tenant, rate_limit: {unit: day, requests_per_unit: 4000000000}}
  - {key: small, rate_limit: {unit: hour, requests_per_unit: 100}}
`

// startServe starts weblimit's service in a process of its own, and returns a client.
func startServe(t *testing.T, redis *redistest.Server, file policy.File) rls.RateLimitServiceClient {
	t.Helper()
	dir := t.TempDir()
	must.OK(t, program.Build(dir, ".", "./serve"))
	must.OK(t, os.WriteFile(filepath.Join(dir, file.Name), file.Text, 0o600))
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))
	cmd := exec.Command(filepath.Join(dir, "serve"), "-config", dir, "-redis", redis.Addr(), "-listen", addr)
	return serves(t, cmd, addr)
}

// measured is a round: checks per second, and the time of a check.
type measured struct {
	rate     float64
	p50, p99 time.Duration
}

// measure has clients ask as fast as they can.
func measure(t *testing.T, c rls.RateLimitServiceClient, clients int, request func(i int) *rls.RateLimitRequest) measured {
	t.Helper()
	const length = 1500 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	times := make([][]time.Duration, clients)
	var all sync.WaitGroup
	began := time.Now()
	for i := range clients {
		all.Go(func() {
			for n := i; ctx.Err() == nil; n += clients {
				asked := time.Now()
				if _, err := c.ShouldRateLimit(t.Context(), request(n)); err != nil {
					t.Error(err)
					return
				}
				times[i] = append(times[i], time.Since(asked))
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	sorted := slices.Sorted(slices.Values(slices.Concat(times...)))
	return measured{float64(len(sorted)) / took.Seconds(), sorted[len(sorted)/2], sorted[len(sorted)*99/100]}
}

// TestLoad prints the table of docs/service/envoy.md: both services by turns on this machine, each with a Redis
// of its own, and the median of the rounds.
func TestLoad(t *testing.T) {
	if !*load {
		t.Skip("measures only with -load")
	}
	file := policy.File{Name: "edge.yaml", Text: []byte(loadRules)}
	services := []struct {
		name   string
		client rls.RateLimitServiceClient
	}{
		{"weblimit", startServe(t, redistest.StartTCP(t), file)},
		{"envoyproxy/ratelimit", startPeer(t, redistest.StartTCP(t), []policy.File{file})},
	}
	of := func(descriptors ...string) *rls.RateLimitRequest {
		return &rls.RateLimitRequest{Domain: "edge", Descriptors: parse(descriptors...)}
	}
	fmt.Println("| Requests | clients | | checks/s | p50 | p99 |\n| --- | --- | --- | --- | --- | --- |")
	for _, tt := range []struct {
		name    string
		clients int
		request func(i int) *rls.RateLimitRequest
	}{
		{"one descriptor", 1, func(i int) *rls.RateLimitRequest { return of(fmt.Sprint("user=", i%10_000)) }},
		{"one descriptor", 64, func(i int) *rls.RateLimitRequest { return of(fmt.Sprint("user=", i%10_000)) }},
		{"three descriptors", 64, func(i int) *rls.RateLimitRequest {
			return of(fmt.Sprint("user=", i%10_000), "path=/", fmt.Sprint("tenant=", i%100))
		}},
		{"one client far over its limit", 64, func(int) *rls.RateLimitRequest { return of("small=a") }},
	} {
		results := make([][]measured, len(services))
		for range *rounds {
			for i, s := range services {
				results[i] = append(results[i], measure(t, s.client, tt.clients, tt.request))
			}
		}
		for i, s := range services {
			slices.SortFunc(results[i], func(a, b measured) int { return int(a.rate - b.rate) })
			m := results[i][len(results[i])/2]
			fmt.Printf("| %s | %d | %s | %.0f | %v | %v |\n", tt.name, tt.clients, s.name, m.rate, m.p50.Round(10*time.Microsecond), m.p99.Round(10*time.Microsecond))
		}
	}
}
