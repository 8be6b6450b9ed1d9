package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/breaker"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
	"github.com/weblimit/weblimit/internal/test/wait"
)

// storeUnder returns a store, the node behind it, and the rule of its tests.
func storeUnder(t *testing.T, o ordeal, quota int64) (*Store, *node, *core.Rule) {
	t.Helper()
	s := New(redistest.Shared(t).Client(t), Config{Prefix: redistest.Prefix(t), DenialCache: DenialCache{Disabled: true}})
	s.OnEvent(func(core.Event) {})
	rule := mustRule(core.Per(quota, 30*24*time.Hour).FixedWindow().Named("queue"))
	return s, s.undergo(o), &rule
}

func takeOne(ctx context.Context, s *Store, key string, rule *core.Rule) (core.Result, error) {
	var results [1]core.Result
	err := s.Take(ctx, []core.Check{{Key: []byte(key), Rule: rule, Cost: 1}}, results[:])
	return results[0], err
}

// quiet waits until no job is in flight, and fails the test if some still wait.
func (n *node) quiet(t *testing.T) {
	t.Helper()
	wait.Until(t, "nothing is in flight", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.inFlight == 0
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.queue) != 0 {
		t.Errorf("nothing is in flight, and %d jobs wait", len(n.queue))
	}
}

// classIs reports whether err is a store.Error of the class.
func classIs(err error, class store.Class) bool {
	var e *store.Error
	return errors.As(err, &e) && e.Class == class
}

// endsAt is a context as a Limiter makes it: nothing but time ends it.
type endsAt struct {
	context.Context
	at time.Time
}

func (c endsAt) Deadline() (time.Time, bool) { return c.at, true }
func (c endsAt) Ends() time.Time             { return c.at }
func (c endsAt) Err() error {
	if time.Now().Before(c.at) {
		return nil
	}
	return context.DeadlineExceeded
}

// slack is how late a call may return on a busy machine.
const slack = 30 * time.Second

// The queue survives everything at once: hot keys, deadlines that are over, clients that
// hang up, and round trips that stall, fail before Redis has decided, or lose its answer.
func TestQueueUnderEverythingAtOnce(t *testing.T) {
	t.Parallel()
	for _, apart := range []bool{false, true} {
		name := "one slot"
		if apart {
			name = "many slots"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := hammer{quota: 400}
			h.run(t, apart)
		})
	}
}

const (
	hammerKeys    = 6
	hammerWorkers = 64
)

// hammer is one run of the test above.
type hammer struct {
	quota int64
	lost  atomic.Int64 // round trips whose answer was lost
	calm  atomic.Bool  // nothing goes wrong any more

	calls, failed atomic.Int64
	worst         atomic.Int64 // how late a call returned after its deadline, at most, in nanoseconds

	mu      sync.Mutex
	answers map[string]map[int64]int // by key and Remaining, how many answers said that they were charged. Guarded by mu.
}

func (h *hammer) run(t *testing.T, apart bool) {
	h.answers = map[string]map[int64]int{}
	s, n, rule := storeUnder(t, ordeal{before: h.before, after: h.after}, h.quota)
	s.BeAsPatientAsUsual() // or its own calls would make the usual time a long one, of which late requests have half
	if apart {
		s.route = &unknownRoute{singleRoute{n}} // each slot is a call, all on one node
	}
	rounds := long.Rounds(150, 15_000)
	var all sync.WaitGroup
	for worker := range hammerWorkers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 7))
			for range rounds {
				h.call(t, s, rule, random)
			}
		})
	}
	all.Wait()
	n.quiet(t)
	h.checkJobs(t)
	h.checkAnswers(t, s, n, rule)
	t.Logf("%d calls, %d without an answer, the latest %v after its deadline", h.calls.Load(), h.failed.Load(), time.Duration(h.worst.Load()))
}

// before delays many round trips for a moment, some until their deadline, and fails some.
// Now and then it fails so many in a row that the breaker opens.
func (h *hammer) before(ctx context.Context) error {
	switch n := rand.IntN(1000); {
	case h.calm.Load():
	case n < 10:
		<-ctx.Done()
		return ctx.Err()
	case n < 40 || h.calls.Load()%5000 > 4900:
		return io.EOF
	case n < 200:
		time.Sleep(rand.N(3 * time.Millisecond)) // Redis is slow
	}
	return nil
}

func (h *hammer) after(context.Context) error {
	if rand.IntN(100) == 0 && !h.calm.Load() {
		h.lost.Add(1)
		return io.ErrUnexpectedEOF
	}
	return nil
}

// call makes one call to the store.
func (h *hammer) call(t *testing.T, s *Store, rule *core.Rule, random *rand.Rand) {
	key := fmt.Sprint("key", random.IntN(hammerKeys))
	checks := []core.Check{{Key: []byte(key), Rule: rule, Cost: 1}}
	op := s.Take
	switch random.IntN(8) {
	case 0:
		op = s.Peek
	case 1: // two keys, one of which may be charged and given back
		checks[0].Key = append(checks[0].Key, " of two"...)
		checks = append(checks, core.Check{Key: []byte("other of two"), Rule: rule, Cost: 2})
	}
	ctx, cancel, left := hammerContext(random)
	defer cancel()
	results := make([]core.Result, len(checks))
	start := time.Now()
	err := op(ctx, checks, results)
	late := time.Since(start) - max(left, 0)
	h.calls.Add(1)
	for worst := h.worst.Load(); int64(late) > worst; worst = h.worst.Load() {
		if h.worst.CompareAndSwap(worst, int64(late)) {
			break
		}
	}
	if late > slack {
		t.Errorf("a call with %v left returned %v after its deadline", left, late)
	}
	if err != nil {
		h.failed.Add(1)
		if !errors.As(err, new(*store.Error)) {
			t.Errorf("an error without a class: %v", err)
		}
		if classIs(err, store.ClassOpen) {
			time.Sleep(rand.N(100 * time.Millisecond)) // or most calls would find the breaker open
		}
		return
	}
	if len(checks) == 1 && results[0].Charged {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.answers[key] == nil {
			h.answers[key] = map[int64]int{}
		}
		h.answers[key][results[0].Remaining]++
	}
}

// hammerContext returns a context with some time, little, or none, or one that is
// canceled while the call is under way.
func hammerContext(random *rand.Rand) (context.Context, context.CancelFunc, time.Duration) {
	left := time.Duration(random.Int64N(int64(60 * time.Millisecond)))
	switch random.IntN(12) {
	case 0:
		left = -time.Millisecond
	case 1:
		left = time.Duration(random.Int64N(int64(time.Millisecond)))
	case 2:
		ctx, cancel := context.WithTimeout(context.Background(), left)
		time.AfterFunc(time.Duration(random.Int64N(int64(2*time.Millisecond))), cancel)
		return ctx, cancel, left
	case 3, 4:
		ctx, cancel := context.WithTimeout(context.Background(), left)
		return ctx, cancel, left
	}
	return endsAt{context.Background(), time.Now().Add(left)}, func() {}, left
}

// checkJobs checks the jobs in the pool. If one had an unread signal, its next owner would
// take that for its own.
func (h *hammer) checkJobs(t *testing.T) {
	t.Helper()
	for range 100 {
		if p := jobs.Get().(*job); len(p.signal) != 0 || p.state.Load() != int32(idle) || p.batch != nil {
			t.Errorf("a job was given back in state %d with %d answers", p.state.Load(), len(p.signal))
		}
	}
}

// checkAnswers compares what callers were told with what Redis has counted.
func (h *hammer) checkAnswers(t *testing.T, s *Store, n *node, rule *core.Rule) {
	t.Helper()
	h.calm.Store(true)
	var charged, answered int64
	for i := range hammerKeys {
		key := fmt.Sprint("key", i)
		var r core.Result
		wait.Until(t, "there is an answer", func() bool { // which may take a probe
			var results [1]core.Result
			ctx := endsAt{context.Background(), time.Now().Add(10 * time.Second)}
			err := s.Peek(ctx, []core.Check{{Key: []byte(key), Rule: rule, Cost: 1}}, results[:])
			r = results[0]
			return err == nil
		})
		charged += h.quota - r.Remaining
		for remaining, times := range h.answers[key] {
			answered += int64(times)
			if times != 1 || remaining < r.Remaining || remaining >= h.quota {
				t.Errorf("%s: %d callers were told that %d remain, where %d do now", key, times, remaining, r.Remaining)
			}
		}
	}
	if answered > charged {
		t.Errorf("%d answers said that they were charged, Redis charged %d", answered, charged)
	}
	n.quiet(t)
	t.Logf("%d charged, %d told so, %d round trips lost their answer", charged, answered, h.lost.Load())
}

// gate holds round trips until it opens.
type gate struct {
	reached atomic.Int64
	open    chan struct{}
	err     error // for round trips that pass
}

func newGate(err error) *gate { return &gate{open: make(chan struct{}), err: err} }

func (g *gate) pass(context.Context) error {
	g.reached.Add(1)
	<-g.open
	return g.err
}

func TestAFullQueueFailsAtOnce(t *testing.T) {
	t.Parallel()
	g := newGate(nil)
	s, n, rule := storeUnder(t, ordeal{before: g.pass}, maxQueued*2)
	ctx := endsAt{context.Background(), time.Now().Add(time.Hour)}
	checks := []core.Check{{Key: []byte("k"), Rule: rule, Cost: 1}}
	waiting := make([]*job, maxInFlight+maxQueued)
	for i := range waiting {
		waiting[i] = s.sealAll(s.jobsFor(nil, take, checks, nil))[0]
		waiting[i].canLead = false
		if err := n.start(ctx, waiting[i:i+1]); err != nil {
			t.Fatalf("job %d: %v", i, err)
		}
	}
	start := time.Now()
	_, err := takeOne(ctx, s, "k", rule)
	if took := time.Since(start); !classIs(err, store.ClassOverload) || took > slack {
		t.Errorf("one more than fits: %v after %v, want %q at once", err, took, store.ClassOverload)
	}
	close(g.open)
	seen := map[int64]bool{}
	for i, p := range waiting {
		if err := n.wait(ctx, p); err != nil {
			t.Fatalf("job %d: %v", i, err)
		}
		var results [1]core.Result
		if err := p.readAnswer(checks, results[:]); err != nil || !results[0].Charged || seen[results[0].Remaining] {
			t.Fatalf("job %d: %+v, %v, want an answer of its own", i, results[0], err)
		}
		seen[results[0].Remaining] = true
	}
	n.quiet(t)
	trips := g.reached.Load() // twice if Redis has forgotten the script
	if most := int64(2 * (maxInFlight + maxQueued/maxJobs)); trips > most {
		t.Errorf("%d jobs took %d round trips, want at most %d", len(waiting), trips, most)
	}
	t.Logf("%d jobs were decided in %d round trips", len(waiting), trips)
}

func TestABreakerThatOpensFailsJobsInTheQueue(t *testing.T) {
	t.Parallel()
	const waiters = 3000 // more than five batches take along
	g := newGate(io.EOF)
	s, n, rule := storeUnder(t, ordeal{before: g.pass}, waiters)
	ctx := endsAt{context.Background(), time.Now().Add(time.Hour)}
	var all sync.WaitGroup
	classes := map[store.Class]int{}
	var mu sync.Mutex
	for range waiters {
		all.Go(func() {
			_, err := takeOne(ctx, s, "k", rule)
			mu.Lock()
			defer mu.Unlock()
			classes[classOf(err)]++
		})
	}
	wait.Until(t, "all wait", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.inFlight+len(n.queue) == waiters
	})
	close(g.open)
	start := time.Now()
	all.Wait()
	if classes[store.ClassConnection]+classes[store.ClassOpen] != waiters {
		t.Errorf("errors by class: %v", classes)
	}
	// Each round trip under way when it opens may begin another one before it notices.
	if most := int64(breaker.Failures + 3*maxInFlight); g.reached.Load() > most {
		t.Errorf("%d round trips were made to a node that fails, want at most %d", g.reached.Load(), most)
	}
	if !n.breaker.IsOpen() {
		t.Error("the breaker is closed")
	}
	n.quiet(t)
	t.Logf("%d checks failed in %v and %d round trips: %v", waiters, time.Since(start), g.reached.Load(), classes)
}

// A client that hangs up must not affect the other requests of its round trip, nor open
// the breaker.
func TestAClientThatHangsUpHarmsNobody(t *testing.T) {
	t.Parallel()
	s, n, rule := storeUnder(t, ordeal{}, 1000)
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	over, cancel := context.WithTimeout(context.Background(), -time.Second)
	defer cancel()
	checks := []core.Check{{Key: []byte("a"), Rule: rule, Cost: 1}, {Key: []byte("b"), Rule: rule, Cost: 1}}
	for range 4 * breaker.Failures {
		for _, ctx := range []context.Context{gone, over} {
			_, _ = takeOne(ctx, s, "a", rule)
			s.route = &unknownRoute{singleRoute{n}}
			_ = s.Take(ctx, checks, make([]core.Result, 2))
			_ = s.Peek(ctx, checks, make([]core.Result, 2))
			s.cleanup.wait(context.Background()) // it uses the route, too
			s.route = &singleRoute{n}
		}
		n.quiet(t)
	}
	if n.breaker.IsOpen() {
		t.Errorf("the breaker is open: %v", n.breaker.Cause())
	}
	if _, err := takeOne(endsAt{context.Background(), time.Now().Add(time.Minute)}, s, "c", rule); err != nil {
		t.Error(err)
	}
}

// The client of the request that runs a batch hangs up while the round trip is under way.
func TestABatchOutlivesItsLeadersClient(t *testing.T) {
	t.Parallel()
	g := newGate(nil)
	canceled := false
	s, n, rule := storeUnder(t, ordeal{before: func(ctx context.Context) error {
		err := g.pass(ctx)
		canceled = canceled || ctx.Err() != nil
		return err
	}}, 1000)
	n.connected.Store(true) // so that the request makes the round trip itself
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	done := make(chan error)
	go func() {
		_, err := takeOne(ctx, s, "k", rule)
		done <- err
	}()
	wait.Until(t, "there is a round trip", func() bool { return g.reached.Load() == 1 })
	cancel()
	close(g.open)
	if err := <-done; err != nil || canceled {
		t.Errorf("error %v, the round trip was canceled: %v", err, canceled)
	}
}

// Checks with hardly any time left say nothing about the node, and do not shorten the
// time of a probe.
func TestShortDeadlinesNeitherOpenABreakerNorKeepItOpen(t *testing.T) {
	t.Parallel()
	s, n, rule := storeUnder(t, ordeal{before: func(context.Context) error {
		time.Sleep(3 * time.Millisecond) // Redis is slower than the deadlines below
		return nil
	}}, 1000)
	within := func(d time.Duration) error {
		_, err := takeOne(endsAt{context.Background(), time.Now().Add(d)}, s, "k", rule)
		return err
	}
	must.OK(t, within(time.Minute))
	for range 2 * breaker.Failures {
		_ = within(time.Millisecond) // it fails, unless this machine is slower than the node
	}
	n.quiet(t)
	if n.breaker.IsOpen() {
		t.Error("the breaker is open")
	}
	n.typicalTimeout.Store(int64(time.Millisecond)) // as after many checks with short deadlines
	for range breaker.Failures {
		n.fail(n.storeError(store.ClassTimeout, io.EOF), "k")
	}
	if !n.breaker.IsOpen() {
		t.Fatal("the breaker is closed")
	}
	wait.Until(t, "a probe closes it", func() bool { return within(time.Minute) == nil })
}

// go-redis's TLS dialer keeps to DialTimeout and to no deadline. Neither a request nor
// those behind it may wait for it.
func TestAHandshakeThatHangsHoldsNobodyPastTheDeadline(t *testing.T) {
	t.Parallel()
	silent := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = silent.Close() }()
	client := redis.NewClient(&redis.Options{
		Addr:        silent.Addr().String(),
		DialTimeout: time.Minute,
		TLSConfig:   &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}, //nolint:gosec // nobody shakes hands
	})
	defer func() { _ = client.Close() }()
	s := New(client)
	s.OnEvent(func(core.Event) {})
	rule := mustRule(core.PerHour(10).Named("queue"))
	const deadline = 50 * time.Millisecond
	var worst time.Duration
	opened := 0
	for opened = 1; opened <= 100 && !s.route.(*singleRoute).only.breaker.IsOpen(); opened++ {
		start := time.Now()
		_, err := takeOne(endsAt{context.Background(), start.Add(deadline)}, s, "k", &rule)
		if classIs(err, store.ClassOpen) { // by a call in the background, since the loop has looked
			break
		}
		if !classIs(err, store.ClassTimeout) {
			t.Errorf("got %v, want a time-out", err)
		}
		worst = max(worst, time.Since(start))
	}
	if worst > deadline+slack {
		t.Errorf("a check took %v, its deadline was after %v", worst, deadline)
	}
	if opened > 3*breaker.Failures {
		t.Errorf("the breaker opened after %d checks", opened)
	}
	t.Logf("the slowest check took %v, the breaker opened after %d", worst, opened)
}

// When a call returns, its context is the caller's again, and the background must not
// use it.
func TestWhatIsGivenBackLaterHasAContextOfItsOwn(t *testing.T) {
	t.Parallel()
	asked := make(chan any, 10)
	var slow atomic.Bool
	s, n, rule := storeUnder(t, ordeal{before: func(ctx context.Context) error {
		if slow.Load() {
			asked <- ctx.Value(ownerKey{})
		}
		return nil
	}}, 10)
	s.route = &unknownRoute{singleRoute{n}}
	checks := []core.Check{{Key: []byte("a"), Rule: rule, Cost: 1}, {Key: []byte("b"), Rule: rule, Cost: 1}}
	results := make([]core.Result, 2)
	ctx := context.WithValue(context.Background(), ownerKey{}, "the caller's")
	if err := s.Take(ctx, checks, results); err != nil || !results[0].Charged {
		t.Fatalf("%+v, %v", results, err)
	}
	slow.Store(true)
	over, cancel := context.WithTimeout(ctx, -time.Second)
	defer cancel()
	r := newMultiSlot(s.jobsFor(nil, take, checks, nil), checks)
	for i := range r.groups {
		r.groups[i].state = slotGranted
		r.groups[i].results[0] = results[r.which[i]]
	}
	must.OK(t, s.giveBack(over, r))
	if got := <-asked; got != nil {
		t.Errorf("the background saw %v in its context", got)
	}
	slow.Store(false)
	wait.Until(t, "the units are back", func() bool {
		err := s.Peek(context.Background(), checks, results)
		return err == nil && results[0].Remaining == 10 && results[1].Remaining == 10
	})
}

type ownerKey struct{}
