package quota

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weblimit/weblimit/quota/internal/delivery"
)

// Notice says that a tenant has reached a level of what a limit includes. There is one for each
// tenant, limit, period and level, whichever process finds out first, and another one each time
// that the tenant reaches the level again after its allowance was raised.
type Notice struct {
	// ID identifies the notice, in all processes and attempts: the idempotency key of its
	// receiver. It is made of limit, tenant, period, level, and how often it was reached before.
	ID string

	Limit    string    // name of the limit
	Tenant   string    // key as the limit counts it
	Start    time.Time // of the period
	End      time.Time
	Level    int   // percent of Included, one of Config.Levels
	Used     int64 // units used in the period when the level was noticed
	Included int64 // units that were not overage then
	Hard     int64 // units from which on requests were denied then
	At       time.Time
}

// Channel is one way in which notices are delivered, such as a webhook: see package notify. Each
// channel gets every notice at least once, in no particular order, from whichever process of
// the book serves it. Two channels do not wait for each other.
type Channel struct {
	// Name identifies the channel in the ledger: 1 to 64 letters, digits and . _ -. A channel
	// gets the notices of all processes from when it was first opened, whether or not a process
	// that serves it runs. [Book.RemoveChannel] ends that. Required.
	Name string

	// Deliver delivers a notice. It must return when ctx is done. A nil error says that the
	// notice was delivered. Others are tried again, see [DeliveryError]. It is called
	// concurrently, but with one notice of a tenant at a time in each process. Required.
	Deliver func(ctx context.Context, n Notice) error

	// Timeout bounds one attempt, from 10ms to 10m. Defaults to 10s.
	Timeout time.Duration

	// Attempts is how many attempts fail until a notice is a dead letter, which
	// [Book.Deliveries] lists and [Book.Redeliver] tries again: 1 to 1000. Defaults to 20, which
	// takes two days and more.
	Attempts int

	// Backoff is the pause after the first attempt that fails, from 10ms to 6h. It doubles with
	// each further one, up to 6h, and varies by half of it. Defaults to 5s.
	Backoff time.Duration

	// Parallel bounds the attempts at a time in this process: first attempts, and as many
	// repeats, so that neither wait for the other. 1 to 1000. Defaults to 16.
	Parallel int
}

// DeliveryError is an error of Channel.Deliver or Export.Send that says how to go on. All other
// errors are temporary.
type DeliveryError struct {
	Err error

	// Permanent says that the same will not be accepted later either. A notice becomes a dead
	// letter; a batch of increments is sent in parts, so that those which are accepted don't wait
	// for others.
	Permanent bool

	// RetryAfter is how long the receiver asks to be left alone: at most a day counts.
	RetryAfter time.Duration
}

// Error returns the text of Err.
func (e *DeliveryError) Error() string {
	if e.Err == nil {
		return "not delivered"
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *DeliveryError) Unwrap() error { return e.Err }

// The defaults and bounds of Channel.
const (
	defaultDeliverTimeout = 10 * time.Second
	defaultAttempts       = 20
	defaultBackoff        = 5 * time.Second
	defaultParallel       = 16

	maxDeliverTimeout = 10 * time.Minute
	maxAttempts       = 1000
	maxParallel       = 1000
	maxChannels       = 64
)

// completeChannels returns channels with defaults.
func completeChannels(channels []Channel) ([]Channel, error) {
	if len(channels) > maxChannels {
		return nil, fmt.Errorf("weblimit: quota: Config.Notices has %d channels, the most is %d", len(channels), maxChannels)
	}
	all := make([]Channel, 0, len(channels))
	names := make(map[string]bool)
	for _, c := range channels {
		if err := c.complete(); err != nil {
			return nil, err
		}
		if names[c.Name] {
			return nil, fmt.Errorf("weblimit: quota: Config.Notices has the channel %q twice", c.Name)
		}
		names[c.Name] = true
		all = append(all, c)
	}
	return all, nil
}

func (c *Channel) complete() error {
	c.Timeout = orDefault(c.Timeout, defaultDeliverTimeout)
	c.Attempts = orDefault(c.Attempts, defaultAttempts)
	c.Backoff = orDefault(c.Backoff, defaultBackoff)
	c.Parallel = orDefault(c.Parallel, defaultParallel)
	if !limitName.MatchString(c.Name) {
		return fmt.Errorf("weblimit: quota: the name of a channel of Config.Notices must be 1 to 64 letters, digits and . _ -, got %q", c.Name)
	}
	var err error
	switch {
	case c.Deliver == nil:
		err = errors.New("Deliver is missing")
	case c.Timeout < minTimeout || c.Timeout > maxDeliverTimeout:
		err = fmt.Errorf("its Timeout must be from %v to %v, got %v", minTimeout, maxDeliverTimeout, c.Timeout)
	case c.Attempts < 1 || c.Attempts > maxAttempts:
		err = fmt.Errorf("its Attempts must be from 1 to %d, got %d", maxAttempts, c.Attempts)
	case c.Backoff < minTimeout || c.Backoff > delivery.MaxBackoff:
		err = fmt.Errorf("its Backoff must be from %v to %v, got %v", minTimeout, delivery.MaxBackoff, c.Backoff)
	case c.Parallel < 1 || c.Parallel > maxParallel:
		err = fmt.Errorf("its Parallel must be from 1 to %d, got %d", maxParallel, c.Parallel)
	}
	if err != nil {
		return fmt.Errorf("weblimit: quota: Config.Notices: channel %q: %w", c.Name, err)
	}
	return nil
}

// orDefault returns value, or the default if it is zero.
func orDefault[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}
