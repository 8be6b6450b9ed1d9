package ledger

import (
	"context"
	"time"
)

// Outbox is the part of a ledger that keeps which notices were delivered. A flush writes a
// notice and its deliveries, one for each channel, in the same transaction.
type Outbox interface {
	// OpenChannels has later notices delivered to channels, too.
	OpenChannels(ctx context.Context, names []string) error

	// Channels returns the names of all channels, in order.
	Channels(ctx context.Context) ([]string, error)

	// RemoveChannel forgets a channel and its deliveries.
	RemoveChannel(ctx context.Context, name string) (known bool, err error)

	// Claim takes up to n deliveries that are due, which begins an attempt: if nothing is heard
	// of it within lease, they are due again. again asks for those that were attempted before, or
	// for others. Those of busy tenants are left, and so are all but one of each tenant.
	Claim(ctx context.Context, channel string, again bool, busy []string, n int, lease time.Duration) ([]Delivery, error)

	// Settle ends an attempt.
	Settle(ctx context.Context, d *Delivery, s *Settlement) error

	// Deliveries calls yield for each delivery that is selected, the latest notice first.
	Deliveries(ctx context.Context, s DeliverySelection, yield func(*DeliveryRow) error) error

	// Waiting returns how many deliveries to a channel wait, up to most.
	Waiting(ctx context.Context, channel string, most int) (int64, error)

	// Redeliver makes deliveries due, as if there had been no attempt: those of notices, or all
	// dead ones if there are none.
	Redeliver(ctx context.Context, channel string, notices []Account, levels []int32, included []int64) (int64, error)
}

// Delivery is an attempt to deliver a notice.
type Delivery struct {
	Channel string
	Notice
	ID       int64 // of the notice in the ledger
	Attempts int   // with this one
}

// DeliverySelection selects deliveries. What is empty selects all.
type DeliverySelection struct{ Channel, State, Limit, Key string }

// The states of a delivery in the ledger.
const (
	StateWaiting   = "waiting"
	StateDelivered = "delivered"
	StateDead      = "dead"
)

// DeliveryRow is how far a notice has come on one channel.
type DeliveryRow struct {
	Channel string
	Notice
	State          string
	Attempts       int
	Due, Delivered time.Time // delivered is zero if it was not
	Err            string    // of the last attempt, or empty
}

// Verdict is how an attempt ended.
type Verdict uint8

// The verdicts.
const (
	Delivered Verdict = iota
	Failed            // due again after a pause
	Dead
	Released // not known, and it does not count: the process ends
)

// Settlement ends an attempt.
type Settlement struct {
	Verdict Verdict
	Pause   time.Duration
	Err     string
}
