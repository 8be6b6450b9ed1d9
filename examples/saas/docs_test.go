package main

import (
	"context"
	"log"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/ginlimit"
	"github.com/weblimit/weblimit/keyfuncs"
	"github.com/weblimit/weblimit/quota"
)

// The functions below are the code of docs/bill/quotas.md and of the README, so that it is compiled: a test
// in examples/ looks for each block of Go.
var _ = []any{quotasOpen, quotasChanges, readmeQuotas}

func quotasOpen(ctx context.Context, r *gin.Engine, pool *pgxpool.Pool, rdb *redis.Client, perSecond core.Limit, berlin *time.Location) {
	book, err := quota.Open(ctx, pool, quota.Config{Store: redisstore.New(rdb)}) // makes its own tables
	if err != nil {
		log.Fatal(err)
	}
	defer book.Close(context.Background())

	plan := core.PerBillingMonth(100_000, 31, berlin).By(keyfuncs.Tenant("tenant")).Named("plan").Soft(80_000)
	r.Use(ginlimit.Limit(book.Store(), perSecond, plan))
}

//nolint:errcheck // the block shows what there is to change
func quotasChanges(ctx context.Context, book *quota.Book, berlin *time.Location, tenant string, payment, incident struct{ ID string }, nextYear time.Time) core.Limit {
	book.SetPlan(ctx, quota.Plan{Limit: "plan", Name: "pro", Included: 100_000, Hard: 120_000})
	book.Assign(ctx, quota.Assignment{Limit: "plan", Tenant: tenant, Plan: "pro"})
	book.Credit(ctx, quota.Credit{Operation: payment.ID, Limit: "plan", Tenant: tenant, Units: 10_000, Expires: nextYear})
	book.Adjust(ctx, quota.Adjustment{Operation: incident.ID, Limit: "plan", Tenant: tenant, Units: 500, Reason: "outage of 3 May"})

	plan := core.PerBillingMonth(100_000, 31, berlin).Named("plan").Soft(80_000)
	limit := book.PerTenant(plan, keyfuncs.Tenant("tenant")) // the numbers of each tenant, instead of plan's
	return limit
}

func readmeQuotas(ctx context.Context, r *gin.Engine, pool *pgxpool.Pool, rdb *redis.Client, perSecond core.Limit) {
	book, err := quota.Open(ctx, pool, quota.Config{Store: redisstore.New(rdb)}) // a pgx pool; makes its own tables
	if err != nil {
		log.Fatal(err)
	}
	defer book.Close(context.Background())
	limits := ginlimit.With(core.Config{Store: book.Store(), Headers: core.Draft11 | core.XQuota})

	tenant := keyfuncs.Tenant("tenant")
	plan := book.PerTenant(core.PerMonth(1000, time.UTC).Named("plan"), tenant) // 1000 without a plan
	r.Use(limits.Limit(perSecond, plan))
}
