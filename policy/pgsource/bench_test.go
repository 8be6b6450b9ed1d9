package pgsource_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weblimit/weblimit/internal/test/pgtest"
	"github.com/weblimit/weblimit/policy"
	"github.com/weblimit/weblimit/policy/internal/archivetest"
	"github.com/weblimit/weblimit/policy/pgsource"
)

// BenchmarkLook is what each process of a fleet asks once a second.
func BenchmarkLook(b *testing.B) {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, pgtest.Shared(b).Database(b))
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	if err := pgsource.Migrate(ctx, pool); err != nil {
		b.Fatal(err)
	}
	from := pgsource.New(pool, "limits")
	for n := range policy.KeptReleases {
		if _, err := policy.Publish(ctx, from, archivetest.File(n+1), policy.Publication{}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if err := from.Look(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
