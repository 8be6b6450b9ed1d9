package delivery

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/weblimit/weblimit/quota/internal/ledger"
)

const (
	// settleAgain is the pause after a settlement that was not written.
	settleAgain = time.Second

	// MaxBackoff bounds the pause after an attempt that failed.
	MaxBackoff = 6 * time.Hour

	// maxErrorText bounds the text of an error in the ledger.
	maxErrorText = 500
)

// Channel is a quota.Channel.
type Channel struct {
	Name     string
	Every    time.Duration // how often the ledger is asked for notices
	Deliver  func(ctx context.Context, n *ledger.Notice) error
	Timeout  time.Duration
	Attempts int
	Backoff  time.Duration
	Parallel int
}

// Courier delivers the notices of one channel. It takes those that are due and lets each attempt end by itself, so that a
// receiver that is slow for one tenant holds up no other. Of one tenant it has one attempt at a time.
type Courier struct {
	*loop
	channel Channel

	mu      sync.Mutex
	busy    map[string]int // attempts by tenant. Guarded by mu.
	running [2]int         // attempts, first ones and repeats. Guarded by mu.
}

func newCourier(d *Desk, channel Channel) *Courier {
	c := &Courier{channel: channel, busy: make(map[string]int)}
	c.loop = &loop{desk: d, client: c, what: "channel", name: channel.Name, failing: NoticesFailing, every: channel.Every, ended: make(chan struct{})}
	return c
}

func (c *Courier) open(ctx context.Context) error {
	return c.desk.Ledger.OpenChannels(ctx, []string{c.name})
}

func (c *Courier) count(ctx context.Context) (int64, error) {
	return c.desk.Ledger.Waiting(ctx, c.name, mostPending)
}

// Work begins first attempts, and then repeats. Each kind has places of its own, so that repeats to a receiver that fails keep
// no first attempt waiting.
func (c *Courier) Work(polling, delivering context.Context) {
	c.attempts(polling, delivering, false)
	c.attempts(polling, delivering, true)
}

// attempts begins attempts while there are deliveries and room.
func (c *Courier) attempts(polling, delivering context.Context, again bool) {
	lease := c.channel.Timeout + settleTime
	for polling.Err() == nil {
		n, busy := c.room(again)
		if n == 0 {
			return
		}
		// Not until polling is done: a claim that is canceled on its way may have been made all the
		// same, and nobody would attempt these deliveries until its lease is over.
		ctx, cancel := c.desk.outlasting(delivering)
		all, err := c.desk.Ledger.Claim(ctx, c.name, again, busy, n, lease)
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
func (c *Courier) room(again bool) (n int, busy []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	busy = make([]string, 0, len(c.busy))
	for tenant := range c.busy {
		busy = append(busy, tenant)
	}
	return c.channel.Parallel - c.running[kindOf(again)], busy
}

func (c *Courier) begin(d *ledger.Delivery, again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy[d.Key]++
	c.running[kindOf(again)]++
}

func (c *Courier) end(d *ledger.Delivery, again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy[d.Key]--; c.busy[d.Key] == 0 {
		delete(c.busy, d.Key)
	}
	c.running[kindOf(again)]--
}

// attempt delivers one notice, and writes how that ended.
func (c *Courier) attempt(delivering context.Context, d *ledger.Delivery) {
	var err error
	switch {
	case delivering.Err() != nil: // it was claimed after Close had given up
		err = context.Cause(delivering)
	case d.Attempts > c.channel.Attempts: // no process has lived to say how the last one ended
		err = &Refusal{Permanent: true, Err: fmt.Errorf("%d attempts began, and not the last has ended", d.Attempts-1)}
	default:
		ctx, cancel := context.WithTimeout(delivering, c.channel.Timeout)
		err = guarded("Deliver", func() error { return c.channel.Deliver(ctx, &d.Notice) })
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
		c.report(NoticesDead, 1, err)
	}
	if s.Verdict == ledger.Delivered {
		c.accepted.Add(1)
	}
	c.settle(delivering, d, &s)
}

// judge says how an attempt ended.
func (c *Courier) judge(d *ledger.Delivery, err error) ledger.Settlement {
	if err == nil {
		return ledger.Settlement{Verdict: ledger.Delivered}
	}
	s := ledger.Settlement{Verdict: ledger.Failed, Err: textOfError(err), Pause: pauseAfter(d.Attempts, c.channel.Backoff, MaxBackoff, err)}
	if d.Attempts >= c.channel.Attempts || isPermanent(err) {
		s.Verdict = ledger.Dead
	}
	return s
}

// settle writes how an attempt ended. While the ledger is away it tries again, until the lease
// is over: then the notice is delivered again.
func (c *Courier) settle(delivering context.Context, d *ledger.Delivery, s *ledger.Settlement) {
	until := time.Now().Add(settleTime)
	for {
		// What is known is written, though the process ends.
		ctx, cancel := c.desk.outlasting(delivering)
		err := c.desk.Ledger.Settle(ctx, d, s)
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

// textOfError returns a text that the ledger can store.
func textOfError(err error) string {
	text := strings.ToValidUTF8(strings.ReplaceAll(err.Error(), "\x00", ""), "")
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "")
	}
	return text
}
