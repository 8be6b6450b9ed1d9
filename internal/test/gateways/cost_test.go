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

	"github.com/weblimit/weblimit/internal/test/proxies"
)

var cost = flag.Bool("cost", false, "measure what asking the limiter costs, for docs/gateways.md")

// without are edits that leave the limiter out, by gateway.
var without = map[*program]*regexp.Regexp{
	nginx:   regexp.MustCompile(`auth_request /weblimit;`),
	haproxy: regexp.MustCompile(`http-request lua\.weblimit api`),
	caddy:   regexp.MustCompile(`(?s)# The subrequest\..*?\n\t\t}\n`),
	traefik: regexp.MustCompile(`middlewares: \[weblimit\]`),
}

// TestCost prints requests per second and 99th percentiles with and without the limiter, in turn.
func TestCost(t *testing.T) {
	if !*cost {
		t.Skip("without -cost")
	}
	const rounds, clients, span = 5, 16, 2 * time.Second
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			bare := *p
			bare.cut = without[p]
			setups := []*setup{bare.start(t, fast, ""), p.start(t, fast, "")}
			var rates, tails, medians [2][]float64
			for range rounds {
				for i, s := range setups {
					all := s.load(t, clients, span)
					slices.Sort(all)
					rates[i] = append(rates[i], float64(len(all))/span.Seconds())
					tails[i] = append(tails[i], all[len(all)*99/100].Seconds()*1e3)
					medians[i] = append(medians[i], all[len(all)/2].Seconds()*1e3)
				}
			}
			line := p.name
			for _, numbers := range [][2][]float64{rates, medians, tails} {
				for i := range numbers {
					slices.Sort(numbers[i])
				}
				before, after := numbers[0][rounds/2], numbers[1][rounds/2]
				line += fmt.Sprintf(" | %.3g | %.3g | %.2f", before, after, after/before)
			}
			t.Log(line)
		})
	}
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
