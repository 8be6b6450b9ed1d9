package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/weblimit/weblimit/cmd/weblimit/internal/show"
	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
)

const (
	benchKeys    = 100_000         // of the rows with many keys
	benchWindow  = 5 * time.Second // after which Redis forgets a key
	maxSamples   = 1 << 20         // latencies kept per row
	mostParallel = 1024
)

func (a *app) benchCommand() *cobra.Command {
	var each time.Duration
	var parallel []int
	var yes bool
	c := &cobra.Command{
		Use:   "bench-redis",
		Short: "Measure how many checks a Redis decides",
		Long: `bench-redis sends checks to Redis as an application does, as fast as answers come: one
limit and three limits, on one hot key and on 100,000 keys, at some concurrencies. For
each it prints checks per second and how long one took.

It loads that Redis for as long as it says at the start, and others wait in line
meanwhile: don't run it on one that is busy. Its keys have a prefix of their own and
expire within seconds. It asks before it starts, unless --yes is set.`,
		Example: `  weblimit bench-redis --redis redis://localhost:6379
  weblimit bench-redis --redis redis://localhost:6379 --each 5s --parallel 1,64 --yes --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if each < 100*time.Millisecond || each > time.Minute {
				return usagef("--each must be from 100ms to 1m, got %v", each)
			}
			if len(parallel) == 0 || len(parallel) > 8 || slices.Min(parallel) < 1 || slices.Max(parallel) > mostParallel {
				return usagef("--parallel must be 1 to 8 numbers from 1 to %d", mostParallel)
			}
			return a.bench(c.Context(), each, parallel, yes)
		},
	}
	c.Flags().DurationVar(&each, "each", time.Second, "how long to measure each row, from 100ms to 1m")
	c.Flags().IntSliceVar(&parallel, "parallel", []int{1, 16, 128}, "how many checks are under way at a time, one row each")
	c.Flags().BoolVar(&yes, "yes", false, "start without asking")
	return c
}

// benchRow is what was measured of one kind of load.
type benchRow struct {
	Limits     int     `json:"limits"` // of each check
	Keys       int     `json:"keys"`
	Parallel   int     `json:"parallel"`
	PerSecond  float64 `json:"checks_per_second"`
	P50Micros  int64   `json:"p50_us"`
	P95Micros  int64   `json:"p95_us"`
	P99Micros  int64   `json:"p99_us"`
	Errors     int64   `json:"errors"`
	FirstError string  `json:"first_error,omitempty"`
}

func (a *app) bench(ctx context.Context, each time.Duration, parallel []int, yes bool) error {
	t, err := a.target()
	if err != nil {
		return err
	}
	if t.redis == nil {
		return usagef("bench-redis measures a Redis: set --redis (WEBLIMIT_REDIS)")
	}
	security, err := a.tls()
	if err != nil {
		return err
	}
	rdb, err := a.redisClient(t, security)
	if err != nil {
		return err
	}
	defer func() { _ = rdb.Close() }()
	prefix := "weblimit-bench:" + strings.ToLower(rand.Text()[:8]) + ":"
	rows := 4 * len(parallel)
	notes := &show.Out{W: a.err}
	notes.Line(show.Plain, fmt.Sprintf(
		"This loads Redis at %s for %v, as much as it can: %d rows of %v. Keys begin with %s and expire within %v.",
		t.redis.Redacted(), time.Duration(rows)*each, rows, each, prefix, 2*benchWindow))
	if !yes {
		if err := a.confirm(); err != nil {
			return err
		}
	}
	results, err := measureAll(ctx, rdb, prefix, each, a.timeout, parallel)
	if err != nil {
		return fmt.Errorf("Redis at %s: %w", t.redis.Redacted(), err) //nolint:staticcheck // a name begins the text
	}
	if a.json {
		text, err := json.Marshal(struct {
			At      time.Time  `json:"at"`
			Version string     `json:"version"`
			Rows    []benchRow `json:"rows"`
		}{time.Now().UTC(), core.Version(), results})
		if err != nil {
			return err
		}
		return a.writeJSON(text)
	}
	writeBench(a.text, results)
	return nil
}

// confirm asks the person at the terminal.
func (a *app) confirm() error {
	if a.in == nil || !term.IsTerminal(int(a.in.Fd())) {
		return usagef("nobody is there to be asked: set --yes to start")
	}
	_, _ = fmt.Fprint(a.err, "Start? [y/N] ")
	line, _ := bufio.NewReader(a.input).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return fmt.Errorf("not started")
	}
	return nil
}

func writeBench(out *show.Out, rows []benchRow) {
	t := show.Table{Columns: []show.Column{
		{Title: "LIMITS", Right: true},
		{Title: "KEYS", Right: true},
		{Title: "PARALLEL", Right: true},
		{Title: "CHECKS/S", Right: true},
		{Title: "P50", Right: true},
		{Title: "P95", Right: true},
		{Title: "P99", Right: true},
		{Title: "ERRORS", Right: true},
	}}
	number := func(n int) show.Cell { return show.Cell{Text: grouped(int64(n))} }
	for i := range rows {
		r := &rows[i]
		t.Add(number(r.Limits), number(r.Keys), number(r.Parallel), show.Cell{Text: grouped(int64(r.PerSecond))},
			show.Cell{Text: micros(r.P50Micros)}, show.Cell{Text: micros(r.P95Micros)}, show.Cell{Text: micros(r.P99Micros)},
			highlight(grouped(r.Errors), show.Red))
	}
	out.Table(&t)
	for i := range rows {
		if rows[i].FirstError != "" {
			out.Line(show.Red, "error: "+rows[i].FirstError)
			return
		}
	}
}

// micros writes a latency in milliseconds.
func micros(n int64) string {
	return strconv.FormatFloat(float64(n)/1000, 'f', 2, 64) + "ms"
}

// benchLimits are the limits of a check: large, so that all is granted and charged, which takes Redis
// longest.
func benchLimits(n int) ([]store.Rule, error) {
	all := []store.Numbers{
		{Algorithm: store.TokenBucket, Quota: 1 << 30, Window: benchWindow},
		{Algorithm: store.FixedWindow, Quota: 1 << 30, Window: benchWindow},
		{Algorithm: store.SlidingWindow, Quota: 1 << 30, Window: benchWindow},
	}
	rules := make([]store.Rule, n)
	for i := range rules {
		var err error
		if rules[i], err = store.NewRule("bench-"+strconv.Itoa(i), all[i]); err != nil {
			return nil, err
		}
	}
	return rules, nil
}

func measureAll(ctx context.Context, rdb redis.UniversalClient, prefix string, each, timeout time.Duration, parallel []int) ([]benchRow, error) {
	var rows []benchRow
	for _, limits := range []int{1, 3} {
		rules, err := benchLimits(limits)
		if err != nil {
			return nil, err
		}
		for _, keys := range []int{1, benchKeys} {
			for _, n := range parallel {
				s := redisstore.New(rdb, redisstore.Config{Prefix: prefix, DenialCache: redisstore.DenialCache{Disabled: true}})
				s.OnEvent(func(core.Event) {})
				m := measurement{store: s, rules: rules, keys: keys, timeout: timeout}
				if err := m.check(ctx, new([]store.Check)); err != nil { // that it answers at all; and it loads the script
					return nil, err
				}
				rows = append(rows, m.run(ctx, each, n))
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
			}
		}
	}
	return rows, nil
}

// measurement is one row.
type measurement struct {
	store   *redisstore.Store
	rules   []store.Rule
	keys    int
	timeout time.Duration

	done, failed atomic.Int64
	mu           sync.Mutex
	first        error   // Guarded by mu.
	latencies    []int64 // microseconds. Guarded by mu.
}

func (m *measurement) run(ctx context.Context, length time.Duration, parallel int) benchRow {
	start := time.Now()
	end, cancel := context.WithDeadline(ctx, start.Add(length))
	defer cancel()
	var wg sync.WaitGroup
	for range parallel {
		wg.Go(func() { m.work(ctx, end, maxSamples/parallel) })
	}
	wg.Wait()
	took := time.Since(start)
	slices.Sort(m.latencies)
	row := benchRow{
		Limits: len(m.rules), Keys: m.keys, Parallel: parallel, PerSecond: float64(m.done.Load()) / took.Seconds(),
		P50Micros: m.quantile(0.5), P95Micros: m.quantile(0.95), P99Micros: m.quantile(0.99), Errors: m.failed.Load(),
	}
	if m.first != nil {
		row.FirstError = m.first.Error()
	}
	return row
}

// work sends one check after the other until end, and one at least: on a busy machine, a row can be over
// before a goroutine has begun.
func (m *measurement) work(ctx, end context.Context, samples int) {
	var mine []int64
	seen := 0
	var checks []store.Check
	for first := true; first || end.Err() == nil; first = false {
		before := time.Now()
		if err := m.check(ctx, &checks); err != nil {
			m.fail(err)
			select { // a server that is down is not asked a million times
			case <-end.Done():
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		took := time.Since(before).Microseconds()
		m.done.Add(1)
		seen++
		if len(mine) < samples {
			mine = append(mine, took)
		} else if i := mathrand.IntN(seen); i < samples { //nolint:gosec // a sample: each is kept with the same probability
			mine[i] = took
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.latencies = append(m.latencies, mine...)
}

func (m *measurement) fail(err error) {
	m.failed.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.first == nil {
		m.first = err
	}
}

// check asks about one request.
func (m *measurement) check(ctx context.Context, reuse *[]store.Check) error {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	key := strconv.AppendInt([]byte("user:"), int64(mathrand.IntN(m.keys)), 10) //nolint:gosec // no secret
	checks := (*reuse)[:0]
	for i := range m.rules {
		checks = append(checks, store.Check{Key: key, Rule: &m.rules[i], Cost: 1})
	}
	*reuse = checks
	return m.store.Take(ctx, checks, make([]store.Result, len(checks)))
}

func (m *measurement) quantile(q float64) int64 {
	if len(m.latencies) == 0 {
		return 0
	}
	return m.latencies[min(int(q*float64(len(m.latencies))), len(m.latencies)-1)]
}
