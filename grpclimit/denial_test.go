package grpclimit_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/grpclimit"
	"github.com/weblimit/weblimit/internal/test/limittest"
	"github.com/weblimit/weblimit/keyfuncs"
)

// detailsOf returns the details of a status, nil for those that are missing.
func detailsOf(s *status.Status) (info *errdetails.ErrorInfo, retry *errdetails.RetryInfo, quota *errdetails.QuotaFailure, text *errdetails.LocalizedMessage) {
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			info = d
		case *errdetails.RetryInfo:
			retry = d
		case *errdetails.QuotaFailure:
			quota = d
		case *errdetails.LocalizedMessage:
			text = d
		}
	}
	return info, retry, quota, text
}

func TestADenialSaysWhatAndHowLong(t *testing.T) {
	t.Parallel()
	limittest.OverStores(t, func(t *testing.T, store core.Store) {
		s := serve(t, &service{}, grpclimit.New(limiter(t, core.Config{
			Store:   store,
			Headers: core.Draft11 | core.Draft03 | core.XRateLimit,
			Limits: []core.Limit{
				core.PerHour(1).By(keyfuncs.Header("X-Tenant")).Named("trial").Shadow(), // which is never named
				core.PerHour(2).By(keyfuncs.Header("X-Tenant")).Named("tenant"),
			},
		})))
		for left := 1; left >= 0; left-- {
			a := s.call(say, "x-tenant", "secret-42")
			want(t, "code", a.code, codes.OK)
			want(t, "policy", only(t, a.header, "ratelimit-policy"), `"tenant";q=2;w=3600`)
			want(t, "RateLimit", strings.HasPrefix(only(t, a.header, "ratelimit"), `"tenant";r=`+strconv.Itoa(left)+";"), true)
			want(t, "X-RateLimit-Remaining", only(t, a.header, "x-ratelimit-remaining"), strconv.Itoa(left))
			want(t, "RateLimit-Remaining", only(t, a.header, "ratelimit-remaining"), strconv.Itoa(left))
			want(t, "trailers", len(a.trailer), 0)
		}
		a := s.call(say, "x-tenant", "secret-42")
		want(t, "code", a.code, codes.ResourceExhausted)
		info, retry, quota, localized := detailsOf(a.status)
		if info == nil || retry == nil || quota == nil || localized != nil {
			t.Fatalf("details: %v", a.status.Details())
		}
		want(t, "reason", info.Reason, "LIMIT_EXCEEDED")
		want(t, "domain", info.Domain, grpclimit.Domain)
		wait := retry.RetryDelay.AsDuration()
		if wait > 30*time.Minute || wait < 29*time.Minute {
			t.Errorf("RetryInfo says %v, want half an hour", wait)
		}
		want(t, "violations", len(quota.Violations), 1)
		want(t, "subject", quota.Violations[0].Subject, "tenant")
		want(t, "the key is not told", strings.Contains(a.status.Proto().String(), "secret"), false)
		seconds := only(t, a.trailer, "retry-after")
		want(t, "message", a.status.Message(), "Rate limit exceeded. Retry in "+seconds+" seconds.")
		want(t, "policy", only(t, a.trailer, "ratelimit-policy"), `"tenant";q=2;w=3600`)
		want(t, "X-RateLimit-Remaining", only(t, a.trailer, "x-ratelimit-remaining"), "0")
		want(t, "pushback", only(t, a.trailer, "grpc-retry-pushback-ms"), "-1") // half an hour is too long
		want(t, "header metadata", len(a.header["ratelimit-policy"]), 0)
	})
}

func TestCodesOfDenials(t *testing.T) {
	t.Parallel()
	s := serve(t, &service{}, limited(t, core.NewMemory(),
		core.PerHour(9).By(keyfuncs.APIKey()).Named("key").OnMissingKey(core.DenyRequest),
		core.PerHour(9).By(keyfuncs.Everyone()).Named("cost").CostBy(grpclimit.Cost(func(ctx context.Context, _ grpclimit.Call) int64 {
			n, err := strconv.ParseInt(strings.Join(metadata.ValueFromIncomingContext(ctx, "x-cost"), ""), 10, 64)
			if err != nil {
				return 1
			}
			return n
		})),
	))
	for _, tt := range []struct {
		name     string
		pairs    []string
		code     codes.Code
		reason   string
		pushback string
	}{
		{"allowed", []string{"x-api-key", "a"}, codes.OK, "", ""},
		{"two keys", []string{"x-api-key", "a", "x-api-key", "b"}, codes.InvalidArgument, "AMBIGUOUS_KEY", ""},
		{"a key in two places", []string{"x-api-key", "a", "authorization", "Bearer b"}, codes.InvalidArgument, "AMBIGUOUS_KEY", ""},
		{"more than there ever is", []string{"x-api-key", "a", "x-cost", "10"}, codes.ResourceExhausted, "", "-1"},
		{"a negative cost", []string{"x-api-key", "a", "x-cost", "-1"}, codes.ResourceExhausted, "INVALID_COST", "-1"},
	} {
		a := s.call(say, tt.pairs...)
		want(t, tt.name, a.code, tt.code)
		info, retry, _, _ := detailsOf(a.status)
		if tt.code != codes.OK && (info == nil || tt.reason != "" && info.Reason != tt.reason) {
			t.Errorf("%s: %v, want %s", tt.name, info, tt.reason)
		}
		want(t, tt.name+": is to be retried", retry != nil, false)
		want(t, tt.name+": pushback", only(t, a.trailer, "grpc-retry-pushback-ms"), tt.pushback)
	}
	a := s.call(say)
	info, _, _, _ := detailsOf(a.status)
	if a.code == codes.OK || info == nil || info.Reason != "MISSING_KEY" {
		t.Errorf("without a key: %v, %v", a.code, info)
	}
}

// broken is a store that does not answer.
type broken struct{ core.Store }

func (broken) Take(context.Context, []core.Check, []core.Result) error {
	return &store.Error{Class: "down", Err: errors.New("redis at 10.0.0.7 is down")}
}

func TestOutages(t *testing.T) {
	t.Parallel()
	for outage, code := range map[core.OutageAction]codes.Code{core.Deny: codes.Unavailable, core.Allow: codes.OK, core.Local: codes.OK} {
		s := serve(t, &service{}, limited(t, broken{core.NewMemory()}, core.PerHour(9).By(keyfuncs.Everyone()).OnOutage(outage)))
		a := s.call(say)
		want(t, "code", a.code, code)
		if code == codes.OK {
			continue
		}
		info, retry, quota, _ := detailsOf(a.status)
		if info == nil || retry == nil || quota != nil {
			t.Fatalf("details: %v", a.status.Details())
		}
		want(t, "reason", info.Reason, "OUTAGE_DENIED")
		want(t, "the store is not told of", strings.Contains(a.status.Proto().String(), "redis"), false)
		want(t, "pushback", only(t, a.trailer, "grpc-retry-pushback-ms"), strconv.FormatInt(retry.RetryDelay.AsDuration().Milliseconds(), 10))
	}
}

func TestDetailsInTheClientsLanguage(t *testing.T) {
	t.Parallel()
	s := serve(t, &service{}, grpclimit.New(limiter(t, core.Config{
		Store:   core.NewMemory(),
		Limits:  []core.Limit{core.PerHour(1).By(keyfuncs.Everyone())},
		Details: map[string]func(core.Decision) string{"de": func(core.Decision) string { return "Zu viele Anfragen." }},
	})))
	s.call(say)
	a := s.call(say, "accept-language", "de-CH, en;q=0.5")
	_, _, _, localized := detailsOf(a.status)
	if localized == nil || localized.Locale != "de" || localized.Message != "Zu viele Anfragen." {
		t.Errorf("LocalizedMessage: %v", localized)
	}
	want(t, "the message is English", strings.HasPrefix(a.status.Message(), "Rate limit exceeded."), true)
}

func TestHooks(t *testing.T) {
	t.Parallel()
	var logged atomic.Int32
	s := serve(t, &service{}, grpclimit.New(
		limiter(t, core.Config{Store: core.NewMemory(), Limits: []core.Limit{core.PerHour(1).By(keyfuncs.Everyone())}}),
		grpclimit.Config{
			Skip: func(_ context.Context, call grpclimit.Call) bool { return call.Method == ask },
			Denied: func(ctx context.Context, call grpclimit.Call, d core.Decision) error {
				logged.Add(1)
				slog.New(slog.DiscardHandler).InfoContext(ctx, "denied", "method", call.Method, "decision", d)
				switch strings.Join(metadata.ValueFromIncomingContext(ctx, "x-hook"), "") {
				case "own":
					return status.Error(codes.FailedPrecondition, "buy more")
				case "usual":
					return grpclimit.Deny(ctx, d)
				}
				return nil // by mistake
			},
		}))
	want(t, "first", s.call(say).code, codes.OK)
	want(t, "skipped", s.call(ask).code, codes.OK)
	a := s.call(say, "x-hook", "own")
	want(t, "own", a.code, codes.FailedPrecondition)
	want(t, "own: headers", only(t, a.trailer, "ratelimit-policy"), `"default";q=1;w=3600`)
	want(t, "usual", s.call(say, "x-hook", "usual").code, codes.ResourceExhausted)
	want(t, "none", s.call(say).code, codes.ResourceExhausted)
	want(t, "logged", logged.Load(), 3)
	if err := grpclimit.Deny(t.Context(), core.Decision{Allowed: true}); err != nil {
		t.Errorf("an allowed call has the error %v", err)
	}
}

// Options install both interceptors.
func TestOptions(t *testing.T) {
	t.Parallel()
	l := loopback(t)
	listen(t, l, &service{}, limited(t, core.NewMemory(), everyone(2, "calls")).Options()...)
	s := &site{t, dial(t, "passthrough:///"+l.Addr().String())}
	want(t, "a call", s.call(say).code, codes.OK)
	stream := s.open(t.Context(), chat)
	_ = stream.CloseSend()
	want(t, "a stream", endOf(stream.RecvMsg(new(text))), nil)
	want(t, "another call", s.call(say).code, codes.ResourceExhausted)
	want(t, "another stream", status.Code(s.open(t.Context(), chat).RecvMsg(new(text))), codes.ResourceExhausted)
}

func TestMistakesAtStart(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(){
		"no limiter": func() { grpclimit.New(nil) },
		"two Configs": func() {
			grpclimit.New(limiter(t, core.Config{Store: core.NewMemory(), Limits: []core.Limit{core.PerHour(1).By(keyfuncs.Everyone())}}), grpclimit.Config{}, grpclimit.Config{})
		},
		"two Configs of With": func() {
			grpclimit.With(core.Config{Store: core.NewMemory()}, grpclimit.Config{}, grpclimit.Config{})
		},
		"no limit":    func() { grpclimit.Limit(core.NewMemory()) },
		"no By":       func() { grpclimit.Limit(core.NewMemory(), core.PerHour(1)) },
		"no function": func() { grpclimit.Cost(nil) },
		"no key":      func() { grpclimit.Limit(core.NewMemory(), core.PerHour(1).By(grpclimit.Key("item", nil))) },
		"no condition": func() {
			grpclimit.Limit(core.NewMemory(), core.PerHour(1).By(keyfuncs.Everyone()).When(grpclimit.Matches(nil)))
		},
		"no load": func() { grpclimit.Measure(nil) },
		"a taken kind": func() {
			grpclimit.Limit(core.NewMemory(), core.PerHour(1).By(grpclimit.Key("ip", func(context.Context, grpclimit.Call) string { return "" })))
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

var advised atomic.Bool

// A limiter that is built for each call limits nobody, and says so.
func TestALimiterInAHandlerIsAdvisedAgainst(t *testing.T) {
	t.Parallel()
	if advised.Swap(true) {
		t.Skip("advice is logged once per process")
	}
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	s := serve(t, &service{say: func(_ context.Context, in *text) (*text, error) {
		_, err := core.New(core.Config{Store: core.NewMemory(), Logger: logger, Limits: []core.Limit{core.PerHour(1).By(keyfuncs.Everyone())}})
		return in, err
	}})
	want(t, "code", s.call(say).code, codes.OK)
	want(t, log.String(), strings.Contains(log.String(), string("WL003")), true)
}

// Where the client waits for its turn and hangs up, it gets its own status back.
func TestACallThatEndsInTheQueue(t *testing.T) {
	t.Parallel()
	s := serve(t, &service{}, limited(t, core.NewMemory(), core.PerHour(60).Burst(1).By(keyfuncs.Everyone()).LeakyBucket(30*time.Minute)))
	want(t, "first", s.call(say).code, codes.OK)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	want(t, "waits longer than its deadline", s.callWith(ctx, say).code, codes.DeadlineExceeded)
}

const retries = `{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":3,"initialBackoff":"0.001s","maxBackoff":"0.001s","backoffMultiplier":1,"retryableStatusCodes":["RESOURCE_EXHAUSTED","UNAVAILABLE"]}}]}`

// retrying is a site whose client retries.
func retrying(t *testing.T, s *service, in ...*grpclimit.Interceptors) *site {
	t.Helper()
	l := loopback(t)
	listen(t, l, s, options(in...)...)
	return &site{t, dial(t, "passthrough:///"+l.Addr().String(), grpc.WithDefaultServiceConfig(retries))}
}

// The retry policy of grpc-go waits as long as the limit says, and its own backoff of a
// millisecond is not used.
func TestRetryPoliciesWaitForTheLimit(t *testing.T) {
	t.Parallel()
	const window = time.Second // longer than two calls take, as a rule
	for attempts := 0; ; attempts++ {
		var denials, handled atomic.Int32
		var asked atomic.Pointer[time.Time] // when the last call was let through
		count := func(context.Context, grpclimit.Call, core.Decision) error { denials.Add(1); return nil }
		limit := core.Per(1, window).By(keyfuncs.Everyone())
		s := retrying(t, &service{say: func(_ context.Context, in *text) (*text, error) {
			now := time.Now()
			asked.Store(&now)
			handled.Add(1)
			return in, nil
		}},
			grpclimit.New(limiter(t, core.Config{Store: core.NewMemory(), Limits: []core.Limit{limit}}), grpclimit.Config{Denied: count}))
		began := time.Now()
		want(t, "first", s.call(say).code, codes.OK)
		want(t, "second", s.call(say).code, codes.OK)
		if waited := asked.Load().Sub(began); waited < window-100*time.Millisecond {
			t.Errorf("the second call was let through after %v, want about %v", waited, window)
		}
		want(t, "handled", handled.Load(), 2)
		if denials.Load() == 0 && attempts < 10 {
			continue // the machine stood still for a whole window between the two
		}
		want(t, "denials", denials.Load(), 1)
		return
	}
}

// A stream that is denied has sent nothing but trailers, so it is retried like a call.
func TestRetryPoliciesWaitForStreams(t *testing.T) {
	t.Parallel()
	const window = time.Second
	s := retrying(t, &service{}, limited(t, core.NewMemory(), core.Per(1, window).By(keyfuncs.Everyone())))
	began := time.Now()
	for range 2 {
		stream := s.open(t.Context(), chat)
		_ = stream.SendMsg(textOf("hello")) // is sent again
		reply := new(text)
		want(t, "reply", stream.RecvMsg(reply), nil)
		want(t, "text", reply.GetValue(), "hello")
		_ = stream.CloseSend()
		drain(stream)
	}
	if waited := time.Since(began); waited < window-100*time.Millisecond {
		t.Errorf("the second stream took %v, want about %v", waited, window)
	}
}

// Clients bound the metadata of a response, those in Java and C++ to 8 KB: a denial must not fail
// by its size, whatever its limits are called.
func TestADenialIsSmall(t *testing.T) {
	t.Parallel()
	var limits []core.Limit
	for i := range 12 {
		limits = append(limits, everyone(1, strings.Repeat("n", 62)+strconv.Itoa(10+i)))
	}
	s := serve(t, &service{}, grpclimit.New(limiter(t, core.Config{
		Store: core.NewMemory(), Limits: limits, Headers: core.Draft11 | core.Draft03 | core.XRateLimit,
	})))
	s.call(say)
	a := s.call(say)
	want(t, "code", a.code, codes.ResourceExhausted)
	size := 0
	for name, values := range a.trailer {
		for _, value := range values {
			size += len(name) + len(value) + 32 // as HTTP/2 counts
			if strings.HasSuffix(name, "-bin") {
				size += len(value) / 3 // base64
			}
		}
	}
	if size > 8<<10 {
		t.Errorf("the trailers have %d bytes", size)
	}
	want(t, "the details are among them", len(a.trailer["grpc-status-details-bin"]), 1)
}

func TestRetryPoliciesDoNotWaitInVain(t *testing.T) {
	t.Parallel()
	var denials atomic.Int32
	count := func(context.Context, grpclimit.Call, core.Decision) error { denials.Add(1); return nil }
	for name, tt := range map[string]struct {
		limit    core.Limit
		deadline time.Duration
	}{
		"longer than anybody waits": {core.PerHour(1).By(keyfuncs.Everyone()), time.Minute},
		"longer than the deadline":  {core.Per(1, 9*time.Second).By(keyfuncs.Everyone()), 6 * time.Second},
	} {
		for attempts := 0; ; attempts++ {
			denials.Store(0)
			s := retrying(t, &service{}, grpclimit.New(limiter(t, core.Config{Store: core.NewMemory(), Limits: []core.Limit{tt.limit}}), grpclimit.Config{Denied: count}))
			first := time.Now()
			want(t, name, s.call(say).code, codes.OK)
			ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
			began := time.Now()
			code := s.callWith(ctx, say).code
			cancel()
			if time.Since(first) > 2*time.Second && attempts < 10 && code != codes.ResourceExhausted {
				continue // the machine was so slow that what was left to wait fitted into the deadline, or nothing was left of that
			}
			want(t, name, code, codes.ResourceExhausted)
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("%s: the client was held for %v", name, took)
			}
			want(t, name+": attempts", denials.Load(), 1)
			break
		}
	}
}

// Headers that were sent before a failure would commit the call: its client would not retry.
func TestHeadersDoNotSwitchRetriesOff(t *testing.T) {
	t.Parallel()
	for name, in := range map[string][]*grpclimit.Interceptors{
		"no limiter": nil,
		"one":        {limited(t, core.NewMemory(), core.PerHour(9).By(keyfuncs.Everyone()))},
		"two":        {limited(t, core.NewMemory(), core.PerHour(9).By(keyfuncs.Everyone())), limited(t, core.NewMemory(), core.PerHour(9).By(keyfuncs.Everyone()))},
	} {
		var attempts atomic.Int32
		flaky := func() error {
			if attempts.Add(1) < 3 {
				return status.Error(codes.Unavailable, "moving")
			}
			return nil
		}
		s := retrying(t, &service{
			say:  func(_ context.Context, in *text) (*text, error) { return in, flaky() },
			chat: func(grpc.ServerStream) error { return flaky() },
		}, in...)
		want(t, name+": unary", s.call(say).code, codes.OK)
		want(t, name+": attempts", attempts.Swap(0), 3)
		stream := s.open(t.Context(), chat)
		want(t, name+": stream", endOf(stream.RecvMsg(new(text))), nil)
		want(t, name+": attempts", attempts.Load(), 3)
	}
}

// A handler that asks a limiter answers as the interceptors do, whether there are any or not.
func TestDenyInAHandler(t *testing.T) {
	t.Parallel()
	for name, around := range map[string][]*grpclimit.Interceptors{
		"alone":            nil,
		"behind a limiter": {limited(t, core.NewMemory(), everyone(9, "calls"))},
		"behind two":       {limited(t, core.NewMemory(), everyone(9, "calls")), limited(t, core.NewMemory(), everyone(9, "more"))},
	} {
		items := limiter(t, core.Config{Store: core.NewMemory(), Limits: []core.Limit{core.PerHour(1).By(keyfuncs.Everyone()).Named("items")}})
		ask := func(ctx context.Context) error { return grpclimit.Deny(ctx, items.AllowKey(ctx, "item:1", 1)) }
		s := serve(t, &service{
			say: func(ctx context.Context, in *text) (*text, error) { return in, ask(ctx) },
			chat: func(stream grpc.ServerStream) error {
				if err := stream.SendMsg(new(text)); err != nil { // headers are sent
					return err
				}
				return ask(stream.Context())
			},
		}, around...)
		want(t, name, s.call(say).code, codes.OK)
		a := s.call(say)
		stream := s.open(t.Context(), chat)
		want(t, name+": the first message", stream.RecvMsg(new(text)), nil)
		streamed := answer{status: status.Convert(stream.RecvMsg(new(text)))}
		streamed.trailer = stream.Trailer()
		for _, a := range []answer{a, streamed} {
			want(t, name, a.status.Code(), codes.ResourceExhausted)
			_, retry, quota, _ := detailsOf(a.status)
			if retry == nil || quota == nil || quota.Violations[0].Subject != "items" {
				t.Errorf("%s: details: %v", name, a.status.Details())
			}
			want(t, name+": policy", strings.HasSuffix(only(t, a.trailer, "ratelimit-policy"), `"items";q=1;w=3600`), true)
			want(t, name+": pushback", only(t, a.trailer, "grpc-retry-pushback-ms"), "-1")
			want(t, name+": Retry-After", only(t, a.trailer, "retry-after") != "", true)
		}
		want(t, name+": header metadata of a denial", len(a.header), 0)
	}
}

// A plan that is used up is no invalid argument: it is a limit, for which no client's policy waits. A hidden one is not named.
func TestAPlanThatIsUsedUp(t *testing.T) {
	t.Parallel()
	s := serve(t, &service{}, limited(t, core.NewMemory(), core.PerSecond(1).FixedWindow().By(keyfuncs.Everyone()).Named("plan").Cost(1).Status(402).Hidden()))
	for range 3 { // the second may be in the next window
		if a := s.call(say); a.code != codes.OK {
			want(t, "code", a.code, codes.ResourceExhausted)
			info, retry, quota, _ := detailsOf(a.status)
			if info == nil || retry == nil || quota != nil {
				t.Fatalf("details: %v", a.status.Details())
			}
			want(t, "pushback", only(t, a.trailer, "grpc-retry-pushback-ms"), "-1")
			want(t, "the limit is not told", strings.Contains(a.status.Proto().String(), "plan") || len(a.trailer["ratelimit"]) > 0, false)
			return
		}
	}
	t.Error("nothing was denied")
}
