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
	reach := func(atMost time.Duration, state string, names ...string) {
		t.Helper()
		for _, name := range names {
			s.await(atMost, name+" is "+state, func() (bool, string) {
				is := s.alert(name)
				return is == state, is
			})
		}
	}
	reach(30*time.Second, "firing", "WeblimitManyDenied", "WeblimitClientDenied")
	for _, name := range []string{"WeblimitOutage", "WeblimitFallback"} {
		if state := s.alert(name); state != "" {
			t.Errorf("before the outage %s is %s", name, state)
		}
	}
	began := time.Now()
	redis.Kill()
	reach(30*time.Second, "firing", "WeblimitOutage", "WeblimitFallback")
	s.await(20*time.Second, "both instances are in an outage", func() (bool, string) {
		values, err := s.query(`count(weblimit_outage_active{job="shop"} > 0)`, began)
		return err == nil && len(values) > 0 && slices.Max(values) == 2, fmt.Sprint(values, err)
	})
	redis.Restart(t)
	reach(30*time.Second, "", "WeblimitOutage", "WeblimitFallback")
	for _, name := range []string{"WeblimitStoreMisconfigured", "WeblimitBreakerFlapping", "WeblimitSeriesCapped"} {
		if state := s.alert(name); state != "" {
			t.Errorf("%s is %s", name, state)
		}
	}
}
