package quota

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// memoryExports is what receivers of usage have, in a memoryLedger, whose mutex guards it.
type memoryExports struct {
	sinks map[string]*memorySink
}

type memorySink struct {
	since, scanned, due, lease time.Time
	owner                      string
	days                       map[dayUse]*memoryExport // by account and date: used is 0
}

type memoryExport struct {
	sent, seq, value, at int64
	pending              bool
}

func (m *memoryLedger) openExport(_ context.Context, name string, since time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.exports.sinks == nil {
		m.exports.sinks = make(map[string]*memorySink)
	}
	if m.exports.sinks[name] == nil {
		if since.IsZero() {
			since = m.now()
		}
		m.exports.sinks[name] = &memorySink{since: since, scanned: since, days: make(map[dayUse]*memoryExport)}
	}
	return nil
}

func (m *memoryLedger) beginPass(_ context.Context, p *pass) (ok bool, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, now := m.exports.sinks[p.name], m.now()
	if s == nil || s.due.After(now) || s.lease.After(now) && s.owner != p.process {
		return false, nil
	}
	s.owner, s.lease = p.process, now.Add(p.lease)
	p.since, p.began, p.whole = s.scanned.Add(-lateness), now, true
	if p.since.Before(s.since) {
		p.since = s.since
	}
	return true, nil
}

func (m *memoryLedger) nextIncrements(_ context.Context, p *pass, after account, n int) (page page, ok bool, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.exports.sinks[p.name]
	if s == nil || s.owner != p.process {
		return page, false, nil
	}
	s.lease = m.now().Add(p.lease)
	var ids []account
	for id := range m.accounts {
		if id.end > p.since.UnixMicro() && (len(p.limits) == 0 || slices.Contains(p.limits, id.limit)) && compareAccounts(&id, &after) > 0 {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b account) int { return compareAccounts(&a, &b) })
	if page.more = len(ids) > n; page.more {
		ids = ids[:n]
	}
	for _, id := range ids {
		page.last = id
		page.all = append(page.all, s.increments(&id, m.accounts[id], p.holdBack)...)
	}
	return page, true, nil
}

// increments makes the increments of an account, and returns those on their way.
func (s *memorySink) increments(id *account, a *memoryAccount, holdBack bool) (all []increment) {
	days := a.byDay(id)
	slices.SortFunc(days, func(a, b dayUse) int { return cmp.Compare(a.date, b.date) })
	for _, day := range days {
		total := day.used
		day.used = 0
		e := s.days[day]
		if e == nil {
			e = &memoryExport{}
			s.days[day] = e
		}
		if !e.pending && (total > e.sent || total < e.sent && !holdBack) {
			e.pending, e.value, e.at = true, total-e.sent, a.lastOn(day.date)
			e.seq++
		}
		if e.pending {
			all = append(all, increment{account: *id, date: day.date, seq: e.seq, sent: e.sent, value: e.value, at: e.at})
		}
	}
	return all
}

// lastOn returns when the last unit of a day was charged.
func (a *memoryAccount) lastOn(date int32) (at int64) {
	for id, d := range a.days {
		if id.date == date {
			at = max(at, d.at)
		}
	}
	return at
}

func (m *memoryLedger) sent(_ context.Context, p *pass, all []increment) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.exports.sinks[p.name]
	if s.owner == p.process {
		s.lease = m.now().Add(p.lease)
	}
	for i := range all {
		e := s.days[dayUse{account: all[i].account, date: all[i].date}]
		if e != nil && e.pending && e.seq == all[i].seq {
			e.sent += e.value
			e.pending = false
		}
	}
	return nil
}

func (m *memoryLedger) pending(_ context.Context, name string, most int) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	if s := m.exports.sinks[name]; s != nil {
		for _, e := range s.days {
			if e.pending {
				n++
			}
		}
	}
	return int64(min(n, most)), nil
}

func (m *memoryLedger) endPass(_ context.Context, p *pass, complete bool, pause time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.exports.sinks[p.name]
	if s == nil || s.owner != p.process {
		return nil
	}
	s.owner, s.lease, s.due = "", time.Time{}, m.now().Add(pause)
	if complete {
		s.scanned = p.began
	}
	return nil
}
