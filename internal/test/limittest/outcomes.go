package limittest

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// outcome is a way in which a request can end.
type outcome struct {
	name     string
	handle   func(Call)
	status   int
	hangsUp  bool          // the client hangs up while the handler waits
	deadline time.Duration // of the request's context; it expires
}

var outcomes = []outcome{
	{name: "ok", handle: func(c Call) { c.Reply(200, "fine") }, status: 200},
	{name: "not found", handle: func(c Call) { c.Reply(404, "none") }, status: 404},
	{name: "unavailable", handle: func(c Call) { c.Reply(503, "not now") }, status: 503},
	{name: "the framework's error", handle: func(c Call) { c.Fail(409, true) }, status: 409},
	{name: "the framework's error of a server", handle: func(c Call) { c.Fail(502, true) }, status: 502},
	{name: "any other error", handle: func(c Call) { c.Fail(500, false) }, status: 500},
	{name: "panic", handle: func(Call) { panic("on purpose") }, status: 500},
	{name: "stream", handle: func(c Call) {
		n := 0
		c.Stream(func() (string, bool) { n++; return "chunk", n <= 3 })
	}, status: 200},
	{name: "hijack", handle: Call.Hijack, status: 200},
	{name: "time-out", handle: func(c Call) {
		<-c.Context().Done()
		c.Reply(504, "too late")
	}, status: 504, deadline: time.Millisecond},
	{name: "hang-up", handle: func(c Call) { c.Reply(200, "to nobody") }, status: 200, hangsUp: true},
	{name: "hang-up that fails the handler", handle: func(c Call) { c.Reply(502, "to nobody") }, status: 502, hangsUp: true},
	{name: "hang-up that breaks the handler", handle: func(Call) { panic("on purpose") }, status: 500, hangsUp: true},
}

// use is what each limit of Outcomes charges one client.
type use struct{ all, failures, unbroken, finished, tokens, running int64 }

// estimated is what the tokens limit charges before the handler runs.
const estimated = 10

// add counts a request with outcome o whose handler reported spent. left says whether
// the framework noticed that the client had hung up.
func (u *use) add(o *outcome, left bool, spent []int64) {
	u.all++
	if o.status >= 400 || left {
		u.failures++
	}
	if o.status < 500 || left {
		u.unbroken++
	}
	if !left && o.deadline == 0 {
		u.finished++
	}
	if spent == nil && (o.status < 400 || left) {
		u.tokens += estimated
	}
	for _, n := range spent { // charged whatever the outcome
		u.tokens += n
	}
}

// gate is where a handler waits until its client has hung up.
type gate struct{ entered, left chan struct{} }

const (
	outcomeHeader = "X-Test-Outcome" // index into outcomes; "index/number" if the client hangs up
	spendHeader   = "X-Test-Spend"   // units that the handler reports, in parts: "3,5"
	clientHeader  = "X-Test-Client"
)

// Outcomes sends thousands of requests over Redis, and fewer over memory, that end in every
// possible way at random; in a long run 100,000. It compares what stays charged with what should,
// and fails if a goroutine or a reservation is left. It must not run in parallel with other tests.
func Outcomes(t *testing.T, build Build, differences ...Differences) {
	requests := map[string]int{"memory": long.Rounds(1_000, 20_000), "Redis": long.Rounds(2_000, 100_000)}
	for _, over := range stores {
		t.Run(over.name, func(t *testing.T) {
			awayFromMidnight() // when a window of 30 days may end
			(&env{T: t, build: build, newStore: over.make(t), differs: theOne(differences)}).outcomes(requests[over.name])
		})
	}
}

func (e *env) outcomes(requests int) {
	const clients, workers = 16, 32
	quota := int64(requests) * 100
	per := func(name string) core.Limit {
		return core.Per(quota, 30*24*time.Hour).FixedWindow().By(keyfuncs.Header(clientHeader)).Named(name)
	}
	limiter, err := core.New(core.Config{Store: e.newStore(e), Timeout: patience, Limits: []core.Limit{
		per("all"),
		per("failures").RefundOn(core.Successes),
		per("unbroken").RefundOn(unhurried(core.ServerErrors)),
		per("finished").RefundOn(core.Canceled),
		per("tokens").Estimate(estimated).RefundOn(unhurried(core.Failures)),
		core.Concurrent(5000).By(keyfuncs.Header(clientHeader)).Named("running"),
	}})
	if err != nil {
		e.Fatal(err)
	}
	var gates sync.Map
	s := e.serve(App{Layers: []Layer{{Limiter: limiter}}, Routes: []Route{{Method: "GET", Path: "/", Handle: func(c Call) {
		which, number, hangsUp := strings.Cut(c.Header(outcomeHeader), "/")
		n, _ := strconv.Atoi(which)
		for part := range strings.SplitSeq(c.Header(spendHeader), ",") {
			if units, err := strconv.ParseInt(part, 10, 64); err == nil {
				if err := c.Spend(units); err != nil {
					e.Errorf("%s: Spend(%d): %v", outcomes[n].name, units, err)
				}
			}
		}
		if hangsUp {
			known, _ := gates.Load(number)
			g := known.(gate)
			close(g.entered)
			if e.differs.Blind {
				<-g.left
			} else {
				<-c.Context().Done()
			}
		}
		outcomes[n].handle(c)
	}}}})
	base := s.server.Listen(e)
	e.warm(base)
	before := runtime.NumGoroutine()
	var mu sync.Mutex
	expected := make([]use, clients)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			client := e.client()
			defer client.CloseIdleConnections()
			random := rand.New(rand.NewPCG(uint64(w), uint64(requests)))
			for n := range requests / workers {
				which, of := random.IntN(len(outcomes)), random.IntN(clients)
				o := &outcomes[which]
				if o.hangsUp && n%4 != 0 { // they are slow
					which, o = 0, &outcomes[0]
				}
				var spent []int64
				var parts []string
				for range random.IntN(4) {
					units := random.Int64N(3 * estimated)
					spent, parts = append(spent, units), append(parts, strconv.FormatInt(units, 10))
				}
				r, err := http.NewRequestWithContext(e.Context(), "GET", base+"/", http.NoBody)
				if err != nil {
					e.Error(err)
					return
				}
				r.Header.Set(outcomeHeader, strconv.Itoa(which))
				r.Header.Set(clientHeader, strconv.Itoa(of))
				r.Header.Set(spendHeader, strings.Join(parts, ","))
				if o.deadline > 0 {
					r.Header.Set(DeadlineHeader, o.deadline.String())
				}
				if o.hangsUp {
					e.hangUp(client, r, &gates, fmt.Sprint(w, "-", n))
				} else if res, err := client.Do(r); err != nil {
					e.Errorf("%s: %v", o.name, err)
				} else {
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
					check.Equal(e, o.name+": status", res.StatusCode, o.status)
				}
				mu.Lock()
				expected[of].add(o, o.hangsUp && !e.differs.Blind, spent)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for of, want := range expected {
		key := keyfuncs.Encode("header."+strings.ToLower(clientHeader), strconv.Itoa(of))
		var got use
		e.eventually(fmt.Sprintf("client %d is charged %+v", of, want), func() bool {
			// Some servers settle after the client has the response.
			must.OK(e, limiter.Drain(e.Context()))
			d := must.Get(limiter.Peek(e.Context(), key, 0))(e)
			var used [6]int64
			for i, r := range d.Results() {
				used[i] = r.Rule.Burst - r.Remaining
			}
			got = use{used[0], used[1], used[2], used[3], used[4], used[5]}
			return got == want
		}, func() any { return got })
	}
	e.eventually("no goroutine is left", func() bool { return runtime.NumGoroutine() <= before }, func() any {
		return fmt.Sprintf("%d, %d before", runtime.NumGoroutine(), before)
	})
}

// unhurried returns f for outcomes whose Waited is set to 0. On a busy machine a write can
// take as long as if the client had held it up, and then the client would be charged. The
// hang-up scenarios test that with clients that do.
func unhurried(f func(core.Outcome) bool) func(core.Outcome) bool {
	return func(o core.Outcome) bool {
		o.Waited = 0
		return f(o)
	}
}

// warm sends a request that has nothing to settle, so that the server starts the
// goroutines that it keeps.
func (e *env) warm(base string) {
	e.Helper()
	client := e.client()
	defer client.CloseIdleConnections()
	e.fetch(client, "GET", base+"/nowhere")
}

// hangUp sends a request and hangs up once the handler runs.
func (e *env) hangUp(client *http.Client, r *http.Request, gates *sync.Map, number string) {
	g := gate{make(chan struct{}), make(chan struct{})}
	gates.Store(number, g)
	defer gates.Delete(number)
	ctx, hangUp := context.WithCancel(r.Context())
	r.Header.Set(outcomeHeader, r.Header.Get(outcomeHeader)+"/"+number)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if res, err := client.Do(r.WithContext(ctx)); err == nil {
			_ = res.Body.Close()
			e.Error("a client that hung up got a response")
		}
	}()
	select {
	case <-g.entered:
	case <-time.After(patience):
		e.Error("a request did not reach its handler")
	}
	hangUp()
	<-done
	close(g.left)
}

// eventually waits until done reports true. After patience it fails the test with got.
func (e *env) eventually(what string, done func() bool, got func() any) {
	e.Helper()
	for start := time.Now(); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > patience {
			e.Errorf("%s: it is %+v", what, got())
			return
		}
	}
}
