package grpclimit_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/grpclimit"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/internal/test/long"
	"github.com/weblimit/weblimit/internal/test/must"
	"github.com/weblimit/weblimit/keyfuncs"
)

// recovered is an interceptor that answers panics.
func recovered(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = status.Errorf(codes.Internal, "%v", value)
		}
	}()
	return handler(srv, stream)
}

// A slot is given back however a stream ends, and held as long as it runs.
func TestSlotsOfStreams(t *testing.T) {
	t.Parallel()
	limittest.OverStores(t, func(t *testing.T, store core.Store) {
		limit := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.Concurrent(1).By(keyfuncs.Everyone()).Named("slots")}})
		in := grpclimit.New(limit)
		panicking := func(s grpc.ServerStream) error {
			for {
				m := new(text)
				if err := s.RecvMsg(m); err != nil {
					return endOf(err)
				}
				if m.GetValue() == "panic" {
					panic("on purpose")
				}
				if err := s.SendMsg(m); err != nil {
					return err
				}
			}
		}
		l := loopback(t)
		listen(t, l, &service{chat: panicking}, append([]grpc.ServerOption{grpc.ChainStreamInterceptor(recovered)}, options(in)...)...)
		s := &site{t, dial(t, "passthrough:///"+l.Addr().String())}
		free := func() bool { return remainings(t, limit) == "slots=1" }
		for _, tt := range []struct {
			name string
			end  func(stream grpc.ClientStream, cancel context.CancelFunc)
		}{
			{"its end", func(stream grpc.ClientStream, _ context.CancelFunc) { _ = stream.CloseSend() }},
			{"a cancel", func(_ grpc.ClientStream, cancel context.CancelFunc) { cancel() }},
			{"a panic", func(stream grpc.ClientStream, _ context.CancelFunc) { _ = stream.SendMsg(textOf("panic")) }},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			stream := s.open(ctx, chat)
			must.OK(t, stream.SendMsg(textOf("hello")))
			if err := stream.RecvMsg(new(text)); err != nil { // the stream runs
				t.Fatalf("%s: %v", tt.name, err)
			}
			want(t, "while a stream runs", s.call(say).code, codes.ResourceExhausted)
			tt.end(stream, cancel)
			eventually(t, "the slot is free after "+tt.name, free)
			cancel()
		}
		for deadline := 300 * time.Millisecond; ; deadline *= 4 { // until the stream runs before it is over
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			stream, err := s.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, chat)
			if err == nil {
				_ = stream.SendMsg(textOf("hello"))
				err = stream.RecvMsg(new(text))
			}
			<-ctx.Done()
			eventually(t, "the slot is free after its deadline", free)
			if err == nil {
				return
			}
		}
	})
}

// renewals is a store that counts how often slots were renewed.
type renewals struct {
	core.Store
	count atomic.Int64
	last  atomic.Int64 // when the last call began, in nanoseconds since the epoch
}

func (r *renewals) Renew(ctx context.Context, checks []core.Check, results []core.Result) error {
	r.last.Store(time.Now().UnixNano())
	defer r.count.Add(1)
	return r.Store.Renew(ctx, checks, results)
}

// The slot of a stream that runs longer than a lease is renewed.
func TestASlotIsRenewed(t *testing.T) {
	t.Parallel()
	limittest.OverStores(t, func(t *testing.T, store core.Store) {
		const lease = time.Second
		renewed := &renewals{Store: store}
		s := serve(t, &service{}, limited(t, renewed, core.Concurrent(1).Lease(lease).By(keyfuncs.Everyone()).Named("slots")))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream := s.open(ctx, chat)
		_ = stream.SendMsg(textOf("hello"))
		must.OK(t, stream.RecvMsg(new(text)))
		for checked := false; renewed.count.Load() < 5 || !checked; time.Sleep(20 * time.Millisecond) { // lets a third of the lease pass
			code := s.call(say).code
			if time.Since(time.Unix(0, renewed.last.Load())) > lease {
				continue // on a machine that stood still for a lease, the slot may be lost
			}
			checked = true
			want(t, fmt.Sprintf("after %d renewals", renewed.count.Load()), code, codes.ResourceExhausted)
		}
		cancel()
		eventually(t, "the slot is free", func() bool { return s.call(say).code == codes.OK })
	})
}

// Resetting calls as fast as they are made (CVE-2023-44487) neither dodges the charge nor gets
// beyond the limit.
func TestResets(t *testing.T) {
	t.Parallel()
	limittest.OverStores(t, func(t *testing.T, store core.Store) {
		const quota = 50
		calls := long.Rounds(500, 2000)
		var handled atomic.Int64
		limit := core.PerDay(quota).By(keyfuncs.Everyone()).Named("calls").RefundOn(core.Failures)
		l := limiter(t, core.Config{Store: store, Limits: []core.Limit{limit, core.Concurrent(40).By(keyfuncs.Everyone()).Named("slots")}})
		s := serve(t, &service{chat: func(stream grpc.ServerStream) error {
			handled.Add(1)
			<-stream.Context().Done()
			return stream.Context().Err()
		}}, grpclimit.New(l))
		for range calls {
			ctx, cancel := context.WithCancel(t.Context())
			s.open(ctx, chat)
			cancel()
		}
		// No interceptor sees this call. It is answered when the server has read all that came before it, and
		// may still be about to handle some of that.
		want(t, "a method that is none", s.call("/test.Service/None").code, codes.Unimplemented)
		eventually(t, "all slots are free, and what ran is charged", func() bool {
			n := handled.Load()
			return n > 0 && remainings(t, l) == fmt.Sprintf("calls=%d slots=40", quota-n)
		})
		if n := handled.Load(); n > quota {
			t.Errorf("%d handlers ran, the limit is %d", n, quota)
		}
	})
}

// slow is a store whose answers take long. It counts those that its caller no longer wanted.
type slow struct {
	core.Store
	given, late atomic.Int64
}

func (s *slow) Take(ctx context.Context, checks []core.Check, results []core.Result) error {
	time.Sleep(50 * time.Millisecond) // what slow means: long enough for its caller to give up
	if ctx.Err() != nil {
		s.late.Add(1)
	}
	s.given.Add(1)
	return s.Store.Take(ctx, checks, results)
}

// The check has a deadline of its own: calls whose deadline is shorter are charged, and are no
// failures of the store.
func TestDeadlinesOfCallersDoNotEndChecks(t *testing.T) {
	t.Parallel()
	store := &slow{Store: core.NewMemory()}
	// A unit takes hours to come back, and this can take minutes on a busy machine.
	calls := core.Per(1000, 365*24*time.Hour).By(keyfuncs.Everyone()).Named("calls")
	l := limiter(t, core.Config{Store: store, Limits: []core.Limit{calls}})
	s := serve(t, &service{}, grpclimit.New(l))
	want(t, "connected", s.call(say).code, codes.OK)
	for end, n := time.Now().Add(patience), 0; n < 20 || store.given.Load() < 2 && time.Now().Before(end); n++ {
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Millisecond)
		s.callWith(ctx, say)
		cancel()
	}
	eventually(t, "what has reached the limiter is charged", func() bool {
		return remainings(t, l) == fmt.Sprintf("calls=%d", 1000-store.given.Load())
	})
	want(t, "checks that ended with a call", store.late.Load(), 0)
	if store.given.Load() < 2 {
		t.Error("no call has reached the limiter")
	}
}

// remainings are the units that are left of each limit by Everyone.
func remainings(t *testing.T, l *core.Limiter) string {
	t.Helper()
	d := must.Get(l.Peek(t.Context(), "all", 0))(t)
	var all []string
	for _, r := range d.Results() {
		all = append(all, fmt.Sprintf("%s=%d", r.Rule.Name, r.Remaining))
	}
	return strings.Join(all, " ")
}

func TestChargeInAHandler(t *testing.T) {
	t.Parallel()
	limittest.OverStores(t, func(t *testing.T, store core.Store) {
		charged := make(chan struct{}, 1)
		l := limiter(t, core.Config{Store: store, Limits: []core.Limit{core.PerDay(1000).By(keyfuncs.Everyone()).Named("tokens").Estimate(100)}})
		s := serve(t, &service{
			say: func(ctx context.Context, in *text) (*text, error) { return in, core.Spend(ctx, 30) },
			chat: func(stream grpc.ServerStream) error {
				for range 3 {
					if err := core.Spend(stream.Context(), 7); err != nil {
						return err
					}
				}
				charged <- struct{}{}
				<-stream.Context().Done() // the client hangs up
				return stream.Context().Err()
			},
		}, grpclimit.New(l))
		want(t, "code", s.call(say).code, codes.OK)
		eventually(t, "30 units are charged", func() bool { return remainings(t, l) == "tokens=970" })
		ctx, cancel := context.WithCancel(t.Context())
		stream := s.open(ctx, chat)
		await(t, "the handler's charges", charged)
		cancel()
		_ = stream.RecvMsg(new(text))
		eventually(t, "21 more", func() bool { return remainings(t, l) == "tokens=949" })
	})
	if err := core.Spend(t.Context(), 1); err == nil {
		t.Error("a charge without a limit has no error")
	}
}

func TestMessagesOfAStream(t *testing.T) {
	t.Parallel()
	limittest.OverStores(t, func(t *testing.T, store core.Store) {
		calls := limited(t, store, everyone(9, "calls"))
		messages := limited(t, store, core.PerDay(10).By(keyfuncs.Everyone()).Named("letters").
			CostBy(grpclimit.Cost(func(_ context.Context, call grpclimit.Call) int64 {
				return int64(len(call.Message.(*text).GetValue()))
			})))
		received := make(chan error, 10)
		l := loopback(t)
		listen(t, l, &service{chat: func(stream grpc.ServerStream) error {
			for {
				m := new(text)
				if err := stream.RecvMsg(m); err != nil {
					received <- err
					received <- stream.RecvMsg(m)
					return nil // as if all were well
				}
				if err := stream.SendMsg(m); err != nil {
					return err
				}
			}
		}}, grpc.ChainUnaryInterceptor(calls.Unary), grpc.ChainStreamInterceptor(calls.Stream, messages.Messages))
		s := &site{t, dial(t, "passthrough:///"+l.Addr().String())}
		stream := s.open(t.Context(), chat)
		for range 2 {
			_ = stream.SendMsg(textOf("four"))
			must.OK(t, stream.RecvMsg(new(text)))
		}
		_ = stream.SendMsg(textOf("four"))
		got := status.Convert(stream.RecvMsg(new(text)))
		want(t, "code", got.Code(), codes.ResourceExhausted)
		_, _, quota, _ := detailsOf(got)
		if quota == nil || quota.Violations[0].Subject != "letters" {
			t.Errorf("violations: %v", quota)
		}
		want(t, "the handler", status.Code(await(t, "what the handler received", received)), codes.ResourceExhausted)
		want(t, "and again", status.Code(await(t, "what it received next", received)), codes.ResourceExhausted)
		header, _ := stream.Header()
		want(t, "header", only(t, header, "ratelimit-policy"), `"calls";q=9;w=86400`)
		want(t, "trailer", only(t, stream.Trailer(), "ratelimit-policy"), `"letters";q=10;w=86400`)
		want(t, "Retry-After", only(t, stream.Trailer(), "retry-after") != "", true)

		stream = s.open(t.Context(), chat)
		_ = stream.SendMsg(textOf("ab"))
		want(t, "what is left", stream.RecvMsg(new(text)), nil)
		_ = stream.CloseSend()
		want(t, "the end", endOf(stream.RecvMsg(new(text))), nil)
	})
}

// A handler that reads in a goroutine learns of a denial as it learns of a client that is gone: its
// context ends, and sending fails.
func TestADeniedMessageEndsTheStreamForHandlersThatOnlySend(t *testing.T) {
	t.Parallel()
	messages := limited(t, core.NewMemory(), everyone(1, "messages"))
	sent := make(chan error, 1)
	l := loopback(t)
	listen(t, l, &service{chat: func(stream grpc.ServerStream) error {
		go drain(stream)
		select {
		case <-stream.Context().Done():
		case <-time.After(patience):
		}
		sent <- stream.SendMsg(new(text))
		return nil
	}}, grpc.ChainStreamInterceptor(messages.Messages))
	s := &site{t, dial(t, "passthrough:///"+l.Addr().String())}
	stream := s.open(t.Context(), chat)
	for range 2 {
		_ = stream.SendMsg(textOf("hello"))
	}
	want(t, "code", status.Code(stream.RecvMsg(new(text))), codes.ResourceExhausted)
	want(t, "sending", status.Code(await(t, "the handler", sent)), codes.ResourceExhausted)
}

// What a message reserves is given back with the next one, and with the end of the stream.
func TestSlotsOfMessages(t *testing.T) {
	t.Parallel()
	l := limiter(t, core.Config{Store: core.NewMemory(), Limits: []core.Limit{core.Concurrent(1).By(keyfuncs.Everyone()).Named("slots")}})
	in := grpclimit.New(l)
	addr := loopback(t)
	work := make(chan struct{})
	listen(t, addr, &service{chat: func(stream grpc.ServerStream) error {
		for {
			m := new(text)
			if err := stream.RecvMsg(m); err != nil {
				return endOf(err)
			}
			if m.GetValue() == "work" {
				<-work
			}
			if err := stream.SendMsg(m); err != nil {
				return err
			}
		}
	}}, grpc.ChainStreamInterceptor(in.Messages))
	s := &site{t, dial(t, "passthrough:///"+addr.Addr().String())}
	first, second := s.open(t.Context(), chat), s.open(t.Context(), chat)
	_ = first.SendMsg(textOf("work"))
	eventually(t, "a message is worked on", func() bool { return remainings(t, l) == "slots=0" })
	_ = second.SendMsg(textOf("hello"))
	want(t, "meanwhile", status.Code(second.RecvMsg(new(text))), codes.ResourceExhausted)
	close(work)
	want(t, "reply", first.RecvMsg(new(text)), nil)
	eventually(t, "the slot is free", func() bool { return remainings(t, l) == "slots=1" })
	_ = first.CloseSend()
	want(t, "the end", endOf(first.RecvMsg(new(text))), nil)
}

// A goroutine of the handler may receive while the handler returns.
func TestAReaderThatOutlivesItsHandler(t *testing.T) {
	t.Parallel()
	in := limited(t, core.NewMemory(), core.Concurrent(5).By(keyfuncs.Everyone()).Named("slots"), core.PerDay(1_000_000).By(keyfuncs.Everyone()).RefundOn(core.ServerErrors).Named("calls"))
	done := make(chan struct{}, 100)
	l := loopback(t)
	listen(t, l, &service{chat: func(stream grpc.ServerStream) error {
		go func() {
			drain(stream)
			done <- struct{}{}
		}()
		return nil
	}}, grpc.ChainStreamInterceptor(in.Stream, in.Messages))
	s := &site{t, dial(t, "passthrough:///"+l.Addr().String())}
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		stream := s.open(ctx, chat)
		_ = stream.SendMsg(textOf("hello"))
		_ = stream.SendMsg(textOf("hello"))
		drain(stream)
		cancel()
	}
}

func TestMeasure(t *testing.T) {
	t.Parallel()
	load := core.NewLoad(core.LoadConfig{By: keyfuncs.ClientIP(), InFlight: 10, Slow: time.Second})
	seen := make(chan int64, 2)
	l := loopback(t)
	listen(t, l, &service{
		say: func(_ context.Context, in *text) (*text, error) { seen <- load.InFlight(); return in, nil },
	}, grpclimit.Measure(load)...)
	s := &site{t, dial(t, "passthrough:///"+l.Addr().String())}
	want(t, "code", s.call(say).code, codes.OK)
	want(t, "at work", await(t, "the handler", seen), 1)
	stream := s.open(t.Context(), chat)
	_ = stream.SendMsg(textOf("hello"))
	want(t, "reply", stream.RecvMsg(new(text)), nil)
	eventually(t, "a stream that waits for its client is not at work", func() bool { return load.InFlight() == 0 })
	_ = stream.CloseSend()
	_ = stream.RecvMsg(new(text))
}

func textOf(s string) *text { return &text{Value: s} }
