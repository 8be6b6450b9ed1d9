package fiber3limit_test

import (
	"testing"

	"github.com/weblimit/weblimit/internal/test/limittest"
)

// Without a ProxyHeader Fiber takes the peer for the client.
func TestFramework(t *testing.T) {
	t.Parallel()
	limittest.RunFramework(t, build, true)
}
