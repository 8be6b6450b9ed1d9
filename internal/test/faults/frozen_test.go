package faults_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/child"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/nethttp"
)

const usualTimeout = store.DefaultTimeout

// served is a request as the server saw it.
type served struct {
	began  time.Time
	added  time.Duration // by the limiter
	reason core.Reason
}

// asking returns what the limiter added, without what the machine did to a request to Redis.
func (r *served) asking() time.Duration { return late.less(r.began, r.added, usualTimeout) }

// running returns what the limiter added while the process was running.
func (r *served) running() time.Duration {
	return r.added - late.between(r.began, r.began.Add(r.added))
}

// site is a web server with a limiter and clients that do not wait for each other.
type site struct {
	*httptest.Server
	client *http.Client

	mu       sync.Mutex
	api      []served    // Guarded by mu.
	health   []served    // of /healthz. Guarded by mu.
	statuses map[int]int // 0 for no response. Guarded by mu.

	peakGoroutines int    // Guarded by mu.
	peakOthers     int    // goroutines without those of connections and requests of clients. Guarded by mu.
	peakConns      uint32 // to Redis. Guarded by mu.

	conns, requests atomic.Int64 // of clients

	asking sync.WaitGroup
}

func newSite(t *testing.T, l *core.Limiter) *site {
	t.Helper()
	s := &site{statuses: map[int]int{}, peakOthers: math.MinInt}
	type begin struct{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api", func(_ http.ResponseWriter, r *http.Request) {
		began := r.Context().Value(begin{}).(time.Time)
		d, _ := nethttp.FromContext(r.Context())
		s.mu.Lock()
		defer s.mu.Unlock()
		s.api = append(s.api, served{began, time.Since(began), d.Reason})
	})
	mux.HandleFunc("GET /healthz", func(_ http.ResponseWriter, r *http.Request) {
		began := r.Context().Value(begin{}).(time.Time)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.health = append(s.health, served{began: began, added: time.Since(began)})
	})
	limited := nethttp.New(l, nethttp.Config{Mux: mux})(mux)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limited.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), begin{}, time.Now())))
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			s.conns.Add(1)
		case http.StateClosed:
			s.conns.Add(-1)
		}
	}
	s.Start()
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	s.client = &http.Client{Transport: transport, Timeout: patience}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		s.Close()
	})
	return s
}

func (s *site) get(path string) {
	s.requests.Add(1)
	defer s.requests.Add(-1)
	status := 0 // no response
	if res, err := s.client.Get(s.URL + path); err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		status = res.StatusCode
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statuses[status]++
}

// others returns how many goroutines there are without those of client and server: two in the client
// and two in the server for each connection, and for each request one that asks and some that dial. A
// busy machine has many of them.
func (s *site) others() int {
	return runtime.NumGoroutine() - 4*int(s.conns.Load()) - 4*int(s.requests.Load())
}

// load asks 200 times a second for /api and 50 times for /healthz, until stopped, and
// measures goroutines and connections.
func (s *site) load(rdb *redis.Client) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-done:
				s.asking.Wait()
				return
			case <-tick.C:
			}
			s.asking.Go(func() { s.get("/api") })
			if n%4 == 0 {
				s.asking.Go(func() { s.get("/healthz") })
			}
			s.mu.Lock()
			s.peakGoroutines = max(s.peakGoroutines, runtime.NumGoroutine())
			s.peakOthers = max(s.peakOthers, s.others())
			s.peakConns = max(s.peakConns, rdb.PoolStats().TotalConns)
			s.mu.Unlock()
		}
	}()
	return sync.OnceFunc(func() {
		close(done)
		<-ended
	})
}

// take returns what was measured since the last call, and starts again.
func (s *site) take() (api, health []served, goroutines, others int, conns uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	api, health, goroutines, others, conns = s.api, s.health, s.peakGoroutines, s.peakOthers, s.peakConns
	s.api, s.health, s.peakGoroutines, s.peakOthers, s.peakConns = nil, nil, 0, math.MinInt, 0
	return api, health, goroutines, others, conns
}

// decidedSince reports whether Redis decided a request that began after t.
func (s *site) decidedSince(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.api, func(r served) bool { return r.began.After(t) && r.reason == core.ReasonWithinLimit })
}

func added(of []served) []time.Duration {
	return each(of, func(r *served) time.Duration { return r.added })
}

// each returns a duration of each request.
func each(of []served, which func(*served) time.Duration) []time.Duration {
	durations := make([]time.Duration, len(of))
	for i := range of {
		durations[i] = which(&of[i])
	}
	return durations
}

// Trap 25 and 27: Redis accepts connections and does not answer. It is frozen a few
// times. The median of the measured times must be within what is promised.
func TestRedisIsFrozenUnderLoad(t *testing.T) {
	if child.Apart(t) {
		return
	}
	for name, policy := range map[string]core.OutageAction{"Local": core.Local, "Allow": core.Allow} {
		t.Run(name, func(t *testing.T) { freezeUnderLoad(t, policy) })
	}
}

func freezeUnderLoad(t *testing.T, policy core.OutageAction) {
	freezes, lasts := long.Rounds(2, 3), long.Rounds(300*time.Millisecond, time.Second)
	server := redistest.Start(t)
	rdb := server.Client(t)
	tested := redisstore.New(rdb)
	heard := listen(tested)
	var opened struct {
		sync.Mutex
		at time.Time // first, since it was set to zero
	}
	tested.Registry().Watch(func(e core.Event) {
		opened.Lock()
		defer opened.Unlock()
		if e.Kind == store.EventBreakerOpened && opened.at.IsZero() {
			opened.at = time.Now()
		}
	})
	s := newSite(t, newLimiter(t, core.Config{
		Store:  tested,
		Limits: []core.Limit{atMost(1_000_000, "api").OnOutage(policy)},
		Bypass: []keyfuncs.Condition{keyfuncs.Routes("GET /healthz")},
	}))
	stop := s.load(rdb)
	defer stop()
	time.Sleep(lasts) // of calm
	api, health, goroutines, calmOthers, _ := s.take()
	figure(t, "added latency before, median", quantile(added(api), 0.5))
	figure(t, "added latency before, p99", quantile(added(api), 0.99))
	// What a request takes that is not kept waiting.
	calm := max(10*time.Millisecond, quantile(added(api), 0.99), quantile(added(health), 0.99))

	var untilOpen, afterOpen, healthy []served
	var openAfter, backAfter, backRunning []time.Duration
	waited, waitedOpen, asked := 0, 0, 0
	peakGoroutines, peakOthers, peakConns := 0, 0, uint32(0)
	for tries := 0; len(openAfter) < freezes; tries++ {
		if tries == 5*freezes {
			t.Fatalf("the breaker opened in %d of %d freezes; events: %v", len(openAfter), tries, heard)
		}
		eventually(t, "the breaker to be closed", func() bool {
			return heard.count(store.EventBreakerOpened) == heard.count(store.EventBreakerClosed)
		})
		s.take()
		opened.Lock()
		opened.at = time.Time{}
		opened.Unlock()
		frozen := time.Now()
		server.Freeze(t)
		time.Sleep(lasts) // of the freeze
		openedAt := func() time.Time {
			opened.Lock()
			defer opened.Unlock()
			return opened.at
		}
		for openedAt().IsZero() && time.Since(frozen) < 10*lasts {
			time.Sleep(lasts / 2) // a process that hardly runs notices later
		}
		thawed := time.Now()
		server.Thaw(t)
		back := eventually(t, "a decision by Redis", func() bool { return s.decidedSince(thawed) })
		backAfter, backRunning = append(backAfter, back), append(backRunning, back-late.between(thawed, thawed.Add(back)))
		time.Sleep(100 * time.Millisecond) // for requests that were under way
		at := openedAt()
		if at.Before(frozen) || at.After(thawed) {
			continue // it was open before: on a very busy machine Redis is slow at times
		}
		openAfter = append(openAfter, at.Sub(frozen))
		api, health, g, o, c := s.take()
		peakGoroutines, peakOthers, peakConns = max(peakGoroutines, g), max(peakOthers, o), max(peakConns, c)
		healthy = append(healthy, health...)
		for _, r := range api {
			if r.began.Before(frozen) || r.began.After(thawed) {
				continue
			}
			asked++
			if r.added > usualTimeout/2 {
				waited++
			}
			if r.began.Before(at) {
				untilOpen = append(untilOpen, r)
			} else {
				afterOpen = append(afterOpen, r)
				if r.running() > usualTimeout/2 {
					waitedOpen++
				}
			}
		}
	}
	stop()

	figure(t, "added latency until the breaker opens, p99 (deadline 100ms)", quantile(added(untilOpen), 0.99))
	figure(t, "breaker opens after, median", quantile(openAfter, 0.5))
	figure(t, "added latency with the breaker open, median", quantile(added(afterOpen), 0.5))
	figure(t, "added latency with the breaker open, p99", quantile(added(afterOpen), 0.99))
	figure(t, fmt.Sprintf("requests in %d freezes of %v", freezes, lasts), asked)
	figure(t, "requests that waited at all", waited)
	figure(t, "added latency of /healthz in the freezes, p99", quantile(added(healthy), 0.99))
	figure(t, "decided by Redis again after SIGCONT, median", quantile(backAfter, 0.5))
	figure(t, "goroutines before", goroutines)
	figure(t, "goroutines in the freezes, at most", peakGoroutines)
	figure(t, "connections to Redis, at most", peakConns)
	figure(t, "responses with status 200", s.statuses[http.StatusOK])
	others := 0
	for status, n := range s.statuses {
		if status != http.StatusOK {
			others += n
		}
	}
	figure(t, "responses with any other, or none", others)

	// What a busy machine adds to every request is not the limiter's.
	if got, most := quantile(each(untilOpen, (*served).asking), 0.99), usualTimeout+100*time.Millisecond; got > most {
		t.Errorf("until the breaker opened requests waited %v at p99 without a busy machine's part, want at most %v", got, most)
	}
	if got := quantile(each(afterOpen, (*served).running), 0.5); got > calm {
		t.Errorf("with the breaker open requests waited %v at the median, want at most %v", got, calm)
	}
	if waitedOpen > len(afterOpen)/20 {
		t.Errorf("with the breaker open %d of %d requests waited", waitedOpen, len(afterOpen))
	}
	if got := quantile(each(healthy, (*served).running), 0.5); got > calm {
		t.Errorf("/healthz took %v at the median, want at most %v", got, calm)
	}
	if got := quantile(backRunning, 0.5); got > 2*time.Second {
		t.Errorf("Redis decided again after %v", got)
	}
	if others > 0 {
		t.Errorf("statuses %v, want nothing but 200", s.statuses)
	}
	// The store has some for each connection and a probe.
	if peakOthers > calmOthers+100 {
		t.Errorf("%d goroutines in the freezes beside the clients', %d before", peakOthers, calmOthers)
	}
	if peakConns > 8 {
		t.Errorf("%d connections to Redis, want the store's four, one of a probe and what is being replaced", peakConns)
	}
	opens, closes := heard.atLeast(freezes, store.EventBreakerOpened), heard.atLeast(freezes, store.EventBreakerClosed)
	if opens < freezes || closes < freezes {
		t.Errorf("the breaker opened %d times and closed %d times in %d freezes; events: %v", opens, closes, freezes, heard)
	}
}
