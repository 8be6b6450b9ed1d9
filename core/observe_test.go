package core_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/adapter"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// observed is what a recorder keeps of an observation.
type observed struct {
	decision      core.Decision
	adapter       string
	method, route string
	check, wait   time.Duration
	start, end    time.Time
	keys          []string
	costs         []int64
	binding       int // -1 if there is none
	limit, log    string
	seen          any // the context's tag
}

// recorder is an observer that keeps what it hears.
type recorder struct {
	mu          sync.Mutex
	limiters    []*core.Limiter   // Guarded by mu.
	decisions   []observed        // Guarded by mu.
	settlements []core.Settlement // Guarded by mu.
	events      []store.EventKind // Guarded by mu.
}

func (r *recorder) Attached(l *core.Limiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limiters = append(r.limiters, l)
}

func (r *recorder) Decided(ctx context.Context, o *core.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := observed{
		decision: *o.Decision, adapter: o.Adapter, method: o.Method, route: o.Route(), check: o.CheckTime, wait: o.WaitTime,
		start: o.CheckStart, end: o.CheckEnd,
		binding: -1, limit: o.Limit(), log: o.LogValue().String(), seen: ctx.Value(tag{}),
	}
	if i, ok := o.Binding(); ok {
		kept.binding = i
	}
	for i := range o.Decision.Results() {
		kept.keys, kept.costs = append(kept.keys, string(o.Key(i))), append(kept.costs, o.Cost(i))
	}
	r.decisions = append(r.decisions, kept)
}

func (r *recorder) Settled(s core.Settlement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settlements = append(r.settlements, s)
}

func (r *recorder) StoreEvent(e core.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e.Kind)
}

// units returns what has been settled, in order.
func (r *recorder) units() (all []int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.settlements {
		all = append(all, s.Units)
	}
	return all
}

// Each way out of a decision is observed once, as it is final.
func TestEachDecisionIsObservedOnce(t *testing.T) {
	t.Parallel()
	byHeader := core.PerHour(5).By(keyfuncs.Header("X-Tenant")).Named("tenant")
	none := core.PerHour(1).By(keyfuncs.ClientIP()).Named("none")
	alice := &request{ctx: context.WithValue(context.Background(), tag{}, "alice"), method: "POST", route: "/pay", peer: "192.0.2.7"}
	post := func(l *core.Limiter) core.Decision { return l.Allow(alice) }
	two := func(l *core.Limiter) core.Decision { l.Allow(alice); return l.Allow(alice) }
	key := func(l *core.Limiter) core.Decision {
		return l.AllowKey(context.WithValue(context.Background(), tag{}, "alice"), "user:alice", 2)
	}
	cached := core.Result{Cached: true, RetryAfter: time.Second, Window: time.Second}
	for _, tt := range []struct {
		name   string
		store  core.Store // in memory, if nil
		limits []core.Limit
		with   core.Config
		decide func(*core.Limiter) core.Decision
		reason core.Reason
		keys   []string
		calls  int // of decide
		limit  string
	}{
		{"a request", nil, []core.Limit{none}, core.Config{}, post, core.ReasonWithinLimit, []string{"ip:192.0.2.7"}, 1, "none"},
		{"a request of several limits", nil, []core.Limit{none, everyone(5)}, core.Config{}, post, core.ReasonWithinLimit, []string{"ip:192.0.2.7", "all"}, 1, "none"},
		{"a request that no limit applies to", nil, []core.Limit{none.When(keyfuncs.Methods("GET"))}, core.Config{}, post, core.ReasonWithinLimit, nil, 1, ""},
		{"a denial", nil, []core.Limit{none}, core.Config{}, two, core.ReasonLimitExceeded, []string{"ip:192.0.2.7"}, 2, "none"},
		{"a denial by a store that was not asked", newScripted(cached), []core.Limit{none}, core.Config{}, post, core.ReasonCachedDenial, []string{"ip:192.0.2.7"}, 1, "none"},
		{"a block", nil, []core.Limit{none.Penalty(core.Block{After: 1, Within: time.Hour, For: time.Hour})}, core.Config{}, two, core.ReasonBlocked, []string{"ip:192.0.2.7"}, 2, "none"},
		{"a key", nil, []core.Limit{none.Burst(2)}, core.Config{}, key, core.ReasonWithinLimit, []string{"user:alice"}, 1, "none"},
		{"a key of several limits", nil, []core.Limit{none.Burst(2), everyone(5)}, core.Config{}, key, core.ReasonWithinLimit, []string{"user:alice", "user:alice"}, 1, "none"},
		{"a key at a negative cost", nil, []core.Limit{none}, core.Config{}, func(l *core.Limiter) core.Decision {
			return l.AllowKey(context.WithValue(context.Background(), tag{}, "alice"), "user:alice", -1)
		}, core.ReasonInvalidCost, nil, 1, ""},
		{"a request at a negative cost", nil, []core.Limit{none.CostBy(func(keyfuncs.Request) int64 { return -1 })}, core.Config{}, post, core.ReasonInvalidCost, []string{""}, 1, "none"},
		{"a cost that never fits", nil, []core.Limit{none.CostBy(func(keyfuncs.Request) int64 { return 1 << 40 })}, core.Config{}, post, core.ReasonNeverFits, []string{"ip:192.0.2.7"}, 1, "none"},
		{"a missing key", nil, []core.Limit{none, byHeader.OnMissingKey(core.DenyRequest)}, core.Config{}, post, core.ReasonMissingKey, []string{""}, 1, "tenant"},
		{"a missing key that shares", nil, []core.Limit{byHeader}, core.Config{}, post, core.ReasonWithinLimit, []string{""}, 1, "tenant"},
		{"an ambiguous key", nil, []core.Limit{none, byHeader}, core.Config{}, func(l *core.Limiter) core.Decision {
			r := twice("X-Tenant")
			r.ctx, r.method, r.route = alice.ctx, alice.method, alice.route
			return l.Allow(r)
		}, core.ReasonAmbiguousKey, []string{""}, 1, "tenant"},
		{"a bypass", nil, []core.Limit{none}, core.Config{Bypass: []keyfuncs.Condition{keyfuncs.FromCIDR("192.0.2.0/24")}}, post, core.ReasonBypassed, nil, 1, ""},
		{"a denial in shadow mode", nil, []core.Limit{none.Shadow()}, core.Config{}, two, core.ReasonShadowed, []string{"ip:192.0.2.7"}, 2, ""},
		{"an outage that allows", newFlaky(true), []core.Limit{none.OnOutage(core.Allow)}, core.Config{}, post, core.ReasonOutageAllowed, nil, 1, "none"},
		{"an outage that denies", newFlaky(true), []core.Limit{none.OnOutage(core.Deny)}, core.Config{}, post, core.ReasonOutageDenied, nil, 1, "none"},
		{"an outage with a share", newFlaky(true), []core.Limit{core.PerHour(10).By(keyfuncs.ClientIP())}, core.Config{Replicas: 5}, post, core.ReasonOutageLocal, []string{"ip:192.0.2.7"}, 1, "default"},
		{"an outage with a second store", newFlaky(true), []core.Limit{none}, core.Config{Fallback: core.Fallback{Store: core.NewMemory()}}, post, core.ReasonOutageLocal, []string{"ip:192.0.2.7"}, 1, "none"},
		{"an outage with other limits", newFlaky(true), []core.Limit{none}, core.Config{Fallback: core.Fallback{Limits: []core.Limit{everyone(1)}}}, post, core.ReasonOutageLocal, []string{"all"}, 1, "default"},
		{"an outage with other limits that refuse", newFlaky(true), []core.Limit{none}, core.Config{Fallback: core.Fallback{Limits: []core.Limit{byHeader.OnMissingKey(core.DenyRequest)}}}, post, core.ReasonMissingKey, []string{""}, 1, "tenant"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			seen := new(recorder)
			config := tt.with
			config.Store, config.Limits, config.Observe = tt.store, tt.limits, seen
			if config.Store == nil {
				config.Store = core.NewMemory()
			}
			l := newLimiter(t, config)
			d := tt.decide(l)
			must.Equal(t, "decisions observed", len(seen.decisions), tt.calls)
			o := seen.decisions[tt.calls-1]
			if d.Reason != tt.reason || o.decision.Reason != d.Reason || o.decision.Allowed != d.Allowed || o.decision.RetryAfter != d.RetryAfter || !errors.Is(o.decision.Err, d.Err) {
				t.Errorf("observed %v, decided %v, want %v", o.decision.Reason, d.Reason, tt.reason)
			}
			check.Slices(t, "keys", o.keys, tt.keys)
			check.Slices(t, "results", o.decision.Results(), d.Results())
			if byKey := strings.HasPrefix(tt.name, "a key"); byKey != (o.method == "") || byKey != (o.route == "") || o.method != "" && (o.method != "POST" || o.route != "/pay") {
				t.Errorf("observed method %q and route %q", o.method, o.route)
			}
			check.All(t, "user, adapter and wait", []any{o.seen, o.adapter, o.wait}, "alice", "", time.Duration(0))
			if o.limit != tt.limit || strings.Contains(o.log, " limit="+tt.limit+" ") != (tt.limit != "") {
				t.Errorf("observed the limit %q, logged %s, want %q", o.limit, o.log, tt.limit)
			}
			if binding, ok := d.Binding(); ok != (o.binding >= 0) || ok && (d.Results()[o.binding] != binding || o.limit != binding.Rule.Name) {
				t.Errorf("observed result %d as binding, decided %+v", o.binding, binding)
			}
			for _, key := range o.keys {
				if strings.Contains(key, ":") && strings.Contains(o.log, key) {
					t.Errorf("the key is in the log: %s", o.log)
				}
			}
			asked := tt.reason != core.ReasonBypassed && tt.reason != core.ReasonInvalidCost && tt.reason != core.ReasonAmbiguousKey && tt.keys != nil && (tt.keys[0] != "" || tt.reason == core.ReasonWithinLimit)
			if asked && o.check == 0 {
				t.Error("the store was asked, and took no time")
			}
			if _, err := l.Peek(t.Context(), "user:bob", 1); len(seen.decisions) != tt.calls {
				t.Errorf("Peek is observed, or fails: %v", err)
			}
		})
	}
}

func TestDecisionsThatWaitAreObservedOnceFinal(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		seen := new(recorder)
		l := newLimiter(t, core.Config{Store: core.NewMemory(), Observe: seen, MaxWaiting: 1, Limits: []core.Limit{
			forAll(core.PerSecond(1).LeakyBucket(10 * time.Second)),
		}})
		l.AllowKey(t.Context(), "k", 1)
		ctx, hangUp := context.WithCancel(t.Context())
		go l.AllowKey(ctx, "k", 1) // waits until it is canceled
		synctest.Wait()
		must.Equal(t, "decisions observed while the second waits", len(seen.decisions), 1)
		l.AllowKey(t.Context(), "k", 1) // finds no place
		time.Sleep(400 * time.Millisecond)
		hangUp()
		synctest.Wait()
		l.AllowKey(t.Context(), "k", 1) // waits
		for i, want := range []struct {
			reason core.Reason
			waited time.Duration
		}{
			{core.ReasonWithinLimit, 0},
			{core.ReasonLimitExceeded, 0},
			{core.ReasonCanceled, 400 * time.Millisecond},
			{core.ReasonDelayed, 600 * time.Millisecond},
		} {
			o := seen.decisions[i]
			check.All(t, fmt.Sprint("decision ", i), []any{o.decision.Reason, o.wait, o.keys}, want.reason, want.waited, "[k]")
		}
		check.Equal(t, "decisions observed", len(seen.decisions), 4)
		if units := seen.units(); units != nil {
			t.Errorf("settled %v: what a canceled request gives back is not observed", units)
		}
	})
}

// A decision that asks the store again and again is one decision.
func TestPollingIsObservedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		seen := new(recorder)
		l := newLimiter(t, core.Config{Store: core.NewMemory(), Observe: seen, Limits: []core.Limit{forAll(core.Concurrent(1).Wait(time.Minute))}})
		first := l.AllowKey(t.Context(), "k", 1)
		time.AfterFunc(10*time.Second, func() { first.Settle(core.Outcome{}) })
		second := l.AllowKey(t.Context(), "k", 1)
		if len(seen.decisions) != 2 || seen.decisions[1].decision.Reason != core.ReasonDelayed || seen.decisions[1].wait != 10*time.Second {
			t.Errorf("observed %+v", seen.decisions)
		}
		second.Settle(core.Outcome{})
		check.Slices(t, "settled, a slot of each", seen.units(), []int64{-1, -1})
	})
}

func TestSettlementsAreObserved(t *testing.T) {
	t.Parallel()
	gone := func(o core.Outcome) bool { return o.Canceled }
	for name, store := range map[string]core.Store{"memory": core.NewMemory(), "another store": newFlaky(false)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := new(recorder)
			l := newLimiter(t, core.Config{Store: store, Observe: seen, Limits: []core.Limit{
				core.PerDay(100).By(keyfuncs.ClientIP()).Named("tokens").Estimate(10).RefundOn(gone),
				core.PerDay(100).By(keyfuncs.ClientIP()).Named("plain"),
				core.PerDay(100).By(keyfuncs.ClientIP()).Named("trial").Shadow().RefundOn(gone),
			}})
			for _, o := range []core.Outcome{{}, {Canceled: true}} {
				d := l.Allow(&request{peer: "192.0.2.7"})
				must.OK(t, core.Spend(core.NewContext(t.Context(), d), 3))
				d.Settle(o)
				drained(t, l)
			}
			want := []core.Settlement{ // of the second, 3 of 10 stay, and nothing of the trial
				{Units: -7}, {Units: -7}, {Units: -1, Shadow: true},
			}
			must.Equal(t, "settlements", len(seen.settlements), len(want))
			for i, s := range seen.settlements {
				name := map[bool]string{false: "tokens", true: "trial"}[s.Shadow]
				check.All(t, fmt.Sprint("settlement ", i), []any{s.Units, s.Shadow, s.Rule.Name, string(s.Key()), s.Err}, want[i].Units, want[i].Shadow, name, "ip:192.0.2.7", nil)
			}
		})
	}
}

// shown is an observer that prints all it hears, as whoever looks for a fault does.
type shown struct {
	core.NopObserver
	out bytes.Buffer
}

func (s *shown) print(heard any) {
	fmt.Fprintf(&s.out, "%v %+v %#v\n", heard, heard, heard)
	slog.New(slog.NewTextHandler(&s.out, nil)).Info("", "heard", heard)
	slog.New(slog.NewJSONHandler(&s.out, nil)).Info("", "heard", heard)
}

func (s *shown) Decided(_ context.Context, o *core.Observation) {
	s.print(o)
	s.print(*o)
	s.print(o.Decision)
	s.print(*o.Decision)
}
func (s *shown) Settled(settled core.Settlement) { s.print(settled); s.print(&settled) }
func (s *shown) StoreEvent(e core.Event)         { s.print(e) }

// An observer that logs what it hears logs no keys: it has to ask for them.
func TestWhatIsPrintedOfAnObservationHasNoKey(t *testing.T) {
	t.Parallel()
	const key = "user:alice"
	store, seen := newFlaky(false), new(shown)
	l := newLimiter(t, core.Config{Store: store, Observe: seen, Limits: []core.Limit{
		core.PerHour(9).By(keyfuncs.Header("X-User")).Named("refunded").RefundOn(core.Canceled), everyone(9),
	}})
	for _, down := range []bool{false, true} {
		store.down.Store(down)
		d := l.AllowKey(t.Context(), key, 1)
		d.Settle(core.Outcome{Canceled: true})
		drained(t, l)
	}
	for _, written := range []string{key, fmt.Sprintf("%v", []byte(key)), fmt.Sprintf("%#v", []byte(key))[len("[]byte"):]} {
		if strings.Contains(seen.out.String(), written) {
			t.Errorf("the key was printed, as %s:\n%s", written, seen.out.String())
		}
	}
}

func TestSettlementsThatTheStoreMayNotKnow(t *testing.T) {
	t.Parallel()
	store, seen, drained := newFlaky(false), new(recorder), make(chan struct{})
	store.asked = func(context.Context) {
		if store.down.Load() {
			<-drained
		}
	}
	l := newLimiter(t, core.Config{Store: store, Observe: seen, Limits: []core.Limit{forAll(core.PerDay(9)).Estimate(1)}})
	d := l.AllowKey(t.Context(), "k", 1)
	store.down.Store(true)
	must.OK(t, core.Spend(core.NewContext(t.Context(), d), 4))
	check.Equal(t, "Drain", fmt.Sprint(drainThen(t, l, func() { close(drained) })), "weblimit: settlements that were lost: 1")
	if len(seen.settlements) != 1 || seen.settlements[0].Units != 3 || !errors.Is(seen.settlements[0].Err, errDown) {
		t.Errorf("settled %+v, want one that failed", seen.settlements)
	}
}

// An observer is told of each limiter that has it, once and before the first decision.
func TestObserversKnowTheirLimiters(t *testing.T) {
	t.Parallel()
	store, one, other := core.NewMemory(), new(recorder), new(recorder)
	first := newLimiter(t, core.Config{Store: store, Limits: []core.Limit{everyone(1).Named("a")}, Observe: one})
	second := newLimiter(t, core.Config{Store: store, Limits: []core.Limit{everyone(1).Named("b")}, Observe: core.Observers(other, one)})
	check.Slices(t, "the limiters of one observer", one.limiters, []*core.Limiter{first, second})
	check.Slices(t, "the limiters of the other", other.limiters, []*core.Limiter{second})
}

// An observer hears of an event of the store once, however many limiters it has.
func TestStoreEventsAreObservedOnce(t *testing.T) {
	t.Parallel()
	tested, one, other := newFlaky(true), new(recorder), new(recorder)
	limiters := []*core.Limiter{
		newLimiter(t, core.Config{Store: tested, Limits: []core.Limit{everyone(1).Named("a")}, Observe: one}),
		newLimiter(t, core.Config{Store: struct{ core.Store }{tested}, Limits: []core.Limit{everyone(1).Named("b")}, Observe: core.Observers(one, nil, other)}),
		newLimiter(t, core.Config{Store: tested, Limits: []core.Limit{everyone(1).Named("c")}}),
	}
	for _, l := range limiters {
		l.AllowKey(t.Context(), "k", 1)
	}
	want := []store.EventKind{store.EventOutageBegan, store.EventStoreError}
	check.Slices(t, "heard by one", one.events, want)
	check.Slices(t, "heard by the other", other.events, want)
	check.Equal(t, "decisions of the two", [2]int{len(one.decisions), len(other.decisions)}, [2]int{2, 1})
}

// broken is an observer that panics, and is of a type that can't be compared.
type broken struct{ _ []int }

func (broken) Attached(*core.Limiter)                     { panic("no counter") }
func (broken) Decided(context.Context, *core.Observation) { panic("no counter") }
func (broken) Settled(core.Settlement)                    { panic("no counter") }
func (broken) StoreEvent(core.Event)                      { panic("no counter") }

// Not parallel: advice is the process's.
func TestAnObserverThatPanicsBreaksNothing(t *testing.T) {
	core.ResetAdvice()
	t.Cleanup(core.ResetAdvice)
	var log bytes.Buffer
	store, seen := newFlaky(false), new(recorder)
	l := newLimiter(t, core.Config{
		Store: store, Limits: []core.Limit{forAll(core.PerDay(9)).RefundOn(core.Canceled)},
		Observe: core.Observers(broken{}, core.Observers(seen)), Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	d := l.AllowKey(t.Context(), "k", 1)
	d.Settle(core.Outcome{Canceled: true})
	drained(t, l)
	store.down.Store(true)
	d = l.Allow(&request{})
	wantDecision(t, "with a broken observer", d, true, core.ReasonOutageLocal, 8)
	check.Equal(t, "decisions, settlements and events heard behind a broken observer", [3]int{len(seen.decisions), len(seen.settlements), len(seen.events)}, [3]int{2, 1, 2})
	if n := strings.Count(log.String(), "the observer core_test.broken panics: no counter"); n != 1 || !strings.Contains(log.String(), "code=WL009") {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
}

func TestAdaptersAreObservedByName(t *testing.T) {
	t.Parallel()
	seen := new(recorder)
	l := newLimiter(t, core.Config{Store: core.NewMemory(), Limits: []core.Limit{everyone(1)}, Observe: seen})
	adapter.New(l, "mine").Decide(&request{route: "?"}, new(adapter.Context), nil)
	o := seen.decisions[0]
	check.Equal(t, "adapter, method and route", [3]string{o.adapter, o.method, o.route}, [3]string{"mine", "GET", ""})
}

// What a trace shows as the store's part: from the first question to the last answer.
func TestWhenTheStoreWasAskedIsObserved(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		down   bool
		limit  core.Limit
		config core.Config
		decide func(l *core.Limiter)
		want   observed // of the last decision: check and wait
		until  time.Duration
	}{
		{
			name: "a decision", limit: core.PerHour(5),
			want: observed{check: 2 * time.Millisecond}, until: 2 * time.Millisecond,
		},
		{
			name: "an outage", limit: core.PerHour(5), down: true,
			want: observed{check: 2 * time.Millisecond}, until: 2 * time.Millisecond,
		},
		{
			name: "an outage that another store decides", limit: core.PerHour(5), down: true,
			config: core.Config{Fallback: core.Fallback{Store: newSlow(3*time.Millisecond, false)}},
			want:   observed{check: 5 * time.Millisecond}, until: 5 * time.Millisecond,
		},
		{
			name: "a request that waits after its decision", limit: core.PerSecond(1).LeakyBucket(time.Minute),
			decide: func(l *core.Limiter) { l.AllowKey(t.Context(), "k", 1) },
			want:   observed{check: 2 * time.Millisecond, wait: 998 * time.Millisecond}, until: 2 * time.Millisecond,
		},
		{
			name: "a request that asks until its turn", limit: core.Concurrent(1).Wait(time.Minute),
			decide: func(l *core.Limiter) {
				d := l.AllowKey(t.Context(), "k", 1)
				time.AfterFunc(5*time.Millisecond, func() { d.Settle(core.Outcome{}) })
			},
			want: observed{check: 4 * time.Millisecond, wait: 3 * time.Millisecond}, until: 7 * time.Millisecond,
		},
		{
			name: "a bypass", limit: core.PerHour(5),
			decide: func(l *core.Limiter) { l.Allow(&request{peer: "192.0.2.7"}) },
			config: core.Config{Bypass: []keyfuncs.Condition{keyfuncs.FromCIDR("192.0.2.0/24")}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := new(recorder)
				tt.config.Store, tt.config.Limits, tt.config.Observe = newSlow(2*time.Millisecond, tt.down), []core.Limit{forAll(tt.limit)}, seen
				l := newLimiter(t, tt.config)
				if tt.decide != nil {
					tt.decide(l)
				}
				began := time.Now()
				if tt.until != 0 {
					l.AllowKey(t.Context(), "k", 1)
				}
				o := seen.decisions[len(seen.decisions)-1]
				if tt.until == 0 {
					if !o.start.IsZero() || !o.end.IsZero() {
						t.Errorf("the store was asked from %v to %v, and was not asked", o.start, o.end)
					}
					return
				}
				if !o.start.Equal(began) || o.end.Sub(began) != tt.until || o.check != tt.want.check || o.wait != tt.want.wait {
					t.Errorf("asked after %v, answered after %v, %v in all, waited %v; want 0, %v, %v and %v",
						o.start.Sub(began), o.end.Sub(began), o.check, o.wait, tt.until, tt.want.check, tt.want.wait)
				}
			})
		})
	}
}

// newSlow returns a store that takes a while for each answer or failure.
func newSlow(each time.Duration, down bool) *flaky {
	s := newFlaky(down)
	s.asked = func(context.Context) { time.Sleep(each) }
	return s
}
