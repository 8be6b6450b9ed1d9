package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/draining"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/keyfuncs"
)

// quota is a limit of n units that does not refill while a test runs.
func quota(n int64) core.Limit {
	return core.Per(n, 30*24*time.Hour).FixedWindow().By(keyfuncs.Everyone())
}

// drain waits until all is settled, for longer than Drain does by itself.
func drain(t *testing.T, l *core.Limiter) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	must.OK(t, l.Drain(ctx))
}

// unitsLeft returns what a limiter's first limit has left, once all reservations are
// settled.
func unitsLeft(t *testing.T, l *core.Limiter, key string) int64 {
	t.Helper()
	drain(t, l)
	d := must.Get(l.Peek(t.Context(), key, 0))(t)
	return d.Results()[0].Remaining
}

// However many requests come at once, the limit is exceeded only by what those under way
// turn out to cost beyond their estimates.
func TestParallelRequestsOverrunByTheirEstimatesErrorOnly(t *testing.T) {
	t.Parallel()
	const limit, estimate, callers = 10_000, 100, 64
	store := redisstore.New(redistest.Shared(t).Client(t), redisstore.Config{Prefix: redistest.Prefix(t)})
	l := core.Must(core.New(core.Config{Store: store, Timeout: time.Minute, Limits: []core.Limit{quota(limit).Named("tokens").Estimate(estimate)}}))
	var spent, excess atomic.Int64
	var wg sync.WaitGroup
	for g := range callers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(g)))
			for range 100 {
				d := l.AllowKey(context.Background(), "k", estimate)
				if !d.Allowed {
					return
				}
				cost := 20 + random.Int64N(200)
				spent.Add(cost)
				excess.Add(max(cost-estimate, 0))
				ctx := core.NewContext(context.Background(), d)
				for rest := cost; rest > 0; rest -= 10 { // as a stream reports it
					check.OK(t, core.Spend(ctx, min(rest, 10)))
				}
				d.Settle(core.Outcome{Status: 200})
			}
		})
	}
	wg.Wait()
	if got := spent.Load(); got > limit+excess.Load() || got < limit-2*estimate*callers {
		t.Errorf("%d units were spent of %d, want at most %d more", got, limit, excess.Load())
	}
	if got, want := unitsLeft(t, l, "k"), max(limit-spent.Load(), 0); got != want {
		t.Errorf("%d left after %d were spent, want %d", got, spent.Load(), want)
	}
}

// If more settlements come than can wait, the requests make them themselves: none is lost.
func TestMoreSettlementsThanCanWait(t *testing.T) {
	t.Parallel()
	const requests, keys = 12_000, 300
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server)
	store := redisstore.New(proxy.Client(t), redisstore.Config{Prefix: redistest.Prefix(t)})
	l := core.Must(core.New(core.Config{Store: store, Timeout: time.Minute, Limits: []core.Limit{quota(requests).Named("calls").RefundOn(core.Failures)}}))
	decisions := make([]core.Decision, requests)
	var wg sync.WaitGroup
	share := func(do func(n int)) {
		for g := range 64 {
			wg.Go(func() {
				for n := g; n < requests; n += 64 {
					do(n)
				}
			})
		}
		wg.Wait()
	}
	share(func(n int) { decisions[n] = l.AllowKey(context.Background(), fmt.Sprint(n%keys), 1) })
	proxy.Delay(5 * time.Millisecond)
	share(func(n int) { decisions[n].Settle(core.Outcome{Status: 500 * (n % 2)}) }) // every other one failed
	proxy.Delay(0)
	for key := range keys {
		want := int64(requests)
		for n := key; n < requests; n += keys {
			want -= int64(1 - n%2)
		}
		check.Equal(t, fmt.Sprintf("key %d: left", key), unitsLeft(t, l, fmt.Sprint(key)), want)
	}
}

// A settlement that Redis may have done is not repeated: it may be lost, and is reported. The
// client has less then, never more.
func TestSettlementsThatAreLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server)
	proxy.Match("evalsha", "eval")
	var refund sync.Mutex // held while nothing may be sent
	tested := redisstore.New(proxy.Client(t), redisstore.Config{Prefix: redistest.Prefix(t)})
	tested.Undergo(func(context.Context) error {
		refund.Lock()
		refund.Unlock() //nolint:staticcheck // SA2001: it is a gate
		return nil
	})
	var lost atomic.Int64
	tested.OnEvent(func(e core.Event) {
		if e.Kind == store.EventSettlementsLost {
			lost.Add(e.Count)
		}
	})
	l := core.Must(core.New(core.Config{Store: tested, Timeout: time.Minute, Limits: []core.Limit{quota(10).Named("calls").RefundOn(core.Failures)}}))
	first, second := l.AllowKey(t.Context(), "k", 1), l.AllowKey(t.Context(), "k", 1)
	proxy.DropRequests(1)
	refund.Lock()
	first.Settle(core.Outcome{Status: 500})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	// The refund waits for Drain.
	if err := draining.Then(ctx, l, refund.Unlock); err == nil || err.Error() != "weblimit: settlements that were lost: 1" {
		t.Errorf("Drain: %v", err)
	}
	check.Equal(t, "left after a lost refund", unitsLeft(t, l, "k"), 8)
	second.Settle(core.Outcome{Status: 500})
	check.Equal(t, "left after the next", unitsLeft(t, l, "k"), 9)
	check.Equal(t, "errors reported", lost.Load(), 1)
}

// What Redis was not asked for is told once when it is back, without any request.
func TestSettlementsWaitForRedis(t *testing.T) {
	t.Parallel()
	proxy := redistest.StartProxy(t, redistest.Start(t))
	var refuses atomic.Bool
	var dialed atomic.Int64
	client := proxy.ClientWith(t, &redis.Options{Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if refuses.Load() { // a proxy accepts and closes, and then a request may have been sent
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		for n := dialed.Add(1); proxy.Connections() < n; {
			time.Sleep(time.Millisecond) // until it is accepted, which nothing tells: Refuse can't close it before that
		}
		return conn, nil
	}})
	refuse := func(on bool) {
		refuses.Store(on)
		proxy.Refuse(on)
	}
	tested := redisstore.New(client, redisstore.Config{Prefix: redistest.Prefix(t)})
	var opened, lost atomic.Int64
	tested.OnEvent(func(e core.Event) {
		switch e.Kind {
		case store.EventBreakerOpened:
			opened.Add(1)
		case store.EventSettlementsLost:
			lost.Add(e.Count)
		}
	})
	l := core.Must(core.New(core.Config{Store: tested, Timeout: time.Minute, Limits: []core.Limit{
		core.PerBillingMonth(1000, farDay(), time.UTC).By(keyfuncs.Everyone()).Named("tokens").Estimate(500).OnOutage(core.Deny),
		core.Concurrent(1).By(keyfuncs.Everyone()).Named("streams").OnOutage(core.Deny),
		core.PerCalendarDay(9, farMidnight()).By(keyfuncs.Everyone()).Named("failures").RefundOn(core.Failures).OnOutage(core.Deny),
	}}))
	asked := func(what string, want ...int64) {
		t.Helper()
		d := must.Get(l.Peek(t.Context(), "k", 0))(t)
		for i, r := range d.Results() {
			check.Equal(t, fmt.Sprintf("%s: %s: left", what, r.Rule.Name), r.Remaining, want[i])
		}
	}
	var ds []core.Decision
	for range 2 { // the second finds the breaker open when it ends
		d := l.AllowKey(t.Context(), "k", 1) // a worker reports what it cost
		if !d.Allowed {
			t.Fatalf("%v", d.Reason)
		}
		ds = append(ds, d)
		asked("while it runs", 999-2*int64(len(ds)-1), 0, 8)
		refuse(true)
		if len(ds) == 2 {
			for range 9 {
				l.AllowKey(t.Context(), "k", 1)
			}
			if opened.Load() == 0 {
				t.Error("the breaker is closed")
			}
		}
		must.OK(t, core.Spend(core.NewContext(t.Context(), d), 2))
		d.Settle(core.Outcome{Status: 500})
		time.Sleep(100 * time.Millisecond) // for settlements that are refused meanwhile, which nothing tells
		refuse(false)
		want := 1000 - 2*int64(len(ds))
		wait.Until(t, "Redis has what it was not asked for", func() bool { // a peek tells nothing
			d, err := l.Peek(t.Context(), "k", 0)
			return err == nil && d.Results()[0].Remaining == want && d.Results()[1].Remaining == 1 && d.Results()[2].Remaining == 9
		})
		asked("after the outage", want, 1, 9)
	}
	drain(t, l)
	asked("when nothing is left to be told", 996, 1, 9)
	check.Equal(t, "lost", lost.Load(), 0)
}

func TestDrainEndsWithItsContext(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server)
	store := redisstore.New(proxy.Client(t), redisstore.Config{Prefix: redistest.Prefix(t)})
	l := core.Must(core.New(core.Config{Store: store, Timeout: time.Minute, Limits: []core.Limit{quota(10).Named("calls").RefundOn(core.Failures)}}))
	d := l.AllowKey(t.Context(), "k", 1)
	proxy.Blackhole(true)
	d.Settle(core.Outcome{Status: 500})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := l.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Drain: %v, want the end of its context", err)
	}
	proxy.Blackhole(false)
}
