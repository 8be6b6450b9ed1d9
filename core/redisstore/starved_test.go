package redisstore

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// Time that a round trip has after its deadline, because the process was late, is not how long checks may
// take: else it would get shorter each time.
func TestLateStartsDoNotShortenTheUsualTime(t *testing.T) {
	t.Parallel()
	for name, connected := range map[string]bool{"connected": true, "not connected": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, n, rule := storeUnder(t, ordeal{}, 1000)
			s.route = &unknownRoute{singleRoute{n}} // two keys are two calls
			n.typicalTimeout.Store(int64(time.Minute))
			for range 3 {
				n.connected.Store(connected)
				ctx := endsAt{t.Context(), time.Now().Add(-time.Second)}
				if _, err := takeOne(ctx, s, "late", rule); err != nil {
					t.Error(err)
				}
				must.Equal(t, "after a take the usual time", n.usualTimeout(), time.Minute)
				checks := []store.Check{{Key: []byte("late"), Rule: rule, Cost: 1}, {Key: []byte("other"), Rule: rule, Cost: 1}}
				check.OK(t, s.Peek(ctx, checks, make([]store.Result, 2)))
				must.Equal(t, "after a peek at two slots the usual time", n.usualTimeout(), time.Minute)
			}
		})
	}
}

// A request that begins late has some more time, whether it runs its round trip itself or waits for it.
func TestALateStartIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, connected := range map[string]bool{"connected": true, "not connected": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, n, rule := storeUnder(t, ordeal{before: func(context.Context) error {
				time.Sleep(4 * maxExtension) // Redis is slow
				return nil
			}}, 1000)
			s.route = &unknownRoute{singleRoute{n}}
			n.connected.Store(connected)
			n.typicalTimeout.Store(int64(time.Minute))
			ctx := endsAt{t.Context(), time.Now().Add(-time.Second)}
			if _, err := takeOne(ctx, s, "late", rule); err != nil {
				t.Errorf("of one slot: %v", err)
			}
			n.connected.Store(connected)
			checks := []store.Check{{Key: []byte("late"), Rule: rule, Cost: 1}, {Key: []byte("other"), Rule: rule, Cost: 1}}
			if err := s.Peek(ctx, checks, make([]store.Result, 2)); err != nil {
				t.Errorf("of two slots: %v", err)
			}
		})
	}
}

// A request that begins late, and asks slots one after the other, has more time once and not for each.
func TestALateRequestOfSeveralSlotsHasMoreTimeOnce(t *testing.T) {
	t.Parallel()
	ends := make(chan time.Time, 100)
	s, n, rule := storeUnder(t, ordeal{before: func(ctx context.Context) error {
		at, _ := ctx.Deadline()
		ends <- at
		time.Sleep(10 * time.Millisecond) // so that the second would end later, had it the same time anew
		return nil
	}}, 1000)
	s.route = &unknownRoute{singleRoute{n}}
	must.Do(takeOne(endsAt{t.Context(), time.Now().Add(time.Minute)}, s, "late", rule))(t)
	for len(ends) > 0 { // two if Redis did not know the script
		<-ends
	}
	checks := []store.Check{{Key: []byte("late"), Rule: rule, Cost: 1}, {Key: []byte("other"), Rule: rule, Cost: 1}}
	must.OK(t, s.Take(endsAt{t.Context(), time.Now().Add(-time.Second)}, checks, make([]store.Result, 2)))
	if first, second := <-ends, <-ends; !first.Equal(second) {
		t.Errorf("the first round trip ends at %v, the second at %v, want one time", first, second)
	}
}

// A request that begins late makes no connection itself: that may take longer than it has.
func TestALateRequestDoesNotWaitForAConnection(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	client := redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) {
		<-release // whatever the deadline
		return nil, net.ErrClosed
	}})
	defer client.Close()
	defer close(release)
	s, rule := New(client), mustRule(core.PerHour(1000))
	s.OnEvent(func(core.Event) {})
	done := make(chan error, 1)
	go func() {
		_, err := takeOne(endsAt{context.Background(), time.Now().Add(-time.Second)}, s, "late", &rule)
		done <- err
	}()
	select {
	case err := <-done:
		if !classIs(err, store.ClassTimeout) {
			t.Errorf("%v, want a time-out", err)
		}
	case <-time.After(2 * slack):
		t.Error("it waits for a connection")
	}
}

// A client of another kind can wait beyond the deadline. That is not taken for a process that was late, so a slow
// server behind it is not asked any more.
func TestASlowServerIsNoticedThroughAWrapper(t *testing.T) {
	t.Parallel()
	const timeout = 20 * time.Millisecond
	client := redistest.Shared(t).Client(t)
	s := New(struct{ redis.UniversalClient }{client}, Config{Prefix: redistest.Prefix(t), DenialCache: DenialCache{Disabled: true}})
	s.undergo(ordeal{after: func(context.Context) error {
		time.Sleep(3 * timeout) // Redis is slow, and the client waits
		return nil
	}})
	s.OnEvent(func(core.Event) {})
	rule := mustRule(core.PerHour(1000).Named("wrapped"))
	for began := time.Now(); time.Since(began) < 2*time.Minute; {
		if _, err := takeOne(endsAt{t.Context(), time.Now().Add(timeout)}, s, "k", &rule); classIs(err, store.ClassOpen) {
			return
		}
		time.Sleep(5 * timeout) // for the round trip that is under way
	}
	t.Error("the breaker is still closed")
}
