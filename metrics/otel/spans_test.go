package otel_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
	weblimitotel "github.com/weblimit/weblimit/metrics/otel"
)

// story tells what was traced, a line for each span, its events below it, the times since began.
func (s *sdk) story(began time.Time) (lines []string) {
	for _, span := range s.spans.Ended() {
		status := ""
		if span.Status().Code != codes.Unset {
			status = fmt.Sprintf(" %v: %s", span.Status().Code, span.Status().Description)
		}
		lines = append(lines, fmt.Sprintf("%s (%v) %v to %v %s%s", span.Name(), span.SpanKind(),
			span.StartTime().Sub(began), span.EndTime().Sub(began), text(span.Attributes()), status))
		for _, e := range span.Events() {
			lines = append(lines, fmt.Sprintf("- %s %v %s", e.Name, e.Time.Sub(began), text(e.Attributes)))
		}
	}
	return lines
}

func TestSpans(t *testing.T) {
	t.Parallel()
	user := core.PerHour(1).By(everyone).Named("user")
	for _, tt := range []struct {
		name   string
		store  core.Store // in memory, if nil
		limits []core.Limit
		asks   int           // the last of them is traced
		held   time.Duration // how long another request holds a slot, if above 0
		want   []string
	}{
		{
			name: "an allowed request", store: newSlow(3*time.Millisecond, nil), limits: []core.Limit{user}, asks: 1,
			want: []string{
				"weblimit.check (client) 0s to 3ms {}",
				"GET /items/:id (internal) 0s to 3ms {decision=allowed limit=user reason=within_limit remaining=0}",
			},
		},
		{
			name: "a denied request", store: newSlow(3*time.Millisecond, nil), limits: []core.Limit{user}, asks: 2,
			want: []string{
				"weblimit.check (client) 0s to 3ms {}",
				"GET /items/:id (internal) 0s to 3ms {decision=denied limit=user reason=limit_exceeded remaining=0}",
				"- weblimit.denied 3ms {decision=denied limit=user reason=limit_exceeded retry_after_ms=3599997}",
			},
		},
		{
			name: "a request that a limit in shadow mode would deny", store: newSlow(3*time.Millisecond, nil), asks: 2,
			limits: []core.Limit{core.PerHour(9).By(everyone).Named("wide"), user.Shadow()},
			want: []string{
				"weblimit.check (client) 0s to 3ms {}",
				"GET /items/:id (internal) 0s to 3ms {decision=allowed limit=wide reason=shadowed remaining=7}",
				"- weblimit.would_be_denied 3ms {limit=user reason=limit_exceeded retry_after_ms=3599997}",
			},
		},
		{
			name: "an outage", store: newSlow(3*time.Millisecond, errDown), limits: []core.Limit{user}, asks: 1,
			want: []string{
				"weblimit.check (client) 0s to 3ms {error.type=READONLY store.node=10.0.0.7:6379} Error: READONLY",
				"GET /items/:id (internal) 0s to 3ms {decision=allowed limit=user reason=outage_local remaining=0}",
			},
		},
		{
			name: "an outage in which the store is not asked any more", limits: []core.Limit{user.OnOutage(core.Deny)}, asks: 1,
			store: newSlow(time.Microsecond, &store.Error{Class: store.ClassOpen}),
			want: []string{
				"weblimit.check (client) 0s to 1µs {error.type=breaker_open} Error: breaker open",
				"GET /items/:id (internal) 0s to 1µs {decision=denied limit=user reason=outage_denied}",
				"- weblimit.denied 1µs {decision=denied limit=user reason=outage_denied retry_after_ms=1000}",
			},
		},
		{
			name: "an outage of a store with errors of its own", store: newSlow(3*time.Millisecond, context.DeadlineExceeded), limits: []core.Limit{user.OnOutage(core.Allow)}, asks: 1,
			want: []string{
				"weblimit.check (client) 0s to 3ms {error.type=timeout} Error: timeout",
				"GET /items/:id (internal) 0s to 3ms {decision=allowed limit=user reason=outage_allowed}",
			},
		},
		{
			name: "a request that waits", store: newSlow(3*time.Millisecond, nil), asks: 2,
			limits: []core.Limit{core.PerSecond(1).LeakyBucket(time.Minute).By(everyone).Named("queue")},
			want: []string{
				"weblimit.check (client) 0s to 3ms {}",
				"weblimit.wait (internal) 3ms to 1s {}",
				"GET /items/:id (internal) 0s to 1s {decision=allowed limit=queue reason=delayed remaining=0}",
			},
		},
		{
			name: "a request that asks in turn until a slot is free", store: newSlow(3*time.Millisecond, nil), asks: 1, held: 10 * time.Millisecond,
			limits: []core.Limit{core.Concurrent(1).Wait(time.Minute).By(everyone).Named("slots")},
			want: []string{
				"weblimit.check (client) 0s to 13ms {}",
				"weblimit.wait (internal) 0s to 13ms {}",
				"GET /items/:id (internal) 0s to 13ms {decision=allowed limit=slots reason=delayed remaining=0}",
			},
		},
		{
			name: "a request in memory makes no span of its own", limits: []core.Limit{user}, asks: 1,
			want: []string{"GET /items/:id (internal) 0s to 0s {decision=allowed limit=user reason=within_limit remaining=0}"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if tt.store == nil {
					tt.store = core.NewMemory()
				}
				seen := newSDK(t, weblimitotel.Config{})
				l := newLimiter(t, core.Config{Store: tt.store, Observe: seen, Limits: tt.limits})
				for range tt.asks - 1 {
					ask(t.Context(), l, "/items/:id")
				}
				if tt.held > 0 {
					other := l.Allow(&request{ctx: t.Context()})
					time.AfterFunc(tt.held, func() { other.Settle(core.Outcome{}) })
				}
				began := time.Now()
				seen.in(func(ctx context.Context) { ask(ctx, l, "/items/:id") })
				must.Equal(t, "traced", strings.Join(seen.story(began), "\n"), strings.Join(tt.want, "\n"))
				parent := seen.spans.Ended()[len(seen.spans.Ended())-1].SpanContext()
				for _, span := range seen.spans.Ended() {
					if own := span.SpanContext(); own.TraceID() != parent.TraceID() || own.SpanID() != parent.SpanID() && span.Parent().SpanID() != parent.SpanID() {
						t.Errorf("%s is not below the request's span", span.Name())
					}
				}
			})
		})
	}
}

// asked counts the spans that a provider is asked for.
type asked struct {
	trace.TracerProvider
	spans int
}

type askedTracer struct {
	trace.Tracer
	of *asked
}

func (a *asked) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	return askedTracer{a.TracerProvider.Tracer(name, options...), a}
}

func (a askedTracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	a.of.spans++
	return a.Tracer.Start(ctx, name, options...)
}

// Nothing is made for requests that are not sampled, and no trace begins where there is none.
func TestSamplingIsRespected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := newSDK(t, weblimitotel.Config{}, sdktrace.WithSampler(sdktrace.NeverSample()))
		tracers := &asked{TracerProvider: seen.traces}
		o := weblimitotel.Must(weblimitotel.New(weblimitotel.Config{TracerProvider: tracers}))
		l := newLimiter(t, core.Config{Store: newSlow(time.Millisecond, nil), Observe: o, Limits: []core.Limit{core.PerHour(1).By(everyone)}})
		for range 3 {
			seen.in(func(ctx context.Context) { ask(ctx, l, "/") })
			ask(t.Context(), l, "/")
			l.AllowKey(t.Context(), "k", 1)
		}
		if tracers.spans != 0 || len(seen.spans.Started()) != 0 {
			t.Errorf("%d spans were made, %d recorded", tracers.spans, len(seen.spans.Started()))
		}
	})
}

// The request's span is described whatever tracer the observer has.
func TestWithoutATracerTheRequestsSpanIsStillDescribed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := newSDK(t, weblimitotel.Config{})
		o := weblimitotel.Must(weblimitotel.New(weblimitotel.Config{})) // the global one, which is not set
		l := newLimiter(t, core.Config{Store: newSlow(time.Millisecond, nil), Observe: o, Limits: []core.Limit{core.PerHour(1).By(everyone)}})
		seen.in(func(ctx context.Context) { ask(ctx, l, "/") })
		if spans := seen.spans.Ended(); len(spans) != 1 || len(spans[0].Attributes()) != 4 {
			t.Errorf("traced %q", seen.story(time.Now()))
		}
	})
}

func TestLogAttrs(t *testing.T) {
	t.Parallel()
	if got := weblimitotel.LogAttrs(t.Context()); got != nil {
		t.Errorf("without a trace: %v", got)
	}
	seen := newSDK(t, weblimitotel.Config{})
	seen.in(func(ctx context.Context) {
		span := trace.SpanContextFromContext(ctx)
		check.Equal(t, "attributes", fmt.Sprint(weblimitotel.LogAttrs(ctx)), fmt.Sprintf("[trace_id=%s span_id=%s]", span.TraceID(), span.SpanID()))
	})
}
