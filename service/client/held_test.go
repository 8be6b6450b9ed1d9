package client_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/wait"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/service/client"
)

// What the service was not told while it was away it is told later, once.
func TestSettlementsOutliveAnOutageOfTheService(t *testing.T) {
	t.Parallel()
	s := serve(t)
	l := limiterOf(t, newClient(t, client.Config{URL: s.URL}), "estimated")
	d := l.AllowKey(t.Context(), "tenant:acme", 300)
	s.broken.Store(true)
	ctx := core.NewContext(t.Context(), d)
	must.OK(t, core.Spend(ctx, 40))
	before := s.requests.Load()
	d.Settle(core.Outcome{Status: 200})
	s.await(t, before+1)
	s.broken.Store(false)
	must.OK(t, l.Drain(t.Context()))
	check.Equal(t, "left", left(t, l, "tenant:acme"), 960)
	if err := core.Spend(ctx, 40); !errors.Is(err, core.ErrNoEstimate) {
		t.Errorf("a cost that is reported when the service was told: %v", err)
	}
	d.Settle(core.Outcome{Status: 200})
	must.OK(t, l.Drain(t.Context()))
	check.Equal(t, "left after a second settlement", left(t, l, "tenant:acme"), 960)
}

func left(t *testing.T, l *core.Limiter, key string) int64 {
	t.Helper()
	d := must.Get(l.Peek(t.Context(), key, 1))(t)
	return d.Results()[0].Remaining
}

// A request that runs for longer than the lease of its slot keeps it, and frees it at its end.
func TestSlotsAreRenewedWhileARequestRuns(t *testing.T) {
	t.Parallel()
	s := serve(t)
	l := limiterOf(t, newClient(t, client.Config{URL: s.URL}), "brief")
	d := l.AllowKey(t.Context(), "k", 1)
	end := time.Now().Add(2 * time.Second) // two leases
	wait.Until(t, "renewals go on", func() bool { return time.Now().After(end) && s.requests.Load() > 3 })
	if other := l.AllowKey(t.Context(), "k", 1); other.Allowed {
		t.Error("the slot was given to somebody else")
	}
	d.Settle(core.Outcome{Status: 200})
	must.OK(t, l.Drain(t.Context()))
	if other := l.AllowKey(t.Context(), "k", 1); !other.Allowed {
		t.Error("the slot is not free after the end")
	}
}

// A request that ends while its slot is renewed is told after the renewal, and Drain waits for both.
func TestDrainWaitsForARenewalThatIsUnderWay(t *testing.T) {
	t.Parallel()
	s := serve(t)
	l := limiterOf(t, newClient(t, client.Config{URL: s.URL}), "brief")
	d := l.AllowKey(t.Context(), "k", 1)
	release := s.hold(t)
	s.await(t, 2) // the renewal
	d.Settle(core.Outcome{Status: 200})
	drained := make(chan error, 1)
	go func() { drained <- l.Drain(t.Context()) }()
	select {
	case err := <-drained:
		t.Errorf("Drain has not waited: %v", err)
	case <-time.After(50 * time.Millisecond): // nothing happens, which no event says
		release()
		must.OK(t, <-drained)
	}
	if other := l.AllowKey(t.Context(), "k", 1); !other.Allowed {
		t.Error("the slot is not free after the end")
	}
}

// A renewal is done again whose answer was lost. The client went on without its slot, and its settlement was lost.
func TestALostRenewalIsRepeated(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var renewals, answered atomic.Int64
	s.instead.Store(func(w http.ResponseWriter, r *http.Request) bool {
		const again = "X-Again"
		if r.URL.Path != "/v1/renew" || r.Header.Get(again) != "" {
			return false
		}
		r.Header.Set(again, "1")
		answer := httptest.NewRecorder()
		s.Config.Handler.ServeHTTP(answer, r)
		if renewals.Add(1)%2 == 1 {
			panic(http.ErrAbortHandler)
		}
		if answer.Code == http.StatusOK {
			answered.Add(1)
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
		return true
	})
	l := limiterOf(t, newClient(t, client.Config{URL: s.URL}), "brief")
	d := l.AllowKey(t.Context(), "k", 1)
	wait.Until(t, "renewals go on", func() bool { return answered.Load() >= 3 })
	d.Settle(core.Outcome{Status: 200})
	must.OK(t, l.Drain(t.Context()))
	wait.Until(t, "the slots are free", func() bool { return l.AllowKey(t.Context(), "k", 1).Allowed })
}

// A cost that no limit has room for, and a request that takes years, are settled as in the process: the service takes
// neither as it is.
func TestWhatTheServiceDoesNotTakeIsSettledAsFarAsItDoes(t *testing.T) {
	t.Parallel()
	l := limiterOf(t, newClient(t, client.Config{URL: serve(t).URL}), "estimated")
	d := l.AllowKey(t.Context(), "tenant:acme", 300)
	must.OK(t, core.Spend(core.NewContext(t.Context(), d), math.MaxInt64))
	d.Settle(core.Outcome{Status: 200, Waited: -time.Hour, Duration: 10 * 365 * 24 * time.Hour})
	must.OK(t, l.Drain(t.Context()))
	check.Equal(t, "left", left(t, l, "tenant:acme"), 0)
}

// A token that has expired, or is none, is not told for ever.
func TestASettlementThatCanNotBeIsLost(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.instead.Store(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/v1/settle" {
			return false
		}
		w.Header().Set("Content-Type", core.ProblemType)
		w.WriteHeader(http.StatusGone)
		_, _ = fmt.Fprint(w, `{"status":410,"title":"Gone","detail":"It has expired."}`)
		return true
	})
	c := newClient(t, client.Config{URL: s.URL})
	lost := make(chan core.Event, 4)
	c.OnEvent(func(e core.Event) {
		if e.Kind == store.EventSettlementsLost {
			lost <- e
		}
	})
	l := limiterOf(t, c, "estimated")
	d := l.Allow(keyfuncs.Values{"tenant": "acme"}.WithContext(context.Background()))
	d.Settle(core.Outcome{Status: 200})
	<-lost
}
