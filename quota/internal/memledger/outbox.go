package memledger

import (
	"context"
	"slices"
	"time"

	"github.com/weblimit/weblimit/quota/internal/ledger"
)

// outbox is the outbox of a Ledger, whose mutex guards it.
type outbox struct {
	channels []string
	all      []*delivery
}

type delivery struct {
	channel   string
	notice    *ledger.Notice
	id        int64
	state     string
	attempts  int
	due       time.Time
	delivered time.Time
	err       string
}

// add has a notice delivered to all channels.
func (o *outbox) add(n *ledger.Notice, now time.Time) {
	for _, channel := range o.channels {
		o.all = append(o.all, &delivery{channel: channel, notice: n, id: int64(len(o.all)) + 1, state: ledger.StateWaiting, due: now})
	}
}

// OpenChannels implements [ledger.Ledger].
func (m *Ledger) OpenChannels(_ context.Context, names []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		if !slices.Contains(m.outbox.channels, name) {
			m.outbox.channels = append(m.outbox.channels, name)
		}
	}
	return nil
}

// Channels implements [ledger.Ledger].
func (m *Ledger) Channels(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(slices.Values(m.outbox.channels)), nil
}

// RemoveChannel implements [ledger.Ledger].
func (m *Ledger) RemoveChannel(_ context.Context, name string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := &m.outbox
	known := slices.Contains(o.channels, name)
	o.channels = slices.DeleteFunc(o.channels, func(c string) bool { return c == name })
	o.all = slices.DeleteFunc(o.all, func(d *delivery) bool { return d.channel == name })
	return known, nil
}

// Waiting implements [ledger.Ledger].
func (m *Ledger) Waiting(_ context.Context, channel string, most int) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, d := range m.outbox.all {
		if d.channel == channel && d.state == ledger.StateWaiting {
			n++
		}
	}
	return int64(min(n, most)), nil
}

// Claim implements [ledger.Ledger].
func (m *Ledger) Claim(_ context.Context, channel string, again bool, busy []string, n int, lease time.Duration) (claimed []ledger.Delivery, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.Now()
	var due []*delivery
	for _, d := range m.outbox.all {
		if d.channel == channel && d.state == ledger.StateWaiting && d.attempts > 0 == again && !d.due.After(now) && !slices.Contains(busy, d.notice.Key) {
			due = append(due, d)
		}
	}
	slices.SortStableFunc(due, func(a, b *delivery) int { return a.due.Compare(b.due) })
	taken := make(map[string]bool)
	for _, d := range due {
		if taken[d.notice.Key] || len(claimed) == n {
			continue
		}
		taken[d.notice.Key] = true
		d.attempts++
		d.due = now.Add(lease)
		claimed = append(claimed, ledger.Delivery{Channel: channel, Notice: *d.notice, ID: d.id, Attempts: d.attempts})
	}
	return claimed, nil
}

// Settle implements [ledger.Ledger].
func (m *Ledger) Settle(_ context.Context, d *ledger.Delivery, s *ledger.Settlement) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.outbox.all, func(o *delivery) bool { return o.channel == d.Channel && o.id == d.ID })
	if i < 0 {
		return nil // the channel was removed
	}
	o, now := m.outbox.all[i], m.Now()
	if s.Verdict == ledger.Delivered {
		if o.state != ledger.StateDelivered {
			o.state, o.delivered, o.err = ledger.StateDelivered, now, ""
		}
		return nil
	}
	if o.state != ledger.StateWaiting || o.attempts != d.Attempts {
		return nil
	}
	switch s.Verdict {
	case ledger.Failed:
		o.due, o.err = now.Add(s.Pause), s.Err
	case ledger.Dead:
		o.state, o.err = ledger.StateDead, s.Err
	case ledger.Released:
		o.due = now
		o.attempts--
	}
	return nil
}

// Deliveries implements [ledger.Ledger].
func (m *Ledger) Deliveries(_ context.Context, s ledger.DeliverySelection, yield func(*ledger.DeliveryRow) error) error {
	m.mu.Lock()
	var found []ledger.DeliveryRow
	for _, d := range slices.Backward(m.outbox.all) {
		if (s.Channel == "" || s.Channel == d.channel) && (s.State == "" || s.State == d.state) &&
			(s.Limit == "" || s.Limit == d.notice.Limit) && (s.Key == "" || s.Key == d.notice.Key) {
			found = append(found, ledger.DeliveryRow{Channel: d.channel, Notice: *d.notice, State: d.state, Attempts: d.attempts, Due: d.due.UTC(), Delivered: d.delivered, Err: d.err})
		}
	}
	m.mu.Unlock()
	for i := range found {
		if err := yield(&found[i]); err != nil {
			return err
		}
	}
	return nil
}

// Redeliver implements [ledger.Ledger].
func (m *Ledger) Redeliver(_ context.Context, channel string, notices []ledger.Account, levels []int32, included []int64) (n int64, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.outbox.all {
		chosen := len(notices) == 0 && d.state == ledger.StateDead
		for i := range notices {
			chosen = chosen || notices[i] == d.notice.Account && int(levels[i]) == d.notice.Level%ledger.AgainStep && included[i] == d.notice.Included
		}
		if d.channel == channel && chosen {
			d.state, d.attempts, d.due, d.delivered = ledger.StateWaiting, 0, m.Now(), time.Time{}
			n++
		}
	}
	return n, nil
}
