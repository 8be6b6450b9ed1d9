package client

import (
	"errors"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

// enter returns an error if the service is not to be asked. While the breaker is open, some calls are probes, since the
// client has no goroutine of its own. A caller that gives up does not call leave, so it has the turn to probe for no longer than
// the timeout.
func (c *Client) enter() error {
	if c.breaker.IsOpen() && !c.breaker.TryProbe(c.config.Timeout) {
		return c.failure(store.ClassOpen, nil)
	}
	return nil
}

// leave notes how a request ended.
func (c *Client) leave(err error) {
	failed := (*store.Error)(nil)
	if !errors.As(err, &failed) { // answered, a Problem included
		if open := c.breaker.Close(); open > 0 {
			c.stands.Registry().Report(core.Event{Kind: store.EventBreakerClosed, Node: c.node, Duration: open})
		}
		return
	}
	switch {
	case c.breaker.IsOpen():
		c.breaker.Again()
	case c.breaker.Failed(failed):
		c.stands.Registry().Report(core.Event{Kind: store.EventBreakerOpened, Class: failed.Class, Node: c.node, Err: err})
	}
}
