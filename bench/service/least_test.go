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
	"google.golang.org/grpc"
)

// The least that a service can take: a process of net/http or gRPC that reads what weblimitd reads, decides nothing, and
// answers what weblimitd answers. What weblimitd takes beyond it is what it is made for, and what it could do with less of.

// runLeast serves both protocols until the process is ended. It prints their addresses.
func runLeast() error {
	overHTTP, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	overGRPC, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	rls.RegisterRateLimitServiceServer(server, leastEnvoy{})
	fmt.Printf("least %s %s\n", overHTTP.Addr(), overGRPC.Addr())
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(overGRPC) }()
	web := &http.Server{Handler: http.HandlerFunc(leastCheck), ReadHeaderTimeout: time.Minute}
	go func() { failed <- web.Serve(overHTTP) }()
	return <-failed
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

func leastCheck(w http.ResponseWriter, r *http.Request) {
	var question leastQuestion
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
	d.DisallowUnknownFields()
	if err := d.Decode(&question); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := json.Marshal(leastAnswer{
		Allowed: true, Reason: "within limit", Status: http.StatusOK, Limit: "client", Version: "1a2b3c4d5e6f",
		Limits: []leastLimit{{
			Name: "client", Allowed: true, Charged: true, Algorithm: "fixed window", Quota: 4_000_000_000, Window: 3_600_000, Burst: 4_000_000_000,
			Remaining: int64(3_999_999_999 - len(question.Key)), EffectiveWindow: 1_200_000, Reset: 1_200_000,
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
}

func (leastEnvoy) ShouldRateLimit(_ context.Context, r *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	answer := &rls.RateLimitResponse{OverallCode: rls.RateLimitResponse_OK}
	for range r.GetDescriptors() {
		answer.Statuses = append(answer.Statuses, &rls.RateLimitResponse_DescriptorStatus{
			Code:         rls.RateLimitResponse_OK,
			CurrentLimit: &rls.RateLimitResponse_RateLimit{RequestsPerUnit: 4_000_000_000, Unit: rls.RateLimitResponse_RateLimit_HOUR}, LimitRemaining: 3_999_999_990,
		})
	}
	return answer, nil
}

// startLeast starts that process.
func startLeast(t *testing.T) (overHTTP, overGRPC string, p process) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-least")
	p = start(t, cmd, func(written string) bool {
		for line := range strings.SplitSeq(written, "\n") {
			if n, _ := fmt.Sscanf(line, "least %s %s", &overHTTP, &overGRPC); n == 2 {
				return true
			}
		}
		return false
	})
	return overHTTP, overGRPC, p
}
