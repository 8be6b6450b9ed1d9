package redisstore_test

import (
	"testing"

	"github.com/weblimit/weblimit/internal/test/oneclient"
)

// With go-redis 9.5.5; bench/migrate runs it with the newest.
func TestStoresAreMadeOnAClientInUse(t *testing.T) {
	t.Parallel()
	oneclient.Run(t)
}
