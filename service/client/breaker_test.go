package client

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// The breaker opens after failures in a row, and then lets one check through at a time until the service is back.
func TestTheBreakerOpensAfterFailuresInARow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := must.Get(New(Config{URL: "http://service.invalid"}))(t)
		defer c.Close()
		b := &breaker{client: c}
		fail := func(times int) {
			for range times {
				b.leave(c.failure(store.ClassConnection, errors.New("refused")))
			}
		}
		isOpen := func(when string, want bool) {
			t.Helper()
			check.Equal(t, "the breaker is open "+when, b.enter() != nil, want)
		}
		fail(breakerFailures - 1)
		b.leave(nil)
		fail(breakerFailures - 1)
		isOpen("after failures with an answer between them", false)
		fail(1)
		isOpen("after as many in a row", true)
		time.Sleep(probeAfter + probeJitter)
		isOpen("for the first check after a pause", false)
		isOpen("for a second one meanwhile", true)
		fail(1)
		time.Sleep(probeAfter + probeJitter)
		isOpen("for the next after a pause", false)
		b.leave(nil)
		isOpen("for one that comes with the answer", false)
		isOpen("for another", false)
	})
}
