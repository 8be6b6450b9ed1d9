package keyfuncs_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/race"
	"github.com/weblimit/weblimit/keyfuncs"
)

// Not under the race detector, which makes sync.Pool forget at random, and not parallel:
// testing.AllocsPerRun counts the allocations of the process.
func TestPercentAllocatesNothing(t *testing.T) {
	race.Skip(t)
	c, r := keyfuncs.Percent(10, keyfuncs.Header("X-User")), &request{headers: http.Header{"X-User": {strings.Repeat("u", 60)}}}
	check.Equal(t, "allocations", testing.AllocsPerRun(100, func() { c.Match(r) }), 0)
}
