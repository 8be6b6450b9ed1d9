package prometheus

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weblimit/weblimit/internal/test/observed"
	"github.com/weblimit/weblimit/internal/test/redistest"
)

// examples/observed under its own load, on two instances whose Redis is killed and comes back: the
// alerts about its bad clients fire, those of the outage fire and resolve.
func TestTheExampleInAnOutage(t *testing.T) {
	t.Parallel()
	program(t, "prometheus")
	redis := redistest.StartTCP(t)
	shop := observed.Start(t, redis.Addr())
	s := start(t, shop.URLs, quickRules(t))
	reach := func(state string, names ...string) {
		t.Helper()
		for _, name := range names {
			s.await(fmt.Sprintf("%s is %q", name, state), func() (bool, string) {
				is := s.alert(name)
				return is == state, is
			})
		}
	}
	reach("firing", "WeblimitManyDenied", "WeblimitClientDenied")
	reach("", "WeblimitOutage", "WeblimitFallback") // a Redis without a processor is one for the example, too
	began := time.Now()
	redis.Kill()
	reach("firing", "WeblimitOutage", "WeblimitFallback")
	s.await("both instances are in an outage", func() (bool, string) {
		values, err := s.query(`count(weblimit_outage_active{job="shop"} > 0)`, began)
		return err == nil && len(values) > 0 && slices.Max(values) == 2, fmt.Sprint(values, err)
	})
	redis.Restart(t)
	reach("", "WeblimitOutage", "WeblimitFallback")
	reach("", "WeblimitStoreMisconfigured", "WeblimitBreakerFlapping", "WeblimitSeriesCapped")
}
