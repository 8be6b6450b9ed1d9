package bench

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/weblimit/weblimit/bench/load"
	"github.com/weblimit/weblimit/bench/peers"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/edge"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// connections is how many requests are under way at a time, end to end.
const connections = 64

// BenchmarkEndToEnd has another process send HTTP requests over loopback to a Gin server in this
// one, on 64 connections that stay open. To the limiter all are the same client, and all are allowed.
// It reports p50-µs and p99-µs of requests and, as ns/op, the time divided by their number. It runs for
// four times the benchtime, 0.4 s at least, whatever b.N.
func BenchmarkEndToEnd(b *testing.B) {
	server := redistest.Start(b, "--databases", "64")
	db := 0
	for i, p := range rotated(func(p peers.Peer) bool { return p.GinRedis != nil }) {
		if i == 1 { // not the first, which has the process warm up for the others
			b.Run("bare/none", func(b *testing.B) { underLoad(b) })
		}
		if p.Gin != nil && !p.Baseline {
			b.Run(p.Name+"/memory", func(b *testing.B) {
				h, err := p.Gin(peers.OneKey)
				if err != nil {
					b.Fatal(err)
				}
				underLoad(b, h)
			})
		}
		if p.GinRedis != nil {
			b.Run(p.Name+"/redis", func(b *testing.B) {
				db++
				h, err := p.GinRedis(peers.Server{Network: server.Network(), Addr: server.Addr(), DB: db}, peers.OneKey)
				if err != nil {
					b.Fatal(err)
				}
				underLoad(b, h)
			})
		}
	}
}

func underLoad(b *testing.B, middleware ...gin.HandlerFunc) {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: engine(middleware...), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until it is closed
	defer server.Close()

	unit := benchtimeSet()
	b.ResetTimer()
	r, err := loadFrom(load.Config{Addr: listener.Addr().String(), Connections: connections, Warmup: unit, Time: 4 * unit})
	b.StopTimer()
	if err != nil {
		b.Fatal(err)
	}
	if r.Statuses[http.StatusNoContent] != r.Requests {
		b.Errorf("statuses %v", r.Statuses)
	}
	b.ReportMetric(1e9/r.PerSecond(), "ns/op")
	b.ReportMetric(micros(r.P50), "p50-µs")
	b.ReportMetric(micros(r.P99), "p99-µs")
}

// benchtimeSet returns the benchtime, but no less than what a server needs to warm up.
func benchtimeSet() time.Duration {
	d, _ := time.ParseDuration(flag.Lookup("test.benchtime").Value.String()) // 0 for a number of times
	return max(d, 100*time.Millisecond)
}

// loadFrom has another process ask.
func loadFrom(c load.Config) (r load.Result, err error) {
	config, err := json.Marshal(c)
	if err != nil {
		return r, err
	}
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	var complaint bytes.Buffer
	cmd := exec.Command(self, "-load="+string(config))
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return r, fmt.Errorf("the load: %w: %s", err, strings.TrimSpace(complaint.String()))
	}
	return r, json.Unmarshal(out, &r)
}

// generateLoad is the other process.
func generateLoad(config string) error {
	var c load.Config
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return err
	}
	r, err := load.Run(c)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

func TestServersOnRedisLimit(t *testing.T) {
	t.Parallel()
	edge.AwayFrom(time.Hour, 2*time.Minute) // when windows of some peers end
	server := redistest.Start(t, "--databases", "64")
	db := 0
	for _, p := range peers.All() {
		if p.GinRedis == nil {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			db++
			h := must.Get(p.GinRedis(peers.Server{Network: server.Network(), Addr: server.Addr(), DB: db, Timeout: time.Minute}, peers.Quota{Units: 2, Window: time.Hour}))(t)
			statuses := ""
			for range 3 {
				w := httptest.NewRecorder()
				engine(h).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
				statuses += fmt.Sprint(w.Code, " ")
			}
			check.Equal(t, "statuses", statuses, "204 204 429 ")
		})
	}
}
