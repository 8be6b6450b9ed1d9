package memledger

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/weblimit/weblimit/quota/internal/ledger"
)

// exports is what receivers of usage have, in a Ledger, whose mutex guards it.
type exports struct {
	sinks map[string]*sink
}

type sink struct {
	since, scanned, due, lease time.Time
	owner                      string
	days                       map[ledger.DayUse]*export // by account and date: used is 0
}

type export struct {
	sent, seq, value, at int64
	pending              bool
}

// OpenExport implements [ledger.Ledger].
func (m *Ledger) OpenExport(_ context.Context, name string, since time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.exports.sinks == nil {
		m.exports.sinks = make(map[string]*sink)
	}
	if m.exports.sinks[name] == nil {
		if since.IsZero() {
			since = m.Now()
		}
		m.exports.sinks[name] = &sink{since: since, scanned: since, days: make(map[ledger.DayUse]*export)}
	}
	return nil
}

// BeginPass implements [ledger.Ledger].
func (m *Ledger) BeginPass(_ context.Context, p *ledger.Pass) (ok bool, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, now := m.exports.sinks[p.Name], m.Now()
	if s == nil || s.due.After(now) || s.lease.After(now) && s.owner != p.Process {
		return false, nil
	}
	s.owner, s.lease = p.Process, now.Add(p.Lease)
	p.Since, p.Began, p.Whole = s.scanned.Add(-ledger.Lateness), now, true
	if p.Since.Before(s.since) {
		p.Since = s.since
	}
	return true, nil
}

// NextIncrements implements [ledger.Ledger].
func (m *Ledger) NextIncrements(_ context.Context, p *ledger.Pass, after ledger.Account, n int) (page ledger.Page, ok bool, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.exports.sinks[p.Name]
	if s == nil || s.owner != p.Process {
		return page, false, nil
	}
	s.lease = m.Now().Add(p.Lease)
	var ids []ledger.Account
	for id := range m.accounts {
		if id.End > p.Since.UnixMicro() && (len(p.Limits) == 0 || slices.Contains(p.Limits, id.Limit)) && ledger.Compare(&id, &after) > 0 {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b ledger.Account) int { return ledger.Compare(&a, &b) })
	if page.More = len(ids) > n; page.More {
		ids = ids[:n]
	}
	for _, id := range ids {
		page.Last = id
		page.All = append(page.All, s.increments(&id, m.accounts[id], p.HoldBack)...)
	}
	return page, true, nil
}

// increments makes the increments of an account, and returns those on their way.
func (s *sink) increments(id *ledger.Account, a *account, holdBack bool) (all []ledger.Increment) {
	days := a.byDay(id)
	slices.SortFunc(days, func(a, b ledger.DayUse) int { return cmp.Compare(a.Date, b.Date) })
	for _, day := range days {
		total := day.Used
		day.Used = 0
		e := s.days[day]
		if e == nil {
			e = &export{}
			s.days[day] = e
		}
		if !e.pending && (total > e.sent || total < e.sent && !holdBack) {
			e.pending, e.value, e.at = true, total-e.sent, a.lastOn(day.Date)
			e.seq++
		}
		if e.pending {
			all = append(all, ledger.Increment{Account: *id, Date: day.Date, Seq: e.seq, Sent: e.sent, Value: e.value, At: e.at})
		}
	}
	return all
}

// lastOn returns when the last unit of a day was charged.
func (a *account) lastOn(date int32) (at int64) {
	for id, d := range a.days {
		if id.date == date {
			at = max(at, d.at)
		}
	}
	return at
}

// Sent implements [ledger.Ledger].
func (m *Ledger) Sent(_ context.Context, p *ledger.Pass, all []ledger.Increment) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.exports.sinks[p.Name]
	if s.owner == p.Process {
		s.lease = m.Now().Add(p.Lease)
	}
	for i := range all {
		e := s.days[ledger.DayUse{Account: all[i].Account, Date: all[i].Date}]
		if e != nil && e.pending && e.seq == all[i].Seq {
			e.sent += e.value
			e.pending = false
		}
	}
	return nil
}

// Pending implements [ledger.Ledger].
func (m *Ledger) Pending(_ context.Context, name string, most int) (int64, error) {
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

// EndPass implements [ledger.Ledger].
func (m *Ledger) EndPass(_ context.Context, p *ledger.Pass, complete bool, pause time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.exports.sinks[p.Name]
	if s == nil || s.owner != p.Process {
		return nil
	}
	s.owner, s.lease, s.due = "", time.Time{}, m.Now().Add(pause)
	if complete {
		s.scanned = p.Began
	}
	return nil
}
