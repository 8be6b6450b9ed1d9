package quota

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/quota/internal/ledger"
)

const (
	// settleTime is how long an attempt's end may take to be written. It is part of the lease.
	settleTime = 30 * time.Second

	// settleAgain is the pause after a settlement that was not written.
	settleAgain = time.Second

	// reportEvery bounds how often failures of a receiver are reported.
	reportEvery = time.Minute

	// maxErrorText bounds the text of an error in the ledger.
	maxErrorText = 500
)

// courier delivers the notices of one channel from this process.
type courier struct {
	book    *Book
	channel Channel
	cancel  context.CancelFunc // ends the attempts on their way
	opened  bool               // the ledger knows the channel
	working sync.WaitGroup     // attempts on their way

	delivered, pending atomic.Int64 // for metrics: by this process; in the ledger

	mu       sync.Mutex
	busy     map[string]int // attempts by tenant. Guarded by mu.
	running  [2]int         // attempts, first ones and repeats. Guarded by mu.
	failures int64          // since reported. Guarded by mu.
	reported time.Time      // Guarded by mu.
}

// run delivers until polling is done. The attempts of then go on until delivering is done.
func (c *courier) run(polling, delivering context.Context) {
	every := c.book.config.FlushEvery
	for {
		if c.open(polling) {
			c.work(polling, delivering, false)
			c.work(polling, delivering, true)
		}
		select {
		case <-polling.Done():
			return
		case <-time.After(around(every)): // so that processes don't ask at the same time
		}
	}
}

// open makes the channel known, if the ledger did not answer when the book was opened.
func (c *courier) open(ctx context.Context) bool {
	if c.opened {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, c.book.config.Timeout)
	defer cancel()
	c.opened = c.book.ledger.OpenChannels(ctx, []string{c.channel.Name}) == nil // or tried again, as the ledger is by all others
	return c.opened
}

// work begins attempts while there are deliveries and room.
func (c *courier) work(polling, delivering context.Context, again bool) {
	lease := c.channel.Timeout + settleTime
	for polling.Err() == nil {
		n, busy := c.room(again)
		if n == 0 {
			return
		}
		// Not until polling is done: a claim that is canceled on its way may have been made all the
		// same, and nobody would attempt these deliveries until its lease is over.
		ctx, cancel := c.book.outlasting(delivering)
		all, err := c.book.ledger.Claim(ctx, c.channel.Name, again, busy, n, lease)
		cancel()
		if err != nil {
			if polling.Err() == nil {
				c.failed(0, fmt.Errorf("asking the ledger: %w", err))
			}
			return
		}
		for i := range all {
			c.begin(&all[i], again)
			c.working.Go(func() {
				defer c.end(&all[i], again)
				c.attempt(delivering, &all[i])
			})
		}
		if len(all) < n {
			return
		}
	}
}

func kindOf(again bool) int {
	if again {
		return 1
	}
	return 0
}

// room returns how many attempts may begin, and the tenants that have one.
func (c *courier) room(again bool) (n int, busy []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	busy = make([]string, 0, len(c.busy))
	for tenant := range c.busy {
		busy = append(busy, tenant)
	}
	return c.channel.Parallel - c.running[kindOf(again)], busy
}

func (c *courier) begin(d *ledger.Delivery, again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy[d.Key]++
	c.running[kindOf(again)]++
}

func (c *courier) end(d *ledger.Delivery, again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy[d.Key]--; c.busy[d.Key] == 0 {
		delete(c.busy, d.Key)
	}
	c.running[kindOf(again)]--
}

// attempt delivers one notice, and writes how that ended.
func (c *courier) attempt(delivering context.Context, d *ledger.Delivery) {
	var err error
	switch {
	case delivering.Err() != nil: // it was claimed after Close had given up
		err = context.Cause(delivering)
	case d.Attempts > c.channel.Attempts: // no process has lived to say how the last one ended
		err = &DeliveryError{Permanent: true, Err: fmt.Errorf("%d attempts began, and not the last has ended", d.Attempts-1)}
	default:
		ctx, cancel := context.WithTimeout(delivering, c.channel.Timeout)
		err = deliver(ctx, &c.channel, noticeOf(&d.Notice))
		cancel()
	}
	s := c.judge(d, err)
	if err != nil && delivering.Err() != nil {
		s = ledger.Settlement{Verdict: ledger.Released}
	}
	if s.Verdict == ledger.Failed || s.Verdict == ledger.Dead {
		c.failed(1, err)
	}
	if s.Verdict == ledger.Dead {
		c.book.health.registry.Report(store.Event{Kind: store.EventNoticesDead, Node: c.channel.Name, Count: 1, Err: err})
	}
	if s.Verdict == ledger.Delivered {
		c.delivered.Add(1)
	}
	c.settle(delivering, d, &s)
}

// deliver calls Deliver, which may panic.
func deliver(ctx context.Context, c *Channel, n Notice) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("Deliver panicked: %v", r)
		}
	}()
	return c.Deliver(ctx, n)
}

// judge says how an attempt ended.
func (c *courier) judge(d *ledger.Delivery, err error) ledger.Settlement {
	if err == nil {
		return ledger.Settlement{Verdict: ledger.Delivered}
	}
	s := ledger.Settlement{Verdict: ledger.Failed, Err: textOfError(err), Pause: backoff(c.channel.Backoff, d.Attempts)}
	var e *DeliveryError
	if errors.As(err, &e) {
		s.Pause = max(s.Pause, min(e.RetryAfter, maxRetryAfter))
		if e.Permanent {
			s.Verdict = ledger.Dead
		}
	}
	if d.Attempts >= c.channel.Attempts {
		s.Verdict = ledger.Dead
	}
	return s
}

// backoff returns the pause after an attempt: it doubles with each, and varies by half of it.
func backoff(first time.Duration, attempts int) time.Duration {
	pause := first
	for i := 1; i < attempts && pause < maxBackoff; i++ {
		pause *= 2
	}
	pause = min(pause, maxBackoff)
	return around(pause)
}

// around returns a time that is half as long, up to half as long again, or between: processes
// that begin together don't go on together.
func around(d time.Duration) time.Duration {
	return d/2 + rand.N(d) //nolint:gosec // nobody gains by guessing it
}

// settle writes how an attempt ended. While the ledger is away it tries again, until the lease
// is over: then the notice is delivered again.
func (c *courier) settle(delivering context.Context, d *ledger.Delivery, s *ledger.Settlement) {
	until := time.Now().Add(settleTime)
	for {
		// What is known is written, though the process ends.
		ctx, cancel := c.book.outlasting(delivering)
		err := c.book.ledger.Settle(ctx, d, s)
		cancel()
		if err == nil || time.Now().After(until) || delivering.Err() != nil {
			return
		}
		select {
		case <-delivering.Done():
		case <-time.After(settleAgain):
		}
	}
}

// failed counts failures and reports them, at most once in reportEvery.
func (c *courier) failed(n int64, err error) {
	c.mu.Lock()
	c.failures += n
	report := time.Since(c.reported) >= reportEvery
	if n = c.failures; report {
		c.reported, c.failures = time.Now(), 0
	}
	c.mu.Unlock()
	if report {
		c.book.health.registry.Report(store.Event{Kind: store.EventNoticesFailing, Node: c.channel.Name, Count: n, Err: err})
	}
}

// textOfError returns a text that the ledger can store.
func textOfError(err error) string {
	text := strings.ToValidUTF8(strings.ReplaceAll(err.Error(), "\x00", ""), "")
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "")
	}
	return text
}

// couriers are those of all channels of a book.
type couriers struct {
	all     []*courier
	polling sync.WaitGroup
}

// start begins to deliver until ctx is done.
func (c *couriers) start(ctx context.Context, b *Book, opened bool) {
	for _, channel := range b.config.Notices {
		delivering, cancel := context.WithCancel(context.WithoutCancel(ctx))
		one := &courier{book: b, channel: channel, cancel: cancel, opened: opened, busy: make(map[string]int)}
		c.all = append(c.all, one)
		c.polling.Go(func() { one.run(ctx, delivering) })
	}
}

// close waits for the attempts on their way, and cancels them when ctx is done. The ledger has
// those again that were not delivered.
func (c *couriers) close(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		c.polling.Wait()
		for _, one := range c.all {
			one.working.Wait()
		}
		close(done)
	}()
	defer func() {
		for _, one := range c.all {
			one.cancel()
		}
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("notices are on their way, and will be delivered again: %w", context.Cause(ctx))
	}
}
