package quota

import (
	"context"
	"time"
)

// outbox is the part of a ledger that keeps which notices were delivered. A flush writes a
// notice and its deliveries, one for each channel, in the same transaction.
type outbox interface {
	// openChannels has later notices delivered to channels, too.
	openChannels(ctx context.Context, names []string) error

	// channels returns the names of all channels, in order.
	channels(ctx context.Context) ([]string, error)

	// removeChannel forgets a channel and its deliveries.
	removeChannel(ctx context.Context, name string) (known bool, err error)

	// claim takes up to n deliveries that are due, which begins an attempt: if nothing is heard
	// of it within lease, they are due again. again asks for those that were attempted before, or
	// for others. Those of busy tenants are left, and so are all but one of each tenant.
	claim(ctx context.Context, channel string, again bool, busy []string, n int, lease time.Duration) ([]delivery, error)

	// settle ends an attempt.
	settle(ctx context.Context, d *delivery, s *settlement) error

	// deliveries calls yield for each delivery that is selected, the latest notice first.
	deliveries(ctx context.Context, s deliverySelection, yield func(*deliveryRow) error) error

	// waiting returns how many deliveries to a channel wait, up to most.
	waiting(ctx context.Context, channel string, most int) (int64, error)

	// redeliver makes deliveries due, as if there had been no attempt: those of notices, or all
	// dead ones if there are none.
	redeliver(ctx context.Context, channel string, notices []account, levels []int32, included []int64) (int64, error)
}

// delivery is an attempt to deliver a notice.
type delivery struct {
	channel string
	notice
	id       int64 // of the notice in the ledger
	attempts int   // with this one
}

// deliverySelection selects deliveries. What is empty selects all.
type deliverySelection struct{ channel, state, limit, key string }

// The states of a delivery in the ledger.
const (
	stateWaiting   = "waiting"
	stateDelivered = "delivered"
	stateDead      = "dead"
)

// deliveryRow is how far a notice has come on one channel.
type deliveryRow struct {
	channel string
	notice
	state          string
	attempts       int
	due, delivered time.Time // delivered is zero if it was not
	err            string    // of the last attempt, or empty
}

// verdict is how an attempt ended.
type verdict uint8

const (
	delivered verdict = iota
	failed            // due again after a pause
	dead
	released // not known, and it does not count: the process ends
)

// settlement ends an attempt.
type settlement struct {
	verdict verdict
	pause   time.Duration
	err     string
}
