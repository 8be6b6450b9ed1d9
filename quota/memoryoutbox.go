package quota

import (
	"context"
	"slices"
	"time"
)

// memoryOutbox is the outbox of a memoryLedger, whose mutex guards it.
type memoryOutbox struct {
	channels []string
	all      []*memoryDelivery
}

type memoryDelivery struct {
	channel   string
	notice    *notice
	id        int64
	state     string
	attempts  int
	due       time.Time
	delivered time.Time
	err       string
}

// add has a notice delivered to all channels.
func (o *memoryOutbox) add(n *notice, now time.Time) {
	for _, channel := range o.channels {
		o.all = append(o.all, &memoryDelivery{channel: channel, notice: n, id: int64(len(o.all)) + 1, state: stateWaiting, due: now})
	}
}

func (m *memoryLedger) openChannels(_ context.Context, names []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		if !slices.Contains(m.outbox.channels, name) {
			m.outbox.channels = append(m.outbox.channels, name)
		}
	}
	return nil
}

func (m *memoryLedger) channels(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(slices.Values(m.outbox.channels)), nil
}

func (m *memoryLedger) removeChannel(_ context.Context, name string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := &m.outbox
	known := slices.Contains(o.channels, name)
	o.channels = slices.DeleteFunc(o.channels, func(c string) bool { return c == name })
	o.all = slices.DeleteFunc(o.all, func(d *memoryDelivery) bool { return d.channel == name })
	return known, nil
}

func (m *memoryLedger) waiting(_ context.Context, channel string, most int) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, d := range m.outbox.all {
		if d.channel == channel && d.state == stateWaiting {
			n++
		}
	}
	return int64(min(n, most)), nil
}

func (m *memoryLedger) claim(_ context.Context, channel string, again bool, busy []string, n int, lease time.Duration) (claimed []delivery, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	var due []*memoryDelivery
	for _, d := range m.outbox.all {
		if d.channel == channel && d.state == stateWaiting && d.attempts > 0 == again && !d.due.After(now) && !slices.Contains(busy, d.notice.key) {
			due = append(due, d)
		}
	}
	slices.SortStableFunc(due, func(a, b *memoryDelivery) int { return a.due.Compare(b.due) })
	taken := make(map[string]bool)
	for _, d := range due {
		if taken[d.notice.key] || len(claimed) == n {
			continue
		}
		taken[d.notice.key] = true
		d.attempts++
		d.due = now.Add(lease)
		claimed = append(claimed, delivery{channel: channel, notice: *d.notice, id: d.id, attempts: d.attempts})
	}
	return claimed, nil
}

func (m *memoryLedger) settle(_ context.Context, d *delivery, s *settlement) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.outbox.all, func(o *memoryDelivery) bool { return o.channel == d.channel && o.id == d.id })
	if i < 0 {
		return nil // the channel was removed
	}
	o, now := m.outbox.all[i], m.now()
	if s.verdict == delivered {
		if o.state != stateDelivered {
			o.state, o.delivered, o.err = stateDelivered, now, ""
		}
		return nil
	}
	if o.state != stateWaiting || o.attempts != d.attempts {
		return nil
	}
	switch s.verdict {
	case failed:
		o.due, o.err = now.Add(s.pause), s.err
	case dead:
		o.state, o.err = stateDead, s.err
	case released:
		o.due = now
		o.attempts--
	}
	return nil
}

func (m *memoryLedger) deliveries(_ context.Context, s deliverySelection, yield func(*deliveryRow) error) error {
	m.mu.Lock()
	var found []deliveryRow
	for _, d := range slices.Backward(m.outbox.all) {
		if (s.channel == "" || s.channel == d.channel) && (s.state == "" || s.state == d.state) &&
			(s.limit == "" || s.limit == d.notice.limit) && (s.key == "" || s.key == d.notice.key) {
			found = append(found, deliveryRow{d.channel, *d.notice, d.state, d.attempts, d.due.UTC(), d.delivered, d.err})
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

func (m *memoryLedger) redeliver(_ context.Context, channel string, notices []account, levels []int32, included []int64) (n int64, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.outbox.all {
		chosen := len(notices) == 0 && d.state == stateDead
		for i := range notices {
			chosen = chosen || notices[i] == d.notice.account && int(levels[i]) == d.notice.level%againStep && included[i] == d.notice.included
		}
		if d.channel == channel && chosen {
			d.state, d.attempts, d.due, d.delivered = stateWaiting, 0, m.now(), time.Time{}
			n++
		}
	}
	return n, nil
}
