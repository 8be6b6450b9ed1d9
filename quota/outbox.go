package quota

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/micros"
)

// DeliveryState is how far a notice has come on one channel.
type DeliveryState string

// The states of a delivery.
const (
	Waiting   DeliveryState = ledger.StateWaiting   // it will be tried, maybe again
	Delivered DeliveryState = ledger.StateDelivered // the receiver has it
	Dead      DeliveryState = ledger.StateDead      // it is not tried any more
)

// Delivery is a notice on its way to one channel.
type Delivery struct {
	Channel   string
	Notice    Notice
	State     DeliveryState
	Attempts  int
	Due       time.Time // of the next attempt, while it waits
	Delivered time.Time // zero if it was not
	Err       string    // of the last attempt, or empty
}

// DeliveryQuery selects deliveries. The zero query selects all that the ledger has.
type DeliveryQuery struct {
	Channel string        // defaults to all
	State   DeliveryState // defaults to all
	Limit   string        // name of the limit. Defaults to all limits.
	Tenant  string        // key as the limit counts it. Defaults to all tenants.
}

// selection returns the query as the ledger wants it.
func (q *DeliveryQuery) selection() ledger.DeliverySelection {
	s := ledger.DeliverySelection{Channel: q.Channel, State: string(q.State), Limit: q.Limit}
	if q.Tenant != "" {
		s.Key = ledger.TextOf([]byte(q.Tenant))
	}
	return s
}

func deliveryOf(d *ledger.DeliveryRow) Delivery {
	return Delivery{
		Channel: d.Channel, Notice: noticeOf(&d.Notice), State: DeliveryState(d.State), Attempts: d.Attempts,
		Due: d.Due, Delivered: d.Delivered, Err: d.Err,
	}
}

// ErrUnknownChannel says that no process has opened a channel of that name.
var ErrUnknownChannel = errors.New("weblimit: quota: this book has no channel of this name")

// wantChannel returns [ErrUnknownChannel] for a name of which nothing was found, if there is no such channel.
func (b *Book) wantChannel(ctx context.Context, name string) error {
	names, err := b.ledger.Channels(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("weblimit: quota: asking the ledger: %w", err)
	case slices.Contains(names, name):
		return nil
	}
	return fmt.Errorf("%w: %q%s", ErrUnknownChannel, name, meant(name, names, "it has"))
}

// Deliveries calls yield for each delivery of a notice that the query selects, the latest
// notice first, until yield returns an error, which it returns. Otherwise its error is
// [ErrUnknownChannel] for a channel that was never opened, and [ErrUnknownLimit] for a limit that there is not.
func (b *Book) Deliveries(ctx context.Context, q DeliveryQuery, yield func(Delivery) error) error {
	switch q.State {
	case "", Waiting, Delivered, Dead:
	default:
		return fmt.Errorf("weblimit: quota: deliveries have no state %q", q.State)
	}
	var stopped error
	found := false
	err := b.ledger.Deliveries(ctx, q.selection(), func(d *ledger.DeliveryRow) error {
		found = true
		stopped = yield(deliveryOf(d))
		return stopped
	})
	if err != nil && stopped == nil {
		return fmt.Errorf("weblimit: quota: reading deliveries: %w", err)
	}
	if !found && q.Channel != "" {
		if err := b.wantChannel(ctx, q.Channel); err != nil {
			return err
		}
	}
	if !found {
		return b.wantLimit(ctx, q.Limit)
	}
	return stopped
}

// Redeliver has notices delivered to a channel again, whatever became of them, with all of the
// channel's attempts; without notices, all that are dead. It returns how many. The error is
// [ErrUnknownChannel] for a channel that was never opened.
func (b *Book) Redeliver(ctx context.Context, channel string, notices ...Notice) (int64, error) {
	if !limitName.MatchString(channel) {
		return 0, fmt.Errorf("weblimit: quota: there can be no channel %q", channel)
	}
	var accounts []ledger.Account
	var levels []int32
	var included []int64
	for i := range notices {
		n := &notices[i]
		accounts = append(accounts, ledger.Account{Limit: n.Limit, Key: n.Tenant, Start: micros.Of(n.Start), End: micros.Of(n.End)})
		levels, included = append(levels, int32(n.Level)), append(included, n.Included)
	}
	count, err := b.ledger.Redeliver(ctx, channel, accounts, levels, included)
	if err != nil {
		return 0, fmt.Errorf("weblimit: quota: redelivering: %w", err)
	}
	if count == 0 {
		return 0, b.wantChannel(ctx, channel)
	}
	return count, nil
}

// RemoveChannel ends a channel that no process serves any more: notices are not kept for it, and
// its deliveries are forgotten. A process that serves it must not be running.
func (b *Book) RemoveChannel(ctx context.Context, name string) error {
	for i := range b.config.Notices {
		if b.config.Notices[i].Name == name {
			return fmt.Errorf("weblimit: quota: this book serves the channel %q: take it out of Config.Notices before", name)
		}
	}
	known, err := b.ledger.RemoveChannel(ctx, name)
	if err == nil && !known {
		err = b.wantChannel(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("weblimit: quota: removing the channel %q: %w", name, err)
	}
	return nil
}

// noticeOf returns a notice as users see it.
func noticeOf(n *ledger.Notice) Notice {
	return Notice{
		ID:    stableID("notice", n.Limit, n.Key, n.Start, n.End, int64(n.Level)),
		Limit: n.Limit, Tenant: n.Key, Start: micros.Time(n.Start), End: micros.Time(n.End),
		Level: n.Level % ledger.AgainStep, Used: n.Used, Included: n.Included, Hard: n.Hard, At: micros.Time(n.At),
	}
}

// stableID returns an identifier that is made of a kind and of what it identifies: a ledger that
// was restored from a backup has the same for the same.
func stableID(kind, limit, key string, numbers ...int64) string {
	h := sha256.New()
	for _, s := range []string{kind, limit, key} {
		_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(s))))
		_, _ = h.Write([]byte(s))
	}
	for _, n := range numbers {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
	}
	sum := base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil)[:20])
	return kind + "_" + strings.ToLower(sum)
}
