package quota_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/memstore"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/quota"
)

// A book in PostgreSQL, beside the store that decides: in production a redisstore.Store.
func ExampleOpen() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	book, err := quota.Open(ctx, pool, quota.Config{Store: core.NewMemory()})
	if err != nil {
		panic(err)
	}
	defer func() { _ = book.Close(ctx) }()
	plan := core.PerMonth(100_000, time.UTC).By(keyfuncs.Tenant("tenant")).Named("plan")
	limiter := core.ForLimits(book.Store(), []core.Limit{book.PerTenant(plan, keyfuncs.Tenant("tenant"))})
	_ = limiter // for a middleware
}

// Tests and examples need no PostgreSQL.
func ExampleInMemory() {
	ctx := context.Background()
	book := quota.InMemory(quota.Config{Store: memstore.New(memstore.Config{})})
	defer func() { _ = book.Close(ctx) }()
	plan := core.PerMonth(100, time.UTC).By(keyfuncs.Tenant("tenant")).Named("plan")
	limiter := core.ForLimits(book.Store(), []core.Limit{plan})

	acme := keyfuncs.Encode("tenant", "acme")
	for range 3 {
		limiter.AllowKey(ctx, acme, 20)
	}
	if err := book.Flush(ctx); err != nil {
		panic(err)
	}
	if _, err := book.Credit(ctx, quota.Credit{Operation: "payment-17", Limit: "plan", Tenant: acme, Units: 50}); err != nil {
		panic(err)
	}
	s, err := book.Statement(ctx, "plan", acme, time.Now())
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s has used %d of %d units and %d of credits\n", s.Tenant, s.Used, s.Included, s.Credits)
	// Output: tenant:acme has used 60 of 100 units and 50 of credits
}
