package policy_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/policy"
)

// large is a file with n limits, four in each policy.
func large(n int) []byte {
	var b strings.Builder
	b.WriteString("defaults:\n  client_ip: {trusted_proxies: [10.0.0.0/8, 192.168.0.0/16]}\n  bypass: [{routes: [GET /healthz]}]\npolicies:\n")
	for p := range n / 4 {
		fmt.Fprintf(&b, "  service-%d:\n    limits:\n", p)
		fmt.Fprintf(&b, "      client-%d: {limit: 300/minute burst 50, by: ip}\n", p)
		fmt.Fprintf(&b, "      tenant-%d: {limit: 100000/hour, by: tenant, on_missing_key: skip, warn_at: [0.8]}\n", p)
		fmt.Fprintf(&b, "    groups:\n      sign-in:\n        when: {routes: [POST /login]}\n        limits:\n")
		fmt.Fprintf(&b, "          login-%d: {limit: 5/15m log, by: ip}\n          all-%d: {limit: 1000/s, by: everyone}\n", p, p)
	}
	return []byte(b.String())
}

func TestTenThousandLimits(t *testing.T) {
	t.Parallel()
	text := large(10_000)
	began := time.Now()
	set := must.Get(policy.Parse("large.yaml", text))(t)
	took := time.Since(began)
	t.Logf("%d bytes loaded in %v", len(text), took)
	if took > time.Minute { // a second on a machine with nothing else to do
		t.Errorf("10,000 limits took %v to load", took)
	}
	store := core.NewMemory()
	began = time.Now()
	for _, name := range set.Names() {
		limiterOf(t, set, store, name)
	}
	t.Logf("%d limiters made in %v", len(set.Names()), time.Since(began))
	check.Equal(t, "limits declared", len(store.Registry().Declarations()), 10_000)
}

func BenchmarkDecision(b *testing.B) {
	for _, n := range []int{12, 10_000} {
		b.Run(fmt.Sprintf("of %d limits", n), func(b *testing.B) {
			set, err := policy.Parse("large.yaml", large(n))
			if err != nil {
				b.Fatal(err)
			}
			store := core.NewMemory()
			var l *core.Limiter
			for i, name := range set.Names() {
				made, err := set.Limiter(core.Config{Store: store}, name)
				if err != nil {
					b.Fatal(err)
				}
				if i == 1 {
					l = made
				}
			}
			r := keyfuncs.Values{"ip": "192.0.2.1", "route": "/x"}
			b.ReportAllocs()
			for b.Loop() {
				l.Allow(r)
			}
		})
	}
}

// One limit, from a file and in code.
func BenchmarkPolicy(b *testing.B) {
	set, err := policy.Parse("limits.yaml", []byte("policies:\n  api:\n    limits:\n      client: {limit: 300/minute burst 50, by: ip}\n"))
	if err != nil {
		b.Fatal(err)
	}
	byFile, err := set.Limiter(core.Config{Store: core.NewMemory()}, "api")
	if err != nil {
		b.Fatal(err)
	}
	inCode := core.Must(core.New(core.Config{
		Store: core.NewMemory(), Limits: []core.Limit{core.PerMinute(300).Burst(50).By(keyfuncs.ClientIP()).Named("client")},
	}))
	r := keyfuncs.Values{"ip": "192.0.2.1", "route": "/x"}
	for _, tt := range []struct {
		name string
		l    *core.Limiter
	}{{"file", byFile}, {"code", inCode}} {
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tt.l.Allow(r)
			}
		})
	}
}

func BenchmarkLoad(b *testing.B) {
	text := large(10_000)
	for b.Loop() {
		if _, err := policy.Parse("large.yaml", text); err != nil {
			b.Fatal(err)
		}
	}
}

// A file changes a hundred times a second while requests are decided. Not parallel:
// it measures the heap.
func TestReloadUnderLoad(t *testing.T) {
	lasts := long.Rounds(time.Second, time.Minute)
	version := func(n int) string {
		return fmt.Sprintf("version: v%d\npolicies:\n  api:\n    limits:\n      a: {limit: %d/s, by: everyone}\n      b: {limit: %d/s fixed, by: ip}\n      c%d: {limit: %d/s, by: ip}\n", n, 1_000_000+n, 1_000_000+n, n, 1_000_000+n)
	}
	from, set := sourceOf(t, version(0), quiet())
	store := core.NewMemory()
	l := limiterOf(t, set, store, "api")
	stop := make(chan struct{})
	var requests sync.WaitGroup
	var decided atomic.Int64
	for client := range 2 {
		r := keyfuncs.Values{"ip": fmt.Sprintf("192.0.2.%d", client)}
		requests.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				d := l.Allow(r)
				name, _, _ := strings.Cut(d.Version(), "#")
				if len(d.Results()) != 3 {
					t.Errorf("%s: decided by %d limits", name, len(d.Results()))
					return
				}
				for _, result := range d.Results() {
					if fmt.Sprintf("v%d", result.Rule.Quota-1_000_000) != name {
						t.Errorf("%s: decided by a limit of another version, %d", name, result.Rule.Quota)
						return
					}
				}
				if decided.Add(1)%64 == 0 {
					time.Sleep(time.Millisecond) // the machine has other work
				}
			}
		})
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const every = 10 * time.Millisecond
	var before uint64
	var reloading time.Duration
	n := 0
	// By a schedule, which catches up. A ticker would drop what a busy machine is late for.
	for began := time.Now(); time.Since(began) < lasts; time.Sleep(time.Until(began.Add(time.Duration(n) * every))) {
		n++
		from.put(version(n))
		asked := time.Now()
		must.OK(t, set.Reload(context.Background()))
		reloading += time.Since(asked)
		if n == 30 {
			before = heap()
		}
	}
	close(stop)
	requests.Wait()
	if after := heap(); before > 0 && after > before+8<<20 {
		t.Errorf("the heap has grown from %d to %d bytes", before, after)
	}
	check.Equal(t, "limits declared", len(store.Registry().Declarations()), 3)
	if got := set.Status(); got.Changes != int64(n) || got.Refused != 0 {
		t.Errorf("of %d versions: %+v", n, got)
	}
	t.Logf("%d decisions under %d versions in %v, each loaded in %v; the heap: %d, then %d bytes",
		decided.Load(), n, lasts, reloading/time.Duration(n), before, heap())
}
