//go:build linux

package service

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// sample is what a way did in one round.
type sample struct {
	rate                   float64 // checks per second
	p50, p99               time.Duration
	caller, service, redis float64 // CPU time per check, in µs
}

// measure has callers ask one way as fast as they can, for one key or many.
func measure(t *testing.T, w *way, redis process, callers, many int) sample {
	t.Helper()
	cpu := func() (caller, service, store time.Duration) {
		for _, p := range w.served {
			service += p.cpu()
		}
		return ownCPU(), service, redis.cpu()
	}
	times := make([][]time.Duration, callers)
	var all sync.WaitGroup
	caller, service, store := cpu()
	began := time.Now()
	end := began.Add(*length)
	for i := range callers {
		random := rand.New(rand.NewPCG(uint64(i), 1))
		all.Go(func() {
			for asked := began; asked.Before(end); {
				if err := w.ask(context.Background(), random.IntN(many)); err != nil {
					t.Errorf("%s: %v", w.name, err)
					return
				}
				now := time.Now()
				times[i] = append(times[i], now.Sub(asked))
				asked = now
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	callerAfter, serviceAfter, storeAfter := cpu()
	sorted := slices.Sorted(slices.Values(slices.Concat(times...)))
	if len(sorted) == 0 {
		t.Fatalf("%s: nothing was measured", w.name)
	}
	n := float64(len(sorted) * w.checks)
	each := func(d time.Duration) float64 { return d.Seconds() * 1e6 / n }
	return sample{
		n / took.Seconds(), sorted[len(sorted)/2], sorted[len(sorted)*99/100],
		each(callerAfter - caller), each(serviceAfter - service), each(storeAfter - store),
	}
}

// middle returns the median of one number of samples, and the lowest and highest.
func middle[T cmp.Ordered](all []sample, of func(sample) T) (median, low, high T) {
	numbers := make([]T, len(all))
	for i, s := range all {
		numbers[i] = of(s)
	}
	slices.Sort(numbers)
	return numbers[len(numbers)/2], numbers[0], numbers[len(numbers)-1]
}

// TestChecks prints the tables of checks in docs/choose/where.md. Without -bench-service, each way is asked once.
func TestChecks(t *testing.T) {
	server := redistest.StartTCP(t)
	redis := redisProcess(t, server)
	all := ways(t, server)
	for _, w := range all {
		t.Run(plain(w.name), func(t *testing.T) {
			for _, key := range []int{0, 7} {
				check.OK(t, w.ask(t.Context(), key))
			}
		})
	}
	if !*measures || t.Failed() {
		return
	}
	const hot, many = 1, 100_000
	type load struct{ callers, keys int }
	loads := []load{{1, many}, {16, many}, {64, many}, {256, many}, {16, hot}, {64, hot}, {256, hot}}
	found := make(map[load][][]sample)
	for round := range *rounds { // rounds of all: a minute in which the machine is busy spoils no load alone
		for _, l := range loads {
			if found[l] == nil {
				found[l] = make([][]sample, len(all))
			}
			for i := range all { // in turn, and not always in the same order
				at := (i + round) % len(all)
				found[l][at] = append(found[l][at], measure(t, &all[at], redis, l.callers, l.keys))
			}
		}
	}

	fmt.Println("| 64 callers, 100,000 keys | checks/s | beside the library | p50 | p99 | CPU caller | service | Redis | CPU of all |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for i, w := range all {
		samples := found[load{64, many}][i]
		rate, _, _ := middle(samples, func(s sample) float64 { return s.rate })
		p50, _, _ := middle(samples, func(s sample) time.Duration { return s.p50 })
		p99, _, _ := middle(samples, func(s sample) time.Duration { return s.p99 })
		caller, _, _ := middle(samples, func(s sample) float64 { return s.caller })
		service, _, _ := middle(samples, func(s sample) float64 { return s.service })
		store, _, _ := middle(samples, func(s sample) float64 { return s.redis })
		sum, low, high := middle(samples, func(s sample) float64 { return s.caller + s.service + s.redis })
		fmt.Printf("| %s | %.0f | %s | %s | %s | %.1f | %.1f | %.1f | %.1f (%.1f–%.1f) |\n", w.name, rate,
			ratio(found[load{64, many}][0], samples), milliseconds(p50), milliseconds(p99), caller, service, store, sum, low, high)
	}
	fmt.Println("\n| checks/s beside the library | c1, 100k keys | c16, 100k keys | c64, 100k keys | c256, 100k keys | c16, one key | c64, one key | c256, one key |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
	for i, w := range all {
		fmt.Printf("| %s |", w.name)
		for _, l := range loads {
			if i == 0 {
				rate, _, _ := middle(found[l][0], func(s sample) float64 { return s.rate })
				fmt.Printf(" %.0f/s |", rate)
			} else {
				fmt.Printf(" %s |", ratio(found[l][0], found[l][i]))
			}
		}
		fmt.Println()
	}
	fmt.Println("\n| p50 / p99 in ms | c1, 100k keys | c16, 100k keys | c64, 100k keys | c256, 100k keys | c16, one key | c64, one key | c256, one key |\n| --- | --- | --- | --- | --- | --- | --- | --- |")
	for i, w := range all {
		fmt.Printf("| %s |", w.name)
		for _, l := range loads {
			p50, _, _ := middle(found[l][i], func(s sample) time.Duration { return s.p50 })
			p99, _, _ := middle(found[l][i], func(s sample) time.Duration { return s.p99 })
			fmt.Printf(" %s / %s |", milliseconds(p50), milliseconds(p99))
		}
		fmt.Println()
	}
}

// ratio compares rates round by round: the median, and the lowest and highest.
func ratio(base, other []sample) string {
	numbers := make([]float64, len(base))
	for i := range base {
		numbers[i] = other[i].rate / base[i].rate
	}
	slices.Sort(numbers)
	return fmt.Sprintf("%.2f (%.2f–%.2f)", numbers[len(numbers)/2], numbers[0], numbers[len(numbers)-1])
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.3g", d.Seconds()*1e3) }
