package client

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/breaker"
	"github.com/weblimit/weblimit/internal/test/check"
	"github.com/weblimit/weblimit/internal/test/must"
)

// The breaker opens after failures in a row, and then lets one check through at a time until the service is back.
func TestTheBreakerOpensAfterFailuresInARow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := must.Get(New(Config{URL: "http://service.invalid"}))(t)
		defer c.Close()
		fail := func(times int) {
			for range times {
				c.leave(c.failure(store.ClassConnection, errors.New("refused")))
			}
		}
		isOpen := func(when string, want bool) {
			t.Helper()
			check.Equal(t, "the breaker is open "+when, c.enter() != nil, want)
		}
		fail(breaker.Failures - 1)
		c.leave(nil)
		fail(breaker.Failures - 1)
		isOpen("after failures with an answer between them", false)
		fail(1)
		isOpen("after as many in a row", true)
		time.Sleep(breaker.Pause + breaker.Jitter)
		isOpen("for the first check after a pause", false)
		isOpen("for a second one meanwhile", true)
		fail(1)
		time.Sleep(breaker.Pause + breaker.Jitter)
		isOpen("for the next after a pause", false)
		c.leave(nil)
		isOpen("for one that comes with the answer", false)
		isOpen("for another", false)
	})
}
