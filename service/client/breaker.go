package client

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core"
	"github.com/weblimit/weblimit/core/store"
)

const (
	// breakerFailures is how many requests in a row must fail for the breaker to open.
	breakerFailures = 5

	// While the breaker is open, one check is sent this often, to see whether the service is back. The jitter differs by
	// process, or all would come back at the same moment.
	probeAfter  = 400 * time.Millisecond
	probeJitter = 200 * time.Millisecond
)

// breaker keeps checks from a service that does not answer, so that requests don't wait for it.
type breaker struct {
	client *Client

	mu       sync.Mutex
	failures int       // in a row. Guarded by mu.
	opened   time.Time // zero while closed. Guarded by mu.
	probe    time.Time // when the next request may be sent while open. Guarded by mu.
}

// enter returns an error if the service is not to be asked.
func (b *breaker) enter() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opened.IsZero() {
		return nil
	}
	// The caller itself is the probe. The next one may try after its timeout even if leave is never called for it.
	if now := time.Now(); !now.Before(b.probe) {
		b.probe = now.Add(b.client.config.Timeout + later())
		return nil
	}
	return b.client.failure(store.ClassOpen, nil)
}

func later() time.Duration { return probeAfter + rand.N(probeJitter) } //nolint:gosec // G404: no secret

// leave notes how a request ended.
func (b *breaker) leave(err error) {
	failed := (*store.Error)(nil)
	b.mu.Lock()
	var event core.Event
	switch {
	case !errors.As(err, &failed): // answered, a Problem included
		b.failures = 0
		if !b.opened.IsZero() {
			event = core.Event{Kind: core.EventBreakerClosed, Node: b.client.node, Duration: time.Since(b.opened)}
			b.opened = time.Time{}
		}
	case !b.opened.IsZero():
		b.probe = time.Now().Add(later())
	default:
		if b.failures++; b.failures >= breakerFailures {
			b.opened = time.Now()
			b.probe = b.opened.Add(later())
			event = core.Event{Kind: core.EventBreakerOpened, Class: failed.Class, Node: b.client.node, Err: err}
		}
	}
	b.mu.Unlock() // observers may ask the client
	if event.Kind != "" {
		b.client.stands.Registry().Report(event)
	}
}
