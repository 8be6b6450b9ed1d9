package redistest

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weblimit/weblimit/internal/test/must"
)

// Prepare runs commands that have no answer worth reading, all of them at once. It repeats them until they have worked: a
// process that stood still finds that the client's time is over, and then go-redis does not try each command again.
func Prepare(tb testing.TB, client redis.UniversalClient, commands func(p redis.Pipeliner)) {
	tb.Helper()
	must.OK(tb, await("Redis to do what a test begins with", func() error {
		_, err := client.TxPipelined(tb.Context(), func(p redis.Pipeliner) error {
			commands(p)
			return nil
		})
		return err
	}))
}
