package redisstore

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// lateConns returns the two ends of a connection, the first one as stores use it.
func lateConns(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ours, err = secondLook{}.DialHook((&net.Dialer{}).DialContext)(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ours.Close() })
	if theirs, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = theirs.Close() })
	return ours, theirs
}

// A deadline that passes before the process looks at the connection says nothing of the server.
func TestAReplyThatLiesInTheSocketIsRead(t *testing.T) {
	t.Parallel()
	ours, theirs := lateConns(t)
	deadline := time.Now()
	for !time.Now().Before(deadline) { // one that has passed when it is set is another matter
		deadline = time.Now().Add(20 * time.Millisecond)
		if err := ours.SetDeadline(deadline); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := theirs.Write([]byte("reply")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	got := make([]byte, 10)
	if n, err := ours.Read(got); err != nil || string(got[:n]) != "reply" {
		t.Errorf("read %q, %v", got[:n], err)
	}
	if n, err := ours.Write([]byte("request")); err != nil || n != len("request") {
		t.Errorf("wrote %d bytes, %v", n, err)
	}
	if n, err := theirs.Read(got); err != nil || string(got[:n]) != "request" {
		t.Errorf("the server read %q, %v", got[:n], err)
	}
}

// A server that is silent is given up, whether the process was late or not.
func TestASilentServerIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ deadline, late time.Duration }{
		"in time":                {50 * time.Millisecond, 0},
		"late":                   {50 * time.Millisecond, 200 * time.Millisecond},
		"the deadline is passed": {-time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, _ := lateConns(t)
			began := time.Now()
			if err := ours.SetReadDeadline(began.Add(tt.deadline)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(tt.late)
			_, err := ours.Read(make([]byte, 1))
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("read: %v", err)
			}
			took, most := time.Since(began), max(tt.deadline, tt.late)+maxLooks*maxExtension
			if most += slack; took < tt.deadline || took > most {
				t.Errorf("given up after %v, want %v at most", took, most)
			}
		})
	}
}

// go-redis finds connections that the server has closed through the system's connection.
func TestALateConnectionIsCheckedByItsClient(t *testing.T) {
	t.Parallel()
	ours, _ := lateConns(t)
	if _, ok := sysConn(ours); !ok {
		t.Errorf("a %T has no SyscallConn", ours)
	}
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	if _, ok := sysConn(&lateConn{Conn: ours}); ok {
		t.Error("a pipe has a SyscallConn")
	}
}

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
				if got := n.usualTimeout(); got != time.Minute {
					t.Fatalf("after a take the usual time is %v, want a minute", got)
				}
				checks := []store.Check{{Key: []byte("late"), Rule: rule, Cost: 1}, {Key: []byte("other"), Rule: rule, Cost: 1}}
				if err := s.Peek(ctx, checks, make([]store.Result, 2)); err != nil {
					t.Error(err)
				}
				if got := n.usualTimeout(); got != time.Minute {
					t.Fatalf("after a peek at two slots the usual time is %v, want a minute", got)
				}
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
				time.Sleep(4 * maxExtension)
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
		time.Sleep(10 * time.Millisecond)
		return nil
	}}, 1000)
	s.route = &unknownRoute{singleRoute{n}}
	if _, err := takeOne(endsAt{t.Context(), time.Now().Add(time.Minute)}, s, "late", rule); err != nil {
		t.Fatal(err)
	}
	for len(ends) > 0 { // two if Redis did not know the script
		<-ends
	}
	checks := []store.Check{{Key: []byte("late"), Rule: rule, Cost: 1}, {Key: []byte("other"), Rule: rule, Cost: 1}}
	if err := s.Take(endsAt{t.Context(), time.Now().Add(-time.Second)}, checks, make([]store.Result, 2)); err != nil {
		t.Fatal(err)
	}
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
	client.AddHook(ordeal{after: func(context.Context) error {
		time.Sleep(3 * timeout)
		return nil
	}})
	s := New(struct{ redis.UniversalClient }{client}, Config{Prefix: redistest.Prefix(t), DenialCache: DenialCache{Disabled: true}})
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
