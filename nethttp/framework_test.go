package nethttp_test

import (
	"testing"

	"github.com/weblimit/weblimit/internal/test/limittest"
)

// net/http has no opinion on the client's address.
func TestFramework(t *testing.T) {
	t.Parallel()
	limittest.RunFramework(t, build, false)
}
