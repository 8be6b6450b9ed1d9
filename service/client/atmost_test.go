package client_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/testclock"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/service"
	"github.com/weblimit/weblimit/service/client"
)

// batchPolicies have one of each kind that a batch meets.
var batchPolicies = policies{
	"two":    {core.PerHour(100).Burst(40).By(keyfuncs.User("user")).Named("hour"), core.PerDay(130).FixedWindow().By(keyfuncs.User("user")).Named("day").WarnAt(0.5)},
	"shadow": {core.PerHour(7).By(keyfuncs.User("user")).Named("trial").Shadow(), core.PerDay(90).FixedWindow().By(keyfuncs.User("user")).Named("real").Unless(keyfuncs.Methods("BREW"))},
	"slots":  {core.Concurrent(5).By(keyfuncs.User("user")).Named("running"), core.PerHour(60).By(keyfuncs.User("user")).Named("hour").RefundOn(core.ServerErrors)},
	"told":   {core.PerDay(100).FixedWindow().By(keyfuncs.User("user")).Named("tokens").Estimate(3)},
	"blocks": {core.PerHour(10).By(keyfuncs.User("user")).Named("login").Penalty(core.Block{After: 2, Within: time.Hour, For: 90 * time.Minute})},
	"waits":  {core.PerMinute(6).Burst(4).Wait(time.Minute).By(keyfuncs.User("user")).Named("queue"), core.PerHour(50).SlowDown(0.1, time.Minute).By(keyfuncs.User("user")).Named("slow")},
	"once":   {core.PerHour(20).Burst(9).By(keyfuncs.User("user")).Named("once").OncePer(keyfuncs.Header("Idempotency-Key"), time.Hour)},
	"plans": {core.PerHour(5).By(keyfuncs.User("user")).Named("plan").Cost(4).OnMissingKey(core.DenyRequest).Tiers(func(r keyfuncs.Request) core.Limit {
		if r.Value("plan") == "pro" {
			return core.PerHour(25)
		}
		return core.Limit{}
	})},
}

// twoWays are a limiter in the process and one of a service, each with a store of its own and the same clock.
type twoWays struct {
	here, there *core.Limiter
	stores      [2]*core.Memory
	service     *service.Service
	now         time.Time
}

func newTwoWays(t *testing.T, policy string, random *rand.Rand) *twoWays {
	t.Helper()
	w := &twoWays{now: time.Date(2026, 3, 2, 10, 0, 1, 0, time.UTC)}
	for i := range w.stores {
		w.stores[i] = core.NewMemory()
		testclock.Set(w.stores[i], func() int64 { return w.now.UnixMicro() })
	}
	w.service = must.Get(service.New(service.Config{Policies: batchPolicies, Store: w.stores[1]}))(t)
	server := httptest.NewServer(w.service)
	t.Cleanup(server.Close)
	c := newClient(t, client.Config{URL: server.URL, Send: client.Fields{Values: []string{"user", "plan"}, Headers: []string{"Idempotency-Key"}}, OnOutage: client.OnOutage{Action: core.Deny}})
	config := core.Config{Headers: core.Draft11 | core.XRateLimit}
	if random.IntN(2) == 0 {
		config.Observe = core.NopObserver{} // decisions are made in another way
	}
	config.Store = w.stores[0]
	w.here = must.Get(batchPolicies.Limiter(config, policy))(t)
	config.Store = c.Store()
	w.there = must.Get(c.Limiter(config, policy))(t)
	return w
}

// left returns what each limit has left for two users, when everything is settled.
func (w *twoWays) left(t *testing.T, policy string) (left [2]string) {
	t.Helper()
	for _, drain := range []func(context.Context) error{w.here.Drain, w.there.Drain, w.service.Drain} {
		must.OK(t, drain(t.Context()))
	}
	for i, store := range w.stores {
		l := must.Get(batchPolicies.Limiter(core.Config{Store: store}, policy))(t)
		for _, user := range []string{"user:ann", "user:bea"} {
			d := must.Get(l.Peek(t.Context(), user, 1))(t)
			for _, r := range d.Results() {
				left[i] += fmt.Sprint(user, " ", r.Rule.Name, " ", r.Remaining, " ", r.Blocked, "; ")
			}
		}
	}
	return left
}

// shown returns what a batch was told, with times as the API writes them.
func shown(granted int64, d *core.Decision) string {
	h := headers{}
	if d.Reason != core.ReasonInvalidCost { // of a negative number, about which nobody is asked
		d.SetHeaders(h)
	}
	delete(h, "X-Ratelimit-Reset") // a point in time, by the clock of this machine
	wait := (d.RetryAfter + time.Millisecond - 1).Truncate(time.Millisecond)
	text := fmt.Sprint(granted, d.Allowed, " ", d.Reason, " ", wait, d.Status(), d.Err, d.Delay(), d.WarnLevel(), h)
	for _, r := range d.Results() {
		text += fmt.Sprint("; ", r.Rule.Name, r.Allowed, r.Charged, r.Shadow, r.Remaining, r.Blocked, r.Rule.Burst)
	}
	return text
}

func TestBatchesAreGrantedAsInTheProcess(t *testing.T) {
	t.Parallel()
	for policy := range batchPolicies {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(4) {
				playBatches(t, policy, rand.New(rand.NewPCG(seed, 7)))
			}
		})
	}
}

// playBatches makes the same batches both ways, and ends them in the same order.
func playBatches(t *testing.T, policy string, random *rand.Rand) {
	t.Helper()
	w := newTwoWays(t, policy, random)
	var open [][2]core.Decision
	sizes := []int64{-1, 0, 1, 2, 3, 5, 7, 20, 100, 1 << 53, math.MaxInt64}
	for i := range 60 {
		n, user := sizes[random.IntN(len(sizes))], []string{"ann", "bea"}[random.IntN(2)]
		values := keyfuncs.Values{"user": user, "plan": []string{"", "pro"}[random.IntN(2)], "Idempotency-Key": "same"}
		if random.IntN(12) == 0 {
			delete(values, "user")
		}
		byKey := random.IntN(3) == 0
		var texts [2]string
		var decisions [2]core.Decision
		for k, l := range []*core.Limiter{w.here, w.there} {
			var granted int64
			if byKey {
				granted, decisions[k] = l.AllowKeyAtMost(t.Context(), "user:"+user, n)
			} else {
				granted, decisions[k] = l.AllowAtMost(values, n)
			}
			texts[k] = shown(granted, &decisions[k])
		}
		if texts[0] != texts[1] {
			t.Fatalf("number %d, %d units by key %t of %v:\n got %s\nwant %s", i, n, byKey, values, texts[1], texts[0])
		}
		if open = append(open, decisions); random.IntN(2) == 0 {
			end(t, &open, random)
		}
		if left := w.left(t, policy); left[0] != left[1] {
			t.Fatalf("number %d, after %d units:\n got %s\nwant %s", i, n, left[1], left[0])
		}
		w.now = w.now.Add(time.Duration(random.Int64N(int64(20 * time.Minute))))
	}
}

// end ends one of the batches that are open.
func end(t *testing.T, open *[][2]core.Decision, random *rand.Rand) {
	t.Helper()
	at := random.IntN(len(*open))
	batch := (*open)[at]
	*open = append((*open)[:at], (*open)[at+1:]...)
	cost, told := random.Int64N(9), random.IntN(2) == 0
	outcome := core.Outcome{Status: []int{200, 404, 500}[random.IntN(3)]}
	var errs [2]error
	for k := range batch {
		if told {
			errs[k] = core.Spend(core.NewContext(t.Context(), batch[k]), cost)
		}
		batch[k].Settle(outcome)
	}
	check.Equal(t, "the error of Spend", fmt.Sprint(errs[1]), fmt.Sprint(errs[0]))
}

func TestABatchWhileTheServiceIsAway(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.broken.Store(true)
	stand := core.PerHour(10).By(keyfuncs.User("user")).Named("stand-in")
	for name, tt := range map[string]struct {
		outage client.OnOutage
		want   []int64
		reason core.Reason
	}{
		"allow":        {client.OnOutage{Action: core.Allow}, []int64{6, 6, 6}, core.ReasonOutageAllowed},
		"deny":         {client.OnOutage{Action: core.Deny}, []int64{0, 0}, core.ReasonOutageDenied},
		"local":        {client.OnOutage{Limits: []core.Limit{stand}}, []int64{5, 0}, core.ReasonOutageLocal}, // a share of 5
		"local, slots": {client.OnOutage{Limits: []core.Limit{core.Concurrent(8).By(keyfuncs.User("user")).Named("slots")}}, []int64{4, 0}, core.ReasonOutageLocal},
	} {
		for _, byKey := range []bool{false, true} {
			c := newClient(t, client.Config{URL: s.URL, OnOutage: tt.outage, Send: client.Fields{Values: []string{"user"}}})
			var failures atomic.Int64
			c.OnEvent(func(e core.Event) {
				if e.Kind == store.EventStoreError {
					failures.Add(1)
				}
			})
			l := must.Get(c.Limiter(core.Config{Store: c.Store(), Replicas: 2}, "user"))(t)
			for _, want := range tt.want {
				granted, d := l.AllowAtMost(keyfuncs.Values{"user": "ann"}, 6)
				if byKey {
					granted, d = l.AllowKeyAtMost(t.Context(), "user:bea", 6)
				}
				if granted != want && !byKey || d.Reason != tt.reason || d.Err == nil || d.Allowed != (granted > 0) || (d.RetryAfter > 0) != (granted < 6) {
					t.Errorf("%s, by key %t: %d, %v", name, byKey, granted, d.LogValue())
				}
			}
			if asked := int64(len(tt.want)); !byKey && failures.Load() > asked {
				t.Errorf("%s: %d failures of %d questions", name, failures.Load(), asked)
			}
		}
	}
}

// olderService answers as a service that does not know at_most: it refuses the whole body.
func olderService(w http.ResponseWriter, r *http.Request) bool {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	before, _, found := strings.Cut(string(body), `"at_most"`)
	if !found {
		return false
	}
	pointer := "/at_most"
	if r.URL.Path == "/v1/checks" {
		pointer = fmt.Sprintf("/checks/%d/at_most", strings.Count(before, `"policy"`)-1)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = fmt.Fprintf(w, `{"type":"about:blank","title":"Bad Request","status":400,"detail":"Unknown field, want one of policy, request, key, cost, costs, together, operation, timeout_ms, hold.","pointer":%q}`, pointer)
	return true
}

func TestABatchThatAnOlderServiceRefuses(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.instead.Store(olderService)
	c := newClient(t, client.Config{URL: s.URL, Connections: 1, Send: client.Fields{Values: []string{"user"}}})
	l := limiterOf(t, c, "user")
	granted, d := l.AllowAtMost(keyfuncs.Values{"user": "ann"}, 7)
	if granted != 0 || d.Allowed || d.Reason != core.ReasonInvalidCost || d.Err == nil || d.RetryAfter != 0 {
		t.Errorf("a batch: %d %v", granted, d.LogValue())
	}
	check.Fails(t, "why", d.Err, "too old")
	release := s.hold(t)
	var group sync.WaitGroup
	var began atomic.Int64
	for i := range 30 { // those that go with a batch are decided all the same, each once
		group.Go(func() {
			began.Add(1)
			if i%10 == 5 {
				if granted, d := l.AllowKeyAtMost(t.Context(), "user:ann", 5); granted != 0 || d.Err == nil {
					t.Errorf("a batch among others: %d %v", granted, d.LogValue())
				}
				return
			}
			allows(t, c)
		})
	}
	begins(t, &began, 30)
	release()
	group.Wait()
	if d, err := l.Peek(t.Context(), "user:ann", 1); err != nil || d.Results()[0].Remaining != 50-27 {
		t.Errorf("%v %v", d.LogValue(), err)
	}
}

// Something else answers in the place of the service.
func TestAGrantThatCanNotBe(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]bool{
		`"allowed":true,"granted":5`:                 true,
		`"allowed":true`:                             false,
		`"allowed":true,"granted":8`:                 false,
		`"allowed":true,"granted":-1`:                false,
		`"allowed":false,"granted":5,"status":429`:   false,
		`"allowed":true,"granted":9007199254740992`:  false,
		`"allowed":true,"granted":18446744073709551`: false,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			reason := "within limit"
			if strings.Contains(answer, "false") {
				reason = "limit exceeded"
			}
			_, _ = fmt.Fprintf(w, `{%s,"reason":%q,"limits":[],"headers":{}}`, answer, reason)
		}))
		c := newClient(t, client.Config{URL: server.URL, OnOutage: client.OnOutage{Action: core.Deny}})
		granted, d := limiterOf(t, c, "user").AllowKeyAtMost(t.Context(), "user:ann", 7)
		if d.Allowed != want || want != (granted == 5) || !want && d.Reason != core.ReasonOutageDenied {
			t.Errorf("%s: %d %v", answer, granted, d.LogValue())
		}
		server.Close()
	}
}

// A decision of the service knows when it was made, for headers with points in time.
func TestResetsAsPointsInTime(t *testing.T) {
	t.Parallel()
	c := newClient(t, client.Config{URL: serve(t).URL})
	l := must.Get(c.Limiter(core.Config{Store: c.Store(), Headers: core.XRateLimit}, "key"))(t)
	began := time.Now()
	d := l.AllowKey(t.Context(), "k", 1)
	h := headers{}
	d.SetHeaders(h)
	at := time.Unix(must.Get(strconv.ParseInt(h["X-Ratelimit-Reset"], 10, 64))(t), 0)
	if at.Before(began) || at.After(time.Now().Add(time.Hour)) {
		t.Errorf("%v, asked at %v", at, began)
	}
}
