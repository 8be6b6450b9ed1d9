package gateways

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/suites/proxies"
)

var cost = flag.Bool("cost", false, "measure what asking the limiter costs, for docs/service/gateways.md")

// without are edits that leave the limiter out, by gateway.
var without = map[*program]*regexp.Regexp{
	nginx:   regexp.MustCompile(`auth_request /weblimit;`),
	haproxy: regexp.MustCompile(`http-request lua\.weblimit api`),
	caddy:   regexp.MustCompile(`(?s)# The subrequest\..*?\n\t\t}\n`),
	traefik: regexp.MustCompile(`middlewares: \[weblimit\]`),
}

// TestCost prints requests per second, medians and 99th percentiles in milliseconds, without and with the
// limiter, in turn: with 16 connections that are always busy, and with one.
func TestCost(t *testing.T) {
	if !*cost {
		t.Skip("without -cost")
	}
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			bare := *p
			bare.cut = without[p]
			setups := []*setup{bare.start(t, fast, ""), p.start(t, fast, "")}
			for _, clients := range []int{16, 1} {
				t.Logf("%s, %d: %s", p.name, clients, compare(t, setups, clients))
			}
		})
	}
}

// compare measures both setups in turn, and returns the medians of all rounds.
func compare(t *testing.T, setups []*setup, clients int) (line string) {
	t.Helper()
	const rounds, span = 5, time.Second
	var found [3][2][]float64 // rate, median and 99th percentile of each
	for range rounds {
		for i, s := range setups {
			all := s.load(t, clients, span)
			slices.Sort(all)
			for j, number := range []float64{float64(len(all)) / span.Seconds(), all[len(all)/2].Seconds() * 1e3, all[len(all)*99/100].Seconds() * 1e3} {
				found[j][i] = append(found[j][i], number)
			}
		}
	}
	for _, numbers := range found {
		slices.Sort(numbers[0])
		slices.Sort(numbers[1])
		before, after := numbers[0][rounds/2], numbers[1][rounds/2]
		line += fmt.Sprintf("| %.3g | %.3g | %.2f ", before, after, after/before)
	}
	return line
}

// load sends requests from some connections at once, and returns how long each took.
func (s *setup) load(t *testing.T, clients int, span time.Duration) []time.Duration {
	t.Helper()
	var mu sync.Mutex
	var all []time.Duration
	var wg sync.WaitGroup
	end := time.Now().Add(span)
	for range clients {
		c := s.client(t, proxies.Attacker)
		wg.Go(func() {
			var own []time.Duration
			for time.Now().Before(end) {
				began := time.Now()
				res, err := c.Get("https://example.com/things")
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if res.StatusCode != http.StatusOK {
					t.Errorf("got %s", res.Status)
					return
				}
				own = append(own, time.Since(began))
			}
			mu.Lock()
			all = append(all, own...)
			mu.Unlock()
			c.CloseIdleConnections()
		})
	}
	wg.Wait()
	if len(all) == 0 {
		t.Fatal("nothing was measured")
	}
	return all
}

// leaveOut removes what asks the limiter.
func (p *program) leaveOut(t testing.TB, files []string) {
	t.Helper()
	if p.cut == nil {
		return
	}
	all := strings.Join(files, "")
	if len(p.cut.FindAllString(all, -1)) != 1 {
		t.Fatalf("the configuration of %s does not have %v once", p.name, p.cut)
	}
	for i := range files {
		files[i] = p.cut.ReplaceAllString(files[i], "")
	}
}
