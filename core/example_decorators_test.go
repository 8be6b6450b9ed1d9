package core_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/keyfuncs"
)

// An upload costs one unit per kilobyte.
func ExampleLimit_CostBy() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerHour(1000).By(keyfuncs.User("userID")).CostBy(func(r keyfuncs.Request) int64 {
			length, _ := r.Header("Content-Length", 0)
			n, err := strconv.ParseInt(length, 10, 64)
			if err != nil {
				return 100 // for an upload of unknown length
			}
			return 1 + n/1024
		}),
	})
	for _, length := range []string{"700000", "300000", "400000", "-2048"} {
		d := limiter.Allow(&request{
			values:  map[any]any{"userID": "alice"},
			headers: map[string]string{"Content-Length": length},
		})
		fmt.Println(d.Allowed, "-", d.Reason)
	}
	// Output:
	// true - within limit
	// true - within limit
	// false - limit exceeded
	// false - invalid cost
}

func ExampleLimit_When() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerHour(1).By(keyfuncs.ClientIP()).Named("writes").When(keyfuncs.Methods("POST", "PUT", "DELETE")),
	})
	for _, method := range []string{"POST", "GET", "GET", "POST"} {
		fmt.Println(method, limiter.Allow(&request{method: method, peer: "192.0.2.1"}).Allowed)
	}
	// Output:
	// POST true
	// GET true
	// GET true
	// POST false
}

func ExampleLimit_Unless() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerHour(1).By(keyfuncs.ClientIP()).Unless(keyfuncs.FromCIDR("10.0.0.0/8")),
	})
	for _, peer := range []string{"192.0.2.1", "192.0.2.1", "10.1.2.3", "10.1.2.3"} {
		fmt.Println(peer, limiter.Allow(&request{peer: peer}).Allowed)
	}
	// Output:
	// 192.0.2.1 true
	// 192.0.2.1 false
	// 10.1.2.3 true
	// 10.1.2.3 true
}

// Each plan has its own numbers. The units used before an upgrade stay used.
func ExampleLimit_Tiers() {
	plans := map[any]core.Limit{
		"pro":  core.PerHour(1000),
		"team": core.PerHour(5000).Burst(8000),
	}
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerHour(100).By(keyfuncs.User("userID")).Cost(60).Tiers(func(r keyfuncs.Request) core.Limit {
			return plans[r.Value("plan")] // the zero Limit for all others
		}),
	})
	for _, plan := range []any{nil, nil, "pro", "team"} {
		d := limiter.Allow(&request{values: map[any]any{"userID": "alice", "plan": plan}})
		b, _ := d.Binding()
		fmt.Println(d.Allowed, "-", b.Remaining, "of", b.Rule.Burst)
	}
	// Output:
	// true - 40 of 100
	// false - 40 of 100
	// true - 880 of 1000
	// true - 7820 of 8000
}

func ExampleLimit_OnMissingKey() {
	byKey := core.PerHour(1).By(keyfuncs.APIKey())
	for _, missing := range []core.MissingKey{core.ShareBucket, core.DenyRequest, core.SkipLimit} {
		limiter := core.ForLimits(core.NewMemory(), []core.Limit{byKey.OnMissingKey(missing)})
		first, second := limiter.Allow(&request{}), limiter.Allow(&request{}) // without a key
		fmt.Println(first.Allowed, second.Allowed, "-", second.Reason)
	}
	// Output:
	// true false - limit exceeded
	// false false - missing key
	// true true - within limit
}

func ExampleLimit_OnOutage() {
	down := newFlaky(true) // a store that does not answer
	login := core.PerHour(5).By(keyfuncs.Everyone()).Named("login")
	for _, outage := range []core.OutageAction{core.Local, core.Allow, core.Deny} {
		limiter := core.ForLimits(down, []core.Limit{login.OnOutage(outage)})
		d := limiter.Allow(&request{})
		fmt.Println(d.Allowed, "-", d.Reason, "-", d.Err)
	}
	// Output:
	// true - outage local - connection refused
	// true - outage allowed - connection refused
	// false - outage denied - connection refused
}

// A limit on trial shows which requests it would have denied, and denies none.
func ExampleLimit_Shadow() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerHour(1).By(keyfuncs.ClientIP()).Named("strict").Shadow(),
		core.PerHour(10).By(keyfuncs.ClientIP()).Named("usual"),
	})
	for range 2 {
		d := limiter.Allow(&request{peer: "192.0.2.1"})
		h := http.Header{}
		d.SetHeaders(h)
		fmt.Println(d.Allowed, "-", d.Reason, "-", h.Get("RateLimit-Policy"))
	}
	// Output:
	// true - within limit - "usual";q=10;w=3600
	// true - shadowed - "usual";q=10;w=3600
}

func ExampleLimit_WarnAt() {
	limiter, err := core.New(core.Config{
		Store: core.NewMemory(),
		Limits: []core.Limit{
			core.PerDay(10).FixedWindow().By(keyfuncs.User("userID")).Named("daily").WarnAt(0.8, 1),
		},
		OnWarning: func(_ context.Context, w core.Warning) { // once per user, day and level
			fmt.Printf("mail to %s: %d of %d used\n", w.Key, w.Used, w.Burst)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 10 {
		d := limiter.Allow(&request{values: map[any]any{"userID": "alice"}})
		h := http.Header{}
		d.SetHeaders(h)
		if warning := h.Get("X-RateLimit-Warning"); warning != "" {
			fmt.Println(warning)
		}
	}
	// Output:
	// mail to user:alice: 8 of 10 used
	// approaching limit; policy="daily"; used=80%
	// approaching limit; policy="daily"; used=90%
	// mail to user:alice: 10 of 10 used
	// approaching limit; policy="daily"; used=100%
}

// A client repeats a payment because it got no response. It is charged once.
func ExampleLimit_OncePer() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerHour(2).By(keyfuncs.User("userID")).OncePer(keyfuncs.Header("Idempotency-Key"), 24*time.Hour),
	})
	for _, operation := range []string{"pay-17", "pay-17", "pay-18", "pay-19", "pay-17"} {
		d := limiter.Allow(&request{
			values:  map[any]any{"userID": "alice"},
			headers: map[string]string{"Idempotency-Key": operation},
		})
		r := d.Results()[0]
		fmt.Println(operation, "allowed:", d.Allowed, "repeated:", r.Repeated, "remaining:", r.Remaining)
	}
	// Output:
	// pay-17 allowed: true repeated: false remaining: 1
	// pay-17 allowed: true repeated: true remaining: 1
	// pay-18 allowed: true repeated: false remaining: 0
	// pay-19 allowed: false repeated: false remaining: 0
	// pay-17 allowed: true repeated: true remaining: 0
}

// A middleware in front of the limiter has stored a digest of the body, so the same key
// with another body is another payment.
func ExampleLimit_Repeats() {
	digest := keyfuncs.Custom("digest", func(r keyfuncs.Request) string {
		sum, _ := r.Value("body digest").(string)
		return sum
	})
	operation := keyfuncs.Join(keyfuncs.Header("Idempotency-Key"), digest)
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.PerHour(9).By(keyfuncs.User("userID")).OncePer(operation, 24*time.Hour).Repeats(100),
	})
	for _, body := range []string{"5 euros", "5 euros", "500 euros"} {
		sum := sha256.Sum256([]byte(body))
		d := limiter.Allow(&request{
			values:  map[any]any{"userID": "alice", "body digest": hex.EncodeToString(sum[:])},
			headers: map[string]string{"Idempotency-Key": "pay-17"},
		})
		fmt.Println(body, "repeated:", d.Results()[0].Repeated)
	}
	// Output:
	// 5 euros repeated: false
	// 5 euros repeated: true
	// 500 euros repeated: false
}

// At most two reports run at once for each user, however long they take.
func ExampleConcurrent() {
	limiter := core.ForLimits(core.NewMemory(), []core.Limit{
		core.Concurrent(2).By(keyfuncs.User("userID")).Named("reports"),
	})
	for range 3 {
		d := limiter.Allow(&request{values: map[any]any{"userID": "alice"}})
		h := http.Header{}
		d.SetHeaders(h)
		fmt.Println(d.Allowed, h.Get("RateLimit-Policy"), h.Get("RateLimit"))
	}
	// Output:
	// true "reports";q=2;qu="concurrent-requests" "reports";r=1;t=1
	// true "reports";q=2;qu="concurrent-requests" "reports";r=0;t=1
	// false "reports";q=2;qu="concurrent-requests" "reports";r=0;t=1
}

// A store holds a slot until it is given back, or until its lease ends after it was
// taken or last renewed.
func ExampleLimit_Lease() {
	rule, err := core.Concurrent(1).Lease(10 * time.Second).Rule()
	if err != nil {
		fmt.Println(err)
		return
	}
	store, ctx := core.NewMemory(), context.Background()
	checks := []core.Check{{Key: []byte("export"), Rule: &rule, Cost: 1}}
	mine, another := make([]core.Result, 1), make([]core.Result, 1)

	_ = store.Take(ctx, checks, mine)
	_ = store.Renew(ctx, checks, mine) // every few seconds, while the export runs
	_ = store.Take(ctx, checks, another)
	fmt.Println(mine[0].Charged, another[0].Charged, another[0].RetryAfter)

	_ = store.Refund(ctx, checks, mine) // when it is done
	_ = store.Take(ctx, checks, another)
	fmt.Println(another[0].Charged)
	// Output:
	// true false 1s
	// true
}

// A monthly quota of 1000 calls, of which the last 200 are served with less.
func ExampleLimit_Soft() {
	limiter, err := core.New(core.Config{
		Store:  core.NewMemory(),
		Limits: []core.Limit{core.PerMonth(1000, time.UTC).Soft(800).By(keyfuncs.User("userID")).Named("monthly")},
		OnWarning: func(_ context.Context, w core.Warning) {
			fmt.Printf("mail to %s: %d of %d used\n", w.Key, w.Used, w.Burst)
		},
	})
	if err != nil {
		panic(err)
	}
	for _, cost := range []int64{700, 100, 50, 100} {
		d := limiter.AllowKey(context.Background(), "user:42", cost)
		fmt.Println(d.Allowed, d.OverSoft())
	}
	// Output:
	// true false
	// mail to user:42: 800 of 1000 used
	// true false
	// true true
	// mail to user:42: 950 of 1000 used
	// true true
}
