// Plot simulates prefetching by 1, 10, 100 and 1,000 instances, draws docs/pictures/prefetch.svg
// and prints the figures as a table:
//
//	go run ./internal/test/prefetchsim/plot -o docs/pictures/prefetch.svg
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/prefetchsim"
)

const quota = 50_000

var counts = []int{1, 10, 100, 1000}

var algorithms = []struct {
	name  string
	limit core.Limit
}{
	{"token bucket", core.PerSecond(quota)},
	{"fixed window", core.PerSecond(quota).FixedWindow()},
	{"sliding window", core.PerSecond(quota).SlidingWindow()},
}

// outcomes are by algorithm and number of instances.
type outcomes [][]prefetchsim.Outcome

func main() {
	out := flag.String("o", "docs/pictures/prefetch.svg", "where the plot goes")
	flag.Parse()
	results, err := simulate(1.2)
	if err != nil {
		log.Fatal(err)
	}
	relaxed, err := simulate(0.4)
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(*out, []byte(draw(results)), 0o644); err != nil {
		log.Fatal(err)
	}
	table(results, relaxed)
}

// simulate simulates a load of that many requests per unit of quota.
func simulate(load float64) (outcomes, error) {
	results := make(outcomes, len(algorithms))
	var mu sync.Mutex
	var first error
	var all sync.WaitGroup
	for a := range algorithms {
		results[a] = make([]prefetchsim.Outcome, len(counts))
		for i, n := range counts {
			all.Go(func() {
				o, err := prefetchsim.Run(prefetchsim.Config{
					Limit: algorithms[a].limit, Instances: n, Fraction: 0.02, MaxAge: 100 * time.Millisecond,
					Load: load, Phase: 700 * time.Millisecond, Duration: 21 * time.Second, Loss: time.Second,
					Skew: 10 * time.Minute, Drift: 0.0009, Delay: 5 * time.Millisecond, Seed: 1,
				})
				mu.Lock()
				defer mu.Unlock()
				results[a][i] = o
				if err != nil {
					first = err
				}
			})
		}
	}
	all.Wait()
	return results, first
}

func table(results, relaxed outcomes) {
	fmt.Println("| limit | instances | granted beyond it: measured / bound | free when denied: measured / bound | held: measured / bound | granted, of an exact limiter's | requests per call, at 120 % / 40 % load |")
	fmt.Println("|---|---:|---:|---:|---:|---:|---:|")
	for a := range algorithms {
		for i, n := range counts {
			o, r := results[a][i], relaxed[a][i]
			fmt.Printf("| %s | %d | %s / %s | %s / %s | %s / %s | %.1f %% | %.1f / %.1f |\n", algorithms[a].name, n,
				percent(o.Over), percent(o.OverBound), percent(o.Under), percent(o.UnderBound), percent(o.Held), percent(o.HeldBound),
				100*float64(o.Granted)/float64(o.Exact), float64(o.Granted)/float64(o.Calls), float64(r.Granted)/float64(r.Calls))
		}
	}
}

func percent(units int64) string { return fmt.Sprintf("%.1f %%", 100*float64(units)/quota) }
