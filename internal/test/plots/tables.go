package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/testclock"
	"github.com/weblimit/weblimit/keyfuncs"
)

// integersTable returns the rows of docs/choose/algorithms.md that show with which integers a limit
// counts.
func integersTable() []string {
	var rows []string
	for _, c := range []struct {
		code  string
		limit core.Limit
	}{
		{"PerMinute(10)", core.PerMinute(10)},
		{"PerSecond(7)", core.PerSecond(7)},
		{"PerDay(100_000).Burst(500)", core.PerDay(100_000).Burst(500)},
		{"PerMinute(10).LeakyBucket(30*time.Second)", core.PerMinute(10).LeakyBucket(30 * time.Second)},
		{"PerMinute(10).FixedWindow()", core.PerMinute(10).FixedWindow()},
		{"PerMinute(10).SlidingWindow()", core.PerMinute(10).SlidingWindow()},
	} {
		i := newRun(c.limit, midnight).rule.Integers
		rows = append(rows, fmt.Sprintf("| `%s` | %d µs | %s | %d | %s |", c.code, i.Tick, grouped(i.Unit), i.Rate, grouped(i.Capacity)))
	}
	return rows
}

// grouped writes a number with commas.
func grouped(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

// headersTable returns the rows of docs/choose/algorithms.md that show what a client reads: half-way
// through a minute it sends three requests at once, and then more until it is denied.
func headersTable() []string {
	var rows []string
	for _, c := range []struct {
		name     string
		limit    core.Limit
		requests int
	}{
		{"Token bucket", core.PerMinute(quota), 3},
		{"Fixed window", core.PerMinute(quota).FixedWindow(), 3},
		{"Fixed window from first use", core.PerMinute(quota).FromFirstUse(), 3},
		{"Sliding window", core.PerMinute(quota).SlidingWindow(), 3},
		{"Sliding log", core.PerMinute(quota).SlidingLog(), 3},
		{"Leaky bucket, first request", core.PerMinute(quota).Burst(1), 1}, // without a queue: nobody waits here
		{"Concurrency limit", core.Concurrent(quota), 3},
	} {
		memory := core.NewMemory()
		testclock.Set(memory, midnight.Add(30*time.Second).UnixMicro)
		limiter := core.Must(core.New(core.Config{Store: memory, Limits: []core.Limit{c.limit.By(keyfuncs.Everyone()).Named("c")}}))
		ask := func() http.Header {
			h := http.Header{}
			d := limiter.AllowKey(context.Background(), "k", 1)
			d.SetHeaders(h)
			return h
		}
		var allowed http.Header
		for range c.requests {
			allowed = ask()
		}
		var denied http.Header
		for denied.Get("Retry-After") == "" {
			denied = ask()
		}
		rows = append(rows, fmt.Sprintf("| %s | `%s` | `%s` | `%s` | `%s` |", c.name, allowed.Get("RateLimit-Policy"),
			allowed.Get("RateLimit"), denied.Get("RateLimit"), denied.Get("Retry-After")))
	}
	return rows
}
