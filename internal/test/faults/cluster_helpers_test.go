package faults_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
)

// slack is how late a decision may be on a busy machine, beside what the process was late itself.
const slack = 5 * time.Second

// noDenials has a store ask Redis each time.
func noDenials() redisstore.DenialCache { return redisstore.DenialCache{Disabled: true} }

// newClusterStore returns a store that knows which node has which slot. A store gives up finding that out after two
// seconds, for which a busy machine can keep itself or the nodes from running, and the checks that wait for it fail.
func newClusterStore(t *testing.T, client *redis.ClusterClient, config redisstore.Config) *redisstore.Store {
	t.Helper()
	s, rule := redisstore.New(client, config), ruleOf(t, atMost(1, "map"))
	eventually(t, "the map of slots", func() bool { return usedBy(s, rule, "map")[0] >= 0 })
	return s
}

// slotOf returns the slot of what a client key has used.
func slotOf(tb testing.TB, c *redistest.Cluster, prefix, key string) int {
	tb.Helper()
	slot := must.Get(liveClient(tb, c).ClusterKeySlot(context.Background(), prefix+"{"+key+"}").Result())(tb)
	return int(slot)
}

// liveClient returns a client of any node that answers.
func liveClient(tb testing.TB, c *redistest.Cluster) *redis.Client {
	tb.Helper()
	for _, node := range c.Nodes() {
		client := node.Client(tb)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		err := client.Ping(ctx).Err()
		cancel()
		if err == nil {
			return client
		}
	}
	tb.Fatal("no node answers")
	return nil
}

// keysOn returns n client keys for each of the masters, in their order.
func keysOn(tb testing.TB, c *redistest.Cluster, prefix string, n int) [][]string {
	tb.Helper()
	masters := c.Masters()
	keys := make([][]string, len(masters))
	for i, found := 0, 0; found < n*len(masters); i++ {
		key := fmt.Sprint("user:", i)
		at := slotOf(tb, c, prefix, key) * len(masters) / 16384 // as they were dealt
		if len(keys[at]) < n {
			keys[at] = append(keys[at], key)
			found++
		}
	}
	return keys
}

// ask is one decision: when it was made, and its outcome.
type ask struct {
	key     string
	at      time.Time
	took    time.Duration
	reason  core.Reason
	class   store.Class
	allowed bool
	left    int64 // remaining
}

// byRedis reports whether Redis decided, or a denial of Redis was repeated.
func (a *ask) byRedis() bool {
	return a.reason == core.ReasonWithinLimit || a.reason == core.ReasonLimitExceeded || a.reason == core.ReasonCachedDenial
}

// traffic sends requests in the background and records their decisions.
type traffic struct {
	quit    chan struct{}
	workers sync.WaitGroup

	mu   sync.Mutex
	asks []ask // Guarded by mu.
}

func newTraffic() *traffic { return &traffic{quit: make(chan struct{})} }

// send has workers decide on the key, one request after the other, until stop.
func (tr *traffic) send(l *core.Limiter, key string, workers int, pause time.Duration) {
	for range workers {
		tr.workers.Go(func() {
			for {
				select {
				case <-tr.quit:
					return
				default:
				}
				tr.note(decide(l, key))
				time.Sleep(pause) // so that the clients are not the load
			}
		})
	}
}

// decide makes one decision.
func decide(l *core.Limiter, key string) ask {
	start := time.Now()
	d := l.AllowKey(context.Background(), key, 1)
	a := ask{key: key, at: start, took: time.Since(start), reason: d.Reason, class: classOf(d), allowed: d.Allowed}
	if results := d.Results(); len(results) > 0 {
		a.left = results[0].Remaining
	}
	return a
}

func (tr *traffic) note(a ask) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.asks = append(tr.asks, a)
}

// count returns how many decisions on the key, or on any key if it is "", began since
// then and match.
func (tr *traffic) count(key string, since time.Time, such func(*ask) bool) (n int) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for i := range tr.asks {
		if a := &tr.asks[i]; (key == "" || a.key == key) && !a.at.Before(since) && such(a) {
			n++
		}
	}
	return n
}

// stop ends the requests and returns the decisions.
func (tr *traffic) stop() []ask {
	close(tr.quit)
	tr.workers.Wait()
	return tr.asks
}

// hammerKey has many goroutines ask for one key, more often than its quota, and
// returns how many requests were let through.
func hammerKey(tb testing.TB, l *core.Limiter, key string, quota int) (admitted int64) {
	tb.Helper()
	const workers = 64
	var passed, outages atomic.Int64
	atOnce(workers, func(_ int) {
		for range quota/workers + 2 {
			a := decide(l, key)
			if a.allowed {
				passed.Add(1)
			}
			if !a.byRedis() {
				outages.Add(1)
			}
		}
	})
	if n := outages.Load(); n > 0 {
		tb.Errorf("%d decisions were not Redis's", n)
	}
	return passed.Load()
}

// wantOnTime checks that no decision took longer than its deadline and slack,
// and prints how long they took.
func wantOnTime(t *testing.T, asks []ask, deadline time.Duration) {
	t.Helper()
	var took []time.Duration
	for i := range asks {
		took = append(took, asks[i].took)
		if a := &asks[i]; a.took > deadline+slack && late.less(a.at, a.took, deadline) > deadline+slack {
			t.Errorf("a decision took %v, its deadline was %v, and the process was late by %v", a.took, deadline, late.between(a.at, a.at.Add(a.took)))
		}
	}
	figure(t, fmt.Sprintf("p99 of %d decisions, deadline %v", len(took), deadline), quantile(took, 0.99))
	figure(t, "slowest decision", quantile(took, 1))
}

// errorCount returns how often a node has replied with an error of a code, or
// run a command, since it started. Before Redis 6.2, which brought the counts, it is 0.
func errorCount(tb testing.TB, s *redistest.Server, code string) int64 {
	tb.Helper()
	info := must.Get(s.Client(tb).Info(context.Background(), "errorstats").Result())(tb)
	_, rest, found := strings.Cut(info, "errorstat_"+code+":count=")
	if !found {
		return 0
	}
	return must.Get(strconv.ParseInt(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]), 10, 64))(tb)
}

// behindProxies returns a client of the cluster whose connections all go through
// proxies, and the proxies.
func behindProxies(tb testing.TB, c *redistest.Cluster) (*redis.ClusterClient, map[*redistest.Server]*redistest.Proxy) {
	tb.Helper()
	proxies := map[*redistest.Server]*redistest.Proxy{}
	addrs := map[string]string{}
	for _, node := range c.Nodes() {
		proxies[node] = redistest.StartProxy(tb, node)
		addrs[node.Addr()] = proxies[node].Addr()
	}
	return c.ClientWith(tb, &redis.ClusterOptions{
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addrs[addr])
		},
	}), proxies
}

// ruleOf returns a limit's rule.
func ruleOf(tb testing.TB, l core.Limit) *core.Rule {
	tb.Helper()
	r := must.Get(l.Rule())(tb)
	return &r
}

// classOfError returns the class of a store's error, or "".
func classOfError(err error) store.Class {
	var e *store.Error
	if errors.As(err, &e) {
		return e.Class
	}
	return ""
}

// takeWithin has a store decide checks that cost 1 each.
func takeWithin(s core.Store, d time.Duration, rule *core.Rule, keys ...string) ([]core.Result, error) {
	checks, results := checksOf(rule, keys...), make([]core.Result, len(keys))
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return results, s.Take(ctx, checks, results)
}

func checksOf(rule *core.Rule, keys ...string) []core.Check {
	checks := make([]core.Check, len(keys))
	for i, key := range keys {
		checks[i] = core.Check{Key: []byte(key), Rule: rule, Cost: 1}
	}
	return checks
}

// usedBy returns how many units of keys are used according to a store, or -1 if it does not answer.
func usedBy(s core.Store, rule *core.Rule, keys ...string) []int64 {
	used := make([]int64, len(keys))
	for i, key := range keys {
		results := make([]core.Result, 1)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		err := s.Peek(ctx, checksOf(rule, key), results)
		cancel()
		if used[i] = rule.Burst - results[0].Remaining; err != nil {
			used[i] = -1
		}
	}
	return used
}

// nobody is an empty request, for limits whose keys do not come from the request.
type nobody struct{}

func (nobody) Context() context.Context          { return context.Background() }
func (nobody) Method() string                    { return http.MethodGet }
func (nobody) Path() string                      { return "/" }
func (nobody) Route() (string, bool)             { return "/", true }
func (nobody) Header(string, int) (string, bool) { return "", false }
func (nobody) Cookie(string, int) (string, bool) { return "", false }
func (nobody) Query(string, int) (string, bool)  { return "", false }
func (nobody) Peer() netip.Addr                  { return netip.Addr{} }
func (nobody) Value(any) any                     { return nil }

// firstKey and secondKey are two constant keys. They are package variables since a
// kind of key can be registered once per process.
var (
	firstKey  = keyfuncs.Custom("depot", func(keyfuncs.Request) string { return "1" })
	secondKey = keyfuncs.Custom("order", func(keyfuncs.Request) string { return "2" })
)

// twoKeys are limits of one policy for the keys "depot" 1 and "order" 2.
func twoKeys(policy core.OutageAction) []core.Limit {
	return []core.Limit{
		atMostOf(1000, "first", firstKey).OnOutage(policy),
		atMostOf(1000, "second", secondKey).OnOutage(policy),
	}
}
