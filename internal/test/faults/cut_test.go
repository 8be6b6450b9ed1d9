package faults_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// line is an application whose connection to Redis is broken, and a witness with a
// connection of its own.
type line struct {
	*core.Limiter
	server  *redistest.Server
	proxy   *redistest.Proxy
	client  *redis.Client
	witness *core.Limiter
	heard   *audience

	mu    sync.Mutex
	tally map[string]tally // by key. Guarded by mu.
}

// tally counts the decisions for a key.
type tally struct {
	answered int64 // by Redis
	lost     int64 // sent, or maybe sent, and not answered
	unsent   int64 // certainly not sent
}

const lineQuota = 1_000_000

// newLine returns a line that is connected. On a busy machine that takes longer than some timeouts, and a
// store whose first checks have failed is not as the tests want it.
func newLine(t *testing.T, timeout time.Duration, policy core.OutageAction) *line {
	t.Helper()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server)
	proxy.Match("evalsha", "eval")
	limits := []core.Limit{atMost(lineQuota, "api").OnOutage(policy)}
	for began := time.Now(); ; {
		prefix := redistest.Prefix(t)
		l := &line{server: server, proxy: proxy, client: proxy.Client(t), tally: map[string]tally{}}
		store := redisstore.New(l.client, redisstore.Config{Prefix: prefix})
		l.heard = listen(store)
		l.Limiter = newLimiter(t, core.Config{Store: store, Timeout: timeout, Limits: limits})
		l.witness = newLimiter(t, core.Config{Store: redisstore.New(server.Client(t), redisstore.Config{Prefix: prefix}), Timeout: patience, Limits: limits})
		d := l.ask("warm")
		if d.Reason == core.ReasonWithinLimit {
			return l
		}
		if time.Since(began) > patience {
			t.Fatalf("before any fault, for %v: %v, %v", patience, d.Reason, d.Err)
		}
		_ = l.client.Close() // the next one has another
	}
}

// ask asks for one unit and counts the outcome.
func (l *line) ask(key string) core.Decision {
	d := l.AllowKey(context.Background(), key, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.tally[key]
	switch class := classOf(d); {
	case d.Reason == core.ReasonWithinLimit:
		n.answered++
	case class == store.ClassOpen || class == store.ClassOverload || class == store.ClassClosed:
		n.unsent++
	default:
		n.lost++
	}
	l.tally[key] = n
	return d
}

// sum returns the tally of all keys.
func (l *line) sum() (all tally) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.tally {
		all.answered += n.answered
		all.lost += n.lost
		all.unsent += n.unsent
	}
	return all
}

// charged returns what Redis has charged a key with.
func (l *line) charged(t *testing.T, key string) int64 {
	t.Helper()
	return lineQuota - remaining(t, l.witness, key)
}

// wantOnce fails unless each key was charged once for each answered decision,
// and at most once for each that was lost. It returns the sum of the charges.
func (l *line) wantOnce(t *testing.T) (sum int64) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, n := range l.tally {
		charged := l.charged(t, key)
		sum += charged
		if charged < n.answered || charged > n.answered+n.lost {
			t.Errorf("key %s: charged %d for %d answered and %d lost decisions", key, charged, n.answered, n.lost)
		}
	}
	return sum
}

func (l *line) figures(t *testing.T, charged int64) {
	t.Helper()
	sum := l.sum()
	figure(t, "decisions answered by Redis", sum.answered)
	figure(t, "decisions lost on the way", sum.lost)
	figure(t, "charged", charged)
}

// Trap 21: a check that may have run is not sent again.
func TestReplyIsCut(t *testing.T) {
	t.Parallel()
	for _, bytes := range []int{0, 1, 4, 20} {
		t.Run(fmt.Sprint("after ", bytes, " bytes"), func(t *testing.T) {
			t.Parallel()
			const cuts = 25
			l := newLine(t, patience, core.Deny)
			l.proxy.CutAfter(bytes)
			for range cuts {
				l.proxy.CutReplies(1)
				outcomes["Deny"].wantOutage(t, "a cut reply", l.ask("k"), store.ClassConnection)
				if d := l.ask("k"); d.Reason != core.ReasonWithinLimit {
					t.Errorf("the decision after it: %v, %v", d.Reason, d.Err)
				}
			}
			charged := l.wantOnce(t)
			l.figures(t, charged)
			if sum := l.sum(); charged != sum.answered+sum.lost || sum.lost != cuts { // the server ran what it was sent
				t.Errorf("charged %d for %+v, want all", charged, sum)
			}
			check.Equal(t, "replies cut", l.proxy.RepliesCut(), cuts)
			if n := l.heard.count(store.EventBreakerOpened); n != 0 {
				t.Errorf("lone failures opened the breaker; events: %v", l.heard)
			}
		})
	}
}

func TestRequestIsDropped(t *testing.T) {
	t.Parallel()
	const drops = 25
	l := newLine(t, patience, core.Deny)
	for range drops {
		l.proxy.DropRequests(1)
		outcomes["Deny"].wantOutage(t, "a dropped request", l.ask("k"), store.ClassConnection)
		if d := l.ask("k"); d.Reason != core.ReasonWithinLimit {
			t.Errorf("the decision after it: %v, %v", d.Reason, d.Err)
		}
	}
	charged := l.wantOnce(t)
	l.figures(t, charged)
	if sum := l.sum(); charged != sum.answered || sum.lost != drops {
		t.Errorf("charged %d for %+v, want those answered", charged, sum)
	}
}

// With Local, a request whose answer was lost is granted here, and charged once more
// when Redis is back, although Redis may have charged it already. That is the strict
// way, since nobody can know.
func TestReplyIsCutWithLocal(t *testing.T) {
	t.Parallel()
	const cuts = 25
	l := newLine(t, patience, core.Local)
	for range cuts {
		l.proxy.CutReplies(1)
		outcomes["Local"].wantOutage(t, "a cut reply", l.ask("k"), store.ClassConnection)
		if d := l.ask("k"); d.Reason != core.ReasonWithinLimit {
			t.Errorf("the decision after it: %v, %v", d.Reason, d.Err)
		}
	}
	granted, charged := int64(2*cuts), l.charged(t, "k")
	figure(t, "decisions granted", granted)
	figure(t, "of them in this process, their replies lost", cuts)
	figure(t, "charged", charged)
	if charged < granted || charged > granted+cuts {
		t.Errorf("charged %d for %d grants of which %d were lost", charged, granted, cuts)
	}
}

// A batch fails as a whole, and is not sent again.
func TestRepliesToBatchesAreCut(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"replies cut", "replies cut after 20 bytes", "requests dropped"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			const goroutines, keys = 64, 24
			requests := long.Rounds(20, 100)
			l := newLine(t, patience, core.Deny)
			l.proxy.Delay(2 * time.Millisecond) // so that checks wait for each other
			if what == "replies cut after 20 bytes" {
				l.proxy.CutAfter(20)
			}
			atOnce(goroutines, func(g int) {
				for n := range requests {
					if g == 0 && n%5 == 0 {
						if what == "requests dropped" {
							l.proxy.DropRequests(1)
						} else {
							l.proxy.CutReplies(1)
						}
					}
					d := l.ask(fmt.Sprint("k", (g+n)%keys))
					if d.Reason == core.ReasonWithinLimit {
						continue
					}
					outcomes["Deny"].wantOutage(t, "a decision that was cut", d, store.ClassConnection, store.ClassOpen)
					if classOf(d) == store.ClassOpen {
						time.Sleep(time.Millisecond) // or few decisions would be left for when Redis is asked again
					}
				}
			})
			l.proxy.Delay(0)
			charged, sum := l.wantOnce(t), l.sum()
			l.figures(t, charged)
			harmed := l.proxy.RepliesCut() + l.proxy.RequestsDropped()
			figure(t, what, harmed)
			if sum.lost < harmed || harmed == 0 {
				t.Errorf("%d decisions were lost with %d calls", sum.lost, harmed)
			}
			if what == "requests dropped" && charged != sum.answered {
				// What was under way before it on the same connection was answered.
				t.Errorf("charged %d, want those answered: %d", charged, sum.answered)
			}
		})
	}
}

// A slow Redis that keeps to the deadline decides. One that does not is not asked any more.
func TestRedisIsSlow(t *testing.T) {
	t.Parallel()
	t.Run("in time", func(t *testing.T) {
		t.Parallel()
		l := newLine(t, patience, core.Deny)
		l.proxy.Delay(30 * time.Millisecond)
		for range 20 {
			if d := l.ask("k"); d.Reason != core.ReasonWithinLimit {
				t.Errorf("%v, %v", d.Reason, d.Err)
			}
		}
		if l.heard.String() != "none" {
			t.Errorf("events: %v", l.heard)
		}
	})
	t.Run("beyond the deadline", func(t *testing.T) {
		t.Parallel()
		l := newLine(t, store.DefaultTimeout, core.Deny)
		l.proxy.Delay(patience)
		var took, running []time.Duration
		for l.heard.count(store.EventBreakerOpened) == 0 {
			if len(took) == 100 {
				t.Fatalf("100 decisions without an answer did not open the breaker; events: %v", l.heard)
			}
			start := time.Now()
			d := l.ask("k")
			if classOf(d) == store.ClassOpen {
				break // the breaker is open, and its event still on the way
			}
			outcomes["Deny"].wantOutage(t, "without an answer", d, store.ClassTimeout)
			took = append(took, time.Since(start))
			running = append(running, late.less(start, took[len(took)-1], store.DefaultTimeout))
		}
		sent := len(took)
		outcomes["Deny"].wantOutage(t, "with the breaker open", l.ask("k"), store.ClassOpen)
		l.proxy.Delay(0)
		back := eventually(t, "a decision by Redis", func() bool { return l.ask("k").Reason == core.ReasonWithinLimit })
		figure(t, "decisions until the breaker opened", sent)
		figure(t, "each took, at most", quantile(took, 1))
		figure(t, "decided by Redis again after", back)
		charged := l.wantOnce(t)
		l.figures(t, charged)
		if got, most := quantile(running, 0.5), store.DefaultTimeout+100*time.Millisecond; got > most {
			t.Errorf("a decision took %v at the median without the time that the process was late, want at most %v", got, most)
		}
	})
	t.Run("nearly all of it", func(t *testing.T) {
		t.Parallel()
		l := newLine(t, 400*time.Millisecond, core.Deny)
		l.proxy.Delay(320 * time.Millisecond)
		n := 0
		for ; l.heard.count(store.EventBreakerOpened) == 0; n++ {
			if n == 100 {
				t.Fatalf("100 slow decisions did not open the breaker; events: %v", l.heard)
			}
			l.ask("k")
		}
		figure(t, "slow decisions until the breaker opened", n)
		l.proxy.Delay(0)
		l.wantOnce(t)
	})
}

// Redis closes its connections, as it does when it restarts or is reconfigured.
func TestConnectionsAreKilled(t *testing.T) {
	t.Parallel()
	const goroutines, kills = 16, 10
	requests := kills * long.Rounds(6, 30)
	l := newLine(t, patience, core.Deny)
	l.proxy.Delay(time.Millisecond)
	var killed int64
	atOnce(goroutines, func(g int) {
		for n := range requests {
			if g == 0 && n%(requests/kills) == 0 {
				killed += l.server.KillClients(t)
			}
			if d := l.ask(fmt.Sprint("k", n%8)); d.Reason != core.ReasonWithinLimit {
				outcomes["Deny"].wantOutage(t, "with connections killed", d, store.ClassConnection, store.ClassOpen)
			}
		}
	})
	figure(t, "connections killed", killed)
	l.figures(t, l.wantOnce(t))
	if sum := l.sum(); sum.answered == 0 {
		t.Errorf("no decision was answered: %+v", sum)
	}
	eventually(t, "a decision by Redis", func() bool { return l.ask("k").Reason == core.ReasonWithinLimit })
}

// A network that swallows all bytes, and a port without a listener.
func TestNetworkIsGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set     func(p *redistest.Proxy, on bool)
		timeout time.Duration
		class   store.Class
	}{
		"silent":  {(*redistest.Proxy).Blackhole, store.DefaultTimeout, store.ClassTimeout},
		"refused": {(*redistest.Proxy).Refuse, patience, store.ClassConnection},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, c.timeout, core.Deny)
			c.set(l.proxy, true)
			for n := 0; l.heard.count(store.EventBreakerOpened) == 0; n++ {
				if n == 100 {
					t.Fatalf("the breaker did not open; events: %v", l.heard)
				}
				d := l.ask("k")
				if classOf(d) == store.ClassOpen {
					break
				}
				outcomes["Deny"].wantOutage(t, "with the network gone", d, c.class)
			}
			if !l.heard.heard(store.EventStoreError, c.class) {
				t.Errorf("no event of class %q; events: %v", c.class, l.heard)
			}
			c.set(l.proxy, false)
			figure(t, "decided by Redis again after", eventually(t, "a decision by Redis", func() bool {
				return l.ask("k").Reason == core.ReasonWithinLimit
			}))
			l.wantOnce(t)
		})
	}
}

// The application closes its client, as at shutdown, while requests still arrive.
func TestClientIsClosedByTheApplication(t *testing.T) {
	t.Parallel()
	for policy, outcome := range outcomes {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			l := newLine(t, patience, outcome.policy)
			var wg sync.WaitGroup
			for range 16 {
				wg.Go(func() {
					for range 50 {
						if d := l.ask("k"); d.Reason != core.ReasonWithinLimit {
							outcome.wantOutage(t, "around the close", d, store.ClassClosed, store.ClassConnection, store.ClassOpen)
						}
					}
				})
			}
			_ = l.client.Close()
			wg.Wait()
			outcome.wantOutage(t, "after it", l.ask("k"), store.ClassClosed, store.ClassOpen)
			if !l.heard.heard(store.EventStoreError, store.ClassClosed) {
				t.Errorf("no event of class %q; events: %v", store.ClassClosed, l.heard)
			}
			if policy != "Local" { // with Local, Redis never learns of the last grants
				l.wantOnce(t)
			}
		})
	}
}
