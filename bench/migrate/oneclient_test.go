package migrate

import (
	"testing"

	"github.com/weblimit/weblimit/internal/test/oneclient"
)

// Here with the newest go-redis; core/redisstore runs it with the oldest.
func TestStoresAreMadeOnAClientInUse(t *testing.T) {
	t.Parallel()
	oneclient.Run(t)
}
