//go:build linux

package service

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
)

// The least that a service can take: a process of net/http or gRPC that reads what weblimitd reads, decides nothing, and
// answers what weblimitd answers. What weblimitd takes beyond it is what it is made for, and what it could do with less of.
// With Redis, it makes a round trip for each request, as go-redis makes it, to count it in the shortest script.

// leastServers are those of one process: without Redis and with it.
type leastServers struct {
	web, webRedis, envoy, envoyRedis string // their addresses
	process                          process
}

// runLeast serves both protocols until the process is ended. It prints the addresses.
func runLeast(redisAddr string) error {
	client := redis.NewClient(&redis.Options{Addr: redisAddr})
	failed := make(chan error, 4)
	line := "least"
	for _, count := range []counting{nil, countOn(client)} {
		overHTTP, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		overGRPC, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		line += fmt.Sprintf(" %s %s", overHTTP.Addr(), overGRPC.Addr())
		server := grpc.NewServer()
		rls.RegisterRateLimitServiceServer(server, leastEnvoy{count: count})
		go func() { failed <- server.Serve(overGRPC) }()
		web := &http.Server{Handler: leastCheck(count), ReadHeaderTimeout: time.Minute}
		go func() { failed <- web.Serve(overHTTP) }()
	}
	fmt.Println(line)
	return <-failed
}

// counting counts a request of a key, and returns how many there have been; nil where nothing is decided.
type counting func(ctx context.Context, key string) (int64, error)

func countOn(client *redis.Client) counting {
	script := redis.NewScript(`
local n = redis.call('INCR', KEYS[1])
if n == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return n`)
	return func(ctx context.Context, key string) (int64, error) {
		return script.Run(ctx, client, []string{"least:" + key}, 3_600_000).Int64()
	}
}

// leastQuestion has the fields of a question to /v1/check that the callers here set, and leastAnswer those of its answer.
type leastQuestion struct {
	Policy string `json:"policy"`
	Key    string `json:"key"`
}

type leastAnswer struct {
	Allowed bool              `json:"allowed"`
	Reason  string            `json:"reason"`
	Status  int               `json:"status"`
	Limit   string            `json:"limit"`
	Version string            `json:"version"`
	Limits  []leastLimit      `json:"limits"`
	Headers map[string]string `json:"headers"`
}

type leastLimit struct {
	Name            string `json:"name"`
	Allowed         bool   `json:"allowed"`
	Charged         bool   `json:"charged"`
	Algorithm       string `json:"algorithm"`
	Quota           int64  `json:"quota"`
	Window          int64  `json:"window_ms"`
	Burst           int64  `json:"burst"`
	Remaining       int64  `json:"remaining"`
	EffectiveWindow int64  `json:"effective_window_ms"`
	Reset           int64  `json:"reset_ms"`
}

func leastCheck(count counting) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var question leastQuestion
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
		d.DisallowUnknownFields()
		if err := d.Decode(&question); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		used := int64(len(question.Key))
		if count != nil {
			var err error
			if used, err = count(r.Context(), question.Key); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		leastAnswerTo(w, used)
	}
}

// leastAnswerTo answers a question after which so many units are used.
func leastAnswerTo(w http.ResponseWriter, used int64) {
	answer, err := json.Marshal(leastAnswer{
		Allowed: true, Reason: "within limit", Status: http.StatusOK, Limit: "client", Version: "1a2b3c4d5e6f",
		Limits: []leastLimit{{
			Name: "client", Allowed: true, Charged: true, Algorithm: "fixed window", Quota: 4_000_000_000, Window: 3_600_000, Burst: 4_000_000_000,
			Remaining: 4_000_000_000 - used, EffectiveWindow: 1_200_000, Reset: 1_200_000,
		}},
		Headers: map[string]string{"RateLimit": `"client";r=3999999990;t=1200`, "RateLimit-Policy": `"client";q=4000000000;w=3600`},
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // or the caller has gone
}

type leastEnvoy struct {
	rls.UnimplementedRateLimitServiceServer
	count counting
}

func (s leastEnvoy) ShouldRateLimit(ctx context.Context, r *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	answer := &rls.RateLimitResponse{OverallCode: rls.RateLimitResponse_OK}
	for _, d := range r.GetDescriptors() {
		if s.count != nil {
			if _, err := s.count(ctx, d.GetEntries()[0].GetValue()); err != nil {
				return nil, err
			}
		}
		answer.Statuses = append(answer.Statuses, &rls.RateLimitResponse_DescriptorStatus{
			Code:         rls.RateLimitResponse_OK,
			CurrentLimit: &rls.RateLimitResponse_RateLimit{RequestsPerUnit: 4_000_000_000, Unit: rls.RateLimitResponse_RateLimit_HOUR}, LimitRemaining: 3_999_999_990,
		})
	}
	return answer, nil
}

// startLeast starts that process, which asks a Redis.
func startLeast(t *testing.T, redisAddr string) (all leastServers) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-least", redisAddr)
	all.process = start(t, cmd, func(written string) bool {
		for line := range strings.SplitSeq(written, "\n") {
			if n, _ := fmt.Sscanf(line, "least %s %s %s %s", &all.web, &all.envoy, &all.webRedis, &all.envoyRedis); n == 4 {
				return true
			}
		}
		return false
	})
	return all
}
