package core_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/keyfuncs"
)

var ctx = context.Background()

// describe prints the RateLimit-Policy header of each limit.
func describe(limits ...core.Limit) {
	for _, limit := range limits {
		d := core.ForLimits(core.NewMemory(), []core.Limit{limit}).AllowKey(ctx, "user:42", 1)
		h := http.Header{}
		d.SetHeaders(h)
		fmt.Println(h.Get("RateLimit-Policy"))
	}
}

func ExamplePer() {
	describe(core.Per(100, 15*time.Minute).By(keyfuncs.ClientIP()))
	// Output: "default";q=100;w=900
}

func ExamplePerSecond() {
	describe(core.PerSecond(50).By(keyfuncs.ClientIP()))
	// Output: "default";q=50;w=1
}

func ExamplePerMinute() {
	describe(core.PerMinute(300).By(keyfuncs.ClientIP()))
	// Output: "default";q=300;w=60
}

func ExamplePerHour() {
	describe(core.PerHour(1000).By(keyfuncs.ClientIP()))
	// Output: "default";q=1000;w=3600
}

func ExamplePerDay() {
	describe(core.PerDay(100_000).By(keyfuncs.ClientIP()))
	// Output: "default";q=100000;w=86400
}

// A limit can be kept in a variable and others derived from it.
func ExampleLimit() {
	perUser := core.PerMinute(600).By(keyfuncs.User("userID"))
	search := perUser.Named("search").Burst(20)
	describe(perUser, search)
	// Output:
	// "default";q=600;w=60
	// "search";q=20;w=2
}

func ExampleLimit_By() {
	byUser := core.PerHour(1).By(keyfuncs.User("userID"))
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{byUser})

	alice := &request{values: map[any]any{"userID": "alice"}}
	bob := &request{values: map[any]any{"userID": "bob"}}
	fmt.Println(limiter.Allow(alice).Allowed)
	fmt.Println(limiter.Allow(alice).Allowed)
	fmt.Println(limiter.Allow(bob).Allowed)
	// Output:
	// true
	// false
	// true
}

// Several keys are joined: a bucket for each combination.
func ExampleLimit_By_several() {
	byUserAndIP := core.PerHour(1).By(keyfuncs.User("userID"), keyfuncs.ClientIP())
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{byUserAndIP})

	values := map[any]any{"userID": "alice"}
	fmt.Println(limiter.Allow(&request{values: values, peer: "192.0.2.1"}).Allowed)
	fmt.Println(limiter.Allow(&request{values: values, peer: "192.0.2.2"}).Allowed)
	fmt.Println(limiter.Allow(&request{values: values, peer: "192.0.2.1"}).Allowed)
	// Output:
	// true
	// true
	// false
}

// Equal limits with one name share their buckets, so two routes can spend one quota.
func ExampleLimit_Named() {
	store := core.NewMemory()
	api := core.PerHour(10).By(keyfuncs.User("userID")).Named("api")
	list := core.ForLimits(store, []core.Limit{api})
	export := core.ForLimits(store, []core.Limit{api.Cost(5)})

	alice := &request{values: map[any]any{"userID": "alice"}}
	for _, limiter := range []*core.Limiter{list, export, list} {
		d := limiter.Allow(alice)
		b, _ := d.Binding()
		fmt.Println(b.Rule.Name, b.Remaining)
	}
	// Output:
	// api 9
	// api 4
	// api 3
}

// A client can save up two units. The long-run rate stays one per minute.
func ExampleLimit_Burst() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerHour(60).Burst(2).By(keyfuncs.ClientIP()),
	})
	for range 3 {
		d := limiter.AllowKey(ctx, "ip:192.0.2.1", 1)
		fmt.Println(d.Allowed, d.RetryAfter.Round(time.Minute))
	}
	// Output:
	// true 0s
	// true 0s
	// false 1m0s
}

// A bucket that holds an hour's worth refills one unit a minute.
func ExampleLimit_TokenBucket() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerHour(60).TokenBucket().By(keyfuncs.ClientIP()),
	})
	limiter.AllowKey(ctx, "ip:192.0.2.1", 60)
	d := limiter.AllowKey(ctx, "ip:192.0.2.1", 1)
	fmt.Println(d.Allowed, d.RetryAfter.Round(time.Minute))
	// Output: false 1m0s
}

// A quota per day that starts afresh at 0:00 UTC.
func ExampleLimit_FixedWindow() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerDay(1000).FixedWindow().By(keyfuncs.User("userID")),
	})
	d := limiter.AllowKey(ctx, keyfuncs.Encode("user", "42"), 1)
	b, _ := d.Binding()

	midnight := time.UnixMicro(b.At).Add(b.ResetAfter).UTC()
	fmt.Println(b.Remaining, "until", midnight.Format("15:04:05"))
	// Output: 999 until 00:00:00
}

func ExampleLimit_SlidingWindow() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerHour(3).SlidingWindow().By(keyfuncs.ClientIP()),
	})
	for range 4 {
		fmt.Println(limiter.AllowKey(ctx, "ip:192.0.2.1", 1).Allowed)
	}
	// Output:
	// true
	// true
	// true
	// false
}

// Five attempts to sign in within any fifteen minutes, exactly.
func ExampleLimit_SlidingLog() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.Per(5, 15*time.Minute).SlidingLog().By(keyfuncs.ClientIP()).Named("login"),
	})
	for range 5 {
		limiter.AllowKey(ctx, "ip:192.0.2.1", 1)
	}
	d := limiter.AllowKey(ctx, "ip:192.0.2.1", 1)
	fmt.Println(d.Allowed, d.RetryAfter.Round(time.Minute))
	// Output: false 15m0s
}

// The windows of each key begin at an offset of their own, the same in all processes.
func ExampleLimit_Jitter() {
	rule, err := core.PerHour(1000).FixedWindow().Jitter().Rule()
	if err != nil {
		panic(err)
	}
	for _, key := range []string{"user:alice", "user:bob"} {
		offset := time.Duration(counting.Offset(&rule, []byte(key))) * time.Microsecond
		fmt.Println(key, offset.Round(time.Second))
	}
	// Output:
	// user:alice 45m7s
	// user:bob 9m29s
}

// A customer buys a hundred messages in five hours, which begin with the first message.
func ExampleLimit_FromFirstUse() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.Per(100, 5*time.Hour).FromFirstUse().By(keyfuncs.User("userID")).Named("messages"),
	})
	for range 2 {
		d, err := limiter.Peek(ctx, "user:alice", 1)
		if err != nil {
			panic(err)
		}
		r := d.Results()[0]
		fmt.Println(r.Remaining, "left, for", r.ResetAfter.Round(time.Minute))
		limiter.AllowKey(ctx, "user:alice", 1)
	}
	// Output:
	// 100 left, for 5h0m0s
	// 99 left, for 5h0m0s
}

func ExampleLimit_Cost() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerHour(20).By(keyfuncs.Everyone()).Cost(8).Named("export"),
	})
	for range 3 {
		d := limiter.Allow(&request{})
		b, _ := d.Binding()
		fmt.Println(d.Allowed, b.Remaining)
	}
	// Output:
	// true 12
	// true 4
	// false 4
}

// Rule reports what is wrong with a limit before it is used.
func ExampleLimit_Rule() {
	_, err := core.PerSecond(10).Named("key").Cost(50).Rule()
	fmt.Println(err)
	// Output: weblimit: limit "key": cost 50 can never fit: the limit holds at most 10
}

func ExampleNew() {
	limiter, err := core.New(core.Config{
		Store: core.NewMemory(),
		Limits: []core.Limit{
			core.PerSecond(60).Burst(120).By(keyfuncs.User("userID")).Named("user"),
			core.PerDay(100_000).FixedWindow().By(keyfuncs.User("userID")).Named("daily"),
			core.PerSecond(5000).By(keyfuncs.Everyone()).Named("all"),
		},
		Timeout:  50 * time.Millisecond,
		Replicas: 4,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	d := limiter.Allow(&request{values: map[any]any{"userID": "alice"}})
	for _, r := range d.Results() {
		fmt.Println(r.Rule.Name, r.Remaining)
	}
	// Output:
	// user 119
	// daily 99999
	// all 4999
}

// A limit that can't work is an error when the limiter is made.
func ExampleNew_error() {
	_, err := core.New(core.Config{
		Store:  core.NewMemory(),
		Limits: []core.Limit{core.PerMinute(300)},
	})
	fmt.Println(err)
	// Output: weblimit: limit "default": By is missing: say whose requests are counted, such as By(keyfuncs.ClientIP()); AllowKey takes the key instead and ignores it, so any will do there; Guard is for handlers that give the key, and takes none
}

func ExampleMust() {
	limiter := core.Must(core.New(core.Config{
		Store:  core.NewMemory(),
		Limits: []core.Limit{core.PerMinute(300).By(keyfuncs.ClientIP())},
	}))
	fmt.Println(limiter.AllowKey(ctx, "ip:192.0.2.1", 1).Allowed)
	// Output: true
}

func ExampleForLimits() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerMinute(300).By(keyfuncs.ClientIP()),
	})
	fmt.Println(limiter.AllowKey(ctx, "ip:192.0.2.1", 1).Allowed)
	// Output: true
}

func ExampleNewMemory() {
	store := core.NewMemory()
	limiter := core.ForLimits(store, []core.Limit{core.PerHour(2).By(keyfuncs.ClientIP())})
	for range 3 {
		fmt.Println(limiter.AllowKey(ctx, "ip:192.0.2.1", 1).Allowed)
	}
	// Output:
	// true
	// true
	// false
}

func ExampleNewMemory_maxBuckets() {
	store := core.NewMemory(memstore.Config{MaxBuckets: 10_000})
	limiter := core.ForLimits(store, []core.Limit{core.PerHour(2).By(keyfuncs.ClientIP())})
	fmt.Println(limiter.AllowKey(ctx, "ip:192.0.2.1", 1).Allowed)
	// Output: true
}

// A job spends from the same bucket as the requests of its user.
func ExampleLimiter_AllowKey() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerHour(100).By(keyfuncs.User("userID")),
	})
	limiter.Allow(&request{values: map[any]any{"userID": 42}})

	d := limiter.AllowKey(ctx, keyfuncs.Encode("user", "42"), 30)
	b, _ := d.Binding()
	fmt.Println(d.Allowed, b.Remaining)

	d = limiter.AllowKey(ctx, "tenant:acme", 101) // any string will do
	fmt.Println(d.Allowed, d.Reason, d.RetryAfter)
	// Output:
	// true 69
	// false never fits 0s
}

// A loop that waits for room. It ends: with a cost above the burst, RetryAfter is 0.
func ExampleLimiter_AllowKey_loop() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerSecond(100).Burst(10).By(keyfuncs.User("userID")).Named("jobs"),
	})
	run := func(ctx context.Context, units int64, job func()) error {
		for {
			d := limiter.AllowKey(ctx, "user:42", units)
			switch {
			case d.Allowed:
				job()
				return nil
			case d.RetryAfter == 0: // waiting can't help
				return fmt.Errorf("%d units: %v", units, d.Reason)
			}
			select {
			case <-time.After(d.RetryAfter):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	for _, units := range []int64{10, 5, 11} {
		if err := run(ctx, units, func() { fmt.Println(units, "units: done") }); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// 10 units: done
	// 5 units: done
	// 11 units: never fits
}

func ExampleLimiter_Allow() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerHour(1).By(keyfuncs.ClientIP()),
	})
	for range 2 {
		d := limiter.Allow(&request{peer: "192.0.2.1"}) // adapters wrap their framework's request
		fmt.Println(d.Allowed, "-", d.Reason)
	}
	// Output:
	// true - within limit
	// false - limit exceeded
}

func ExampleLimiter_Peek() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{core.PerHour(10).By(keyfuncs.ClientIP())})
	limiter.AllowKey(ctx, "ip:192.0.2.1", 7)
	for range 2 {
		d, err := limiter.Peek(ctx, "ip:192.0.2.1", 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		b, _ := d.Binding()
		fmt.Println(d.Allowed, b.Remaining)
	}
	// Output:
	// true 3
	// true 3
}

func ExampleLimiter_Reset() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{core.PerHour(1).By(keyfuncs.User("userID"))})
	fmt.Println(limiter.AllowKey(ctx, "user:alice", 1).Allowed)
	fmt.Println(limiter.AllowKey(ctx, "user:alice", 1).Allowed)

	if err := limiter.Reset(ctx, "user:alice"); err != nil {
		fmt.Println(err)
	}
	fmt.Println(limiter.AllowKey(ctx, "user:alice", 1).Allowed)
	// Output:
	// true
	// false
	// true
}

// The headers of a denied request.
func ExampleDecision_SetHeaders() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerMinute(1).By(keyfuncs.ClientIP()).Named("burst"),
		core.PerDay(1000).By(keyfuncs.ClientIP()).Named("daily"),
	})
	limiter.AllowKey(ctx, "ip:192.0.2.1", 1)
	d := limiter.AllowKey(ctx, "ip:192.0.2.1", 1)

	h := http.Header{}
	d.SetHeaders(h)
	fmt.Println("RateLimit-Policy:", h.Get("RateLimit-Policy"))
	fmt.Println("RateLimit:", h.Get("RateLimit"))
	fmt.Println("Retry-After:", h.Get("Retry-After"))
	// Output:
	// RateLimit-Policy: "burst";q=1;w=60, "daily";q=1000;w=86400
	// RateLimit: "burst";r=0;t=60, "daily";r=999;t=86314
	// Retry-After: 60
}

func ExampleDecision_AppendProblem() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{core.PerMinute(1).By(keyfuncs.ClientIP())})
	limiter.AllowKey(ctx, "ip:192.0.2.1", 1)
	d := limiter.AllowKey(ctx, "ip:192.0.2.1", 1)

	fmt.Println(d.Status())
	body, _ := d.AppendProblem(nil, "")
	fmt.Printf("%s\n", body)
	// Output:
	// 429
	// {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"detail":"Rate limit exceeded. Retry in 60 seconds.","violated-policies":["default"]}
}

func ExampleDecision_Binding() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerMinute(100).By(keyfuncs.ClientIP()).Named("burst"),
		core.PerDay(50).By(keyfuncs.ClientIP()).Named("daily"),
	})
	d := limiter.AllowKey(ctx, "ip:192.0.2.1", 1)
	if b, ok := d.Binding(); ok {
		fmt.Printf("%s: %d of %d remaining\n", b.Rule.Name, b.Remaining, b.Rule.Burst)
	}
	// Output: daily: 49 of 50 remaining
}

// A decision in a structured log never holds the key.
func ExampleDecision_LogValue() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{core.PerHour(10).By(keyfuncs.User("userID")).Named("api")})
	logger.Info("job", "limit", limiter.AllowKey(ctx, "user:alice", 4))
	// Output: level=INFO msg=job limit.allowed=true limit.reason="within limit" limit.limit=api limit.remaining=6
}

func ExampleFromContext() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{core.PerHour(10).By(keyfuncs.ClientIP())})

	// Middleware:
	ctx := core.NewContext(ctx, limiter.AllowKey(ctx, "ip:192.0.2.1", 1))

	// The handler:
	if d, ok := core.FromContext(ctx); ok {
		b, _ := d.Binding()
		fmt.Println(b.Remaining, "left this hour")
	}
	// Output: 9 left this hour
}
