package pgstore_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/pgstore"
	"github.com/weblimit/weblimit/keyfuncs"
)

func openStore(ctx context.Context, url string) (*pgstore.Store, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, err
	}
	return pgstore.Open(ctx, pool)
}

func creditsOf(store *pgstore.Store) *core.Limiter {
	return core.Must(core.New(core.Config{
		Store:   store,
		Timeout: time.Second, // a commit can take longer than the 100 ms of a rate limit
		Limits: []core.Limit{
			core.PerBillingMonth(100_000, 1, time.UTC).Named("credits").By(keyfuncs.Tenant("tenant")).
				OncePer(keyfuncs.Header("Idempotency-Key"), 24*time.Hour).
				OnOutage(core.Deny),
		},
	}))
}

func Example() {
	store, err := openStore(context.Background(), "postgres://app@localhost/app")
	if err != nil {
		log.Fatal(err)
	}
	limiter := creditsOf(store)
	d := limiter.AllowKey(context.Background(), "acme", 250)
	fmt.Println(d.Allowed)
}

func ExampleNew() {
	pool, err := pgxpool.New(context.Background(), "postgres://app@localhost/app")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	// New does not connect: PostgreSQL may come up later. Migrate was called in the deployment.
	_ = pgstore.New(pool, pgstore.Config{Schema: "limits"})
	// Output:
}
