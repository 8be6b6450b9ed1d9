// Package delivery brings what a book has to tell to its receivers: notices to channels, and usage to exports. One
// loop serves both. The ledger says what is due; a receiver may have it more than once, and always with the same ID.
//
// Whatever a process takes from the ledger it takes for a while, its lease. A process that dies gives nothing back: when the
// lease is over, another goes on. So a lease is longer than all that may happen within it, and what was taken is
// given back as soon as it is not needed.
package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/books"
	"github.com/weblimit/weblimit/quota/internal/ledger"
)

// The kinds of events that are raised about receivers. The event's node is the name of the channel or the export.
const (
	NoticesFailing store.EventKind = "notices failing"
	NoticesDead    store.EventKind = "notices dead"
	ExportFailing  store.EventKind = "export failing"
)

// Desk serves the receivers of one book in this process.
type Desk struct {
	Ledger  ledger.Ledger
	Process string        // names this process in the ledger
	Timeout time.Duration // of one statement
	Last    time.Duration // for what is written after Close has given up
	Report  func(store.Event)

	loops []*loop
}

// Channel adds a channel. It is called before Start, as is Export.
func (d *Desk) Channel(c Channel) { d.add(newCourier(d, c)) }

// Export adds an export.
func (d *Desk) Export(e Export) { d.add(NewSender(d, e)) }

func (d *Desk) add(c client) { d.loops = append(d.loops, c.base()) }

// Open makes all receivers known to the ledger.
func (d *Desk) Open() error {
	ctx, cancel := context.WithTimeout(context.Background(), d.Timeout)
	defer cancel()
	for _, l := range d.loops {
		if err := l.client.open(ctx); err != nil {
			return fmt.Errorf("weblimit: quota: opening the %s %q: %w", l.what, l.name, err)
		}
		l.opened = true
	}
	return nil
}

// Start serves the receivers until ctx is done. Those that are not open yet are opened as soon as the ledger answers.
func (d *Desk) Start(ctx context.Context) {
	for _, l := range d.loops {
		sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
		l.cancel = cancel
		go l.run(ctx, sending)
	}
}

// Close waits for the attempts on their way, after the context of Start is done, and cancels them when ctx is done. The
// ledger has those again that were not delivered.
func (d *Desk) Close(ctx context.Context) (err error) {
	for _, l := range d.loops {
		select {
		case <-l.ended:
		case <-ctx.Done():
			err = errors.Join(err, fmt.Errorf("the %s %q: what is on its way will be sent again: %w", l.what, l.name, context.Cause(ctx)))
		}
	}
	for _, l := range d.loops {
		l.cancel()
	}
	return err
}

// mostPending is how far it is counted what waits for a receiver.
const mostPending = 100_000

// Count counts what waits for each receiver. What can't be counted stays as it was.
func (d *Desk) Count(ctx context.Context) {
	for _, l := range d.loops {
		if n, err := l.client.count(ctx); err == nil {
			l.pending.Store(n)
		}
	}
}

// Numbers returns what this process has delivered, and what waits, by the names of channels and of exports.
func (d *Desk) Numbers() (notices, exports map[string]books.Deliveries) {
	notices, exports = make(map[string]books.Deliveries), make(map[string]books.Deliveries)
	for _, l := range d.loops {
		to := notices
		if _, is := l.client.(*Sender); is {
			to = exports
		}
		to[l.name] = books.Deliveries{Done: l.accepted.Load(), Pending: l.pending.Load()}
	}
	return notices, exports
}

// outlasting returns a context for what is written of work that ends when ctx is done: it is done a while after ctx, or after a
// time-out. A statement that is canceled on its way may have taken a lease all the same, which nobody else gets before it ends.
func (d *Desk) outlasting(ctx context.Context) (context.Context, context.CancelFunc) {
	lasting, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.Timeout)
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(d.Last):
			cancel()
		case <-lasting.Done():
		}
	})
	return lasting, func() { stop(); cancel() }
}
