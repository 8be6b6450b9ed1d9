package redisstore_test

import (
	"os"
	"testing"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/redisstore"
	"github.com/weblimit/weblimit/internal/redistest"
	"github.com/weblimit/weblimit/internal/storetest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

func TestRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t)
	storetest.Run(t, func(t *testing.T, clock *storetest.Clock) core.Store {
		return redisstore.NewAt(server.Client(t), clock.Micros, redisstore.Prefix(redistest.Prefix(t)))
	})
}
