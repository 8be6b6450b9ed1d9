package quota

import (
	"context"
	"errors"
	"time"

	"github.com/weblimit/weblimit/quota/internal/delivery"
	"github.com/weblimit/weblimit/quota/internal/ledger"
)

// addReceivers has the channels and exports of this process served once the book has started.
func (b *Book) addReceivers() {
	for i := range b.config.Notices {
		b.delivery.Channel(b.config.Notices[i].receiver(b.config.FlushEvery))
	}
	for i := range b.config.Exports {
		b.delivery.Export(b.config.Exports[i].receiver())
	}
}

// receiver returns the channel as it is served: the ledger is asked for notices as often as they are written there.
func (c *Channel) receiver(every time.Duration) delivery.Channel {
	call := c.Deliver
	return delivery.Channel{
		Name: c.Name, Every: every, Timeout: c.Timeout, Attempts: c.Attempts, Backoff: c.Backoff, Parallel: c.Parallel,
		Deliver: func(ctx context.Context, n *ledger.Notice) error { return refusalOf(call(ctx, noticeOf(n))) },
	}
}

func (e *Export) receiver() delivery.Export {
	call := e.Send
	return delivery.Export{
		Name: e.Name, Limits: e.Limits, Every: e.Every, Batch: e.Batch, Timeout: e.Timeout, HoldBack: e.HoldBack, Since: e.Since,
		Send: func(ctx context.Context, all []ledger.Increment) error {
			batch := make([]Increment, len(all))
			for i := range all {
				batch[i] = incrementOf(&all[i])
			}
			return refusalOf(call(ctx, batch))
		},
	}
}

// refusalOf returns an error of a receiver with what a [DeliveryError] in it says.
func refusalOf(err error) error {
	var e *DeliveryError
	if errors.As(err, &e) {
		return &delivery.Refusal{Err: err, Permanent: e.Permanent, RetryAfter: e.RetryAfter}
	}
	return err
}
