package quota

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// memoryLedger is a ledger that lives as long as the process, for tests and examples.
type memoryLedger struct {
	now    func() time.Time
	levels []int // percent, of the bits of position.levels

	mu       sync.Mutex
	accounts map[account]*memoryAccount // Guarded by mu.
	noticed  map[account][]*notice      // Guarded by mu.
	carried  map[account]int64          // what accounts of detached months have used. Guarded by mu.
	declared map[string]declaration     // by name. Guarded by mu.
	changes  []*change                  // in the order they were made. Guarded by mu.
	byID     map[string]*change         // by operation. Guarded by mu.
	hearers  map[int]func(limit, tenant string)
	next     int // of hearers. Guarded by mu.

	outbox  memoryOutbox  // Guarded by mu.
	exports memoryExports // Guarded by mu.
}

// memoryAccount is an account with its generations. The last has the highest number.
type memoryAccount struct {
	lives []life
	days  map[dayID]dayState
}

type dayID struct {
	generation int64
	date       int32
}

type dayState struct{ position, used, at int64 }

func newMemoryLedger(levels []int) *memoryLedger {
	return &memoryLedger{
		now:      time.Now,
		levels:   levels,
		accounts: make(map[account]*memoryAccount),
		carried:  make(map[account]int64),
		noticed:  make(map[account][]*notice),
		declared: make(map[string]declaration),
		byID:     make(map[string]*change),
		hearers:  make(map[int]func(limit, tenant string)),
	}
}

func (m *memoryLedger) begin(_ context.Context, openings []opening, positions []position, answers []begun) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range positions {
		m.write(&positions[i])
	}
	for i := range openings {
		a := m.account(&openings[i].account)
		n := int64(store.FirstGeneration + 1)
		for j := range a.lives {
			if last := openings[i].closes; last != nil && last.generation() == a.lives[j].generation {
				a.close(&a.lives[j], last)
			}
			n = max(n, a.lives[j].generation+1)
		}
		sum := min(max(total(a.lives), 0), maxBase)
		a.lives = append(a.lives, life{generation: n, base: sum, used: sum, position: n << generationShift})
		answers[i] = begun{generation: n, total: sum}
	}
	return nil
}

// close ends a generation with the larger use: the ledger's, or that of the store's last state, which then is the
// last of its day.
func (a *memoryAccount) close(l *life, last *position) {
	l.closed = true
	if last.used > l.used {
		l.position, l.used, l.at = max(l.position, last.position)+1, last.used, max(l.at, last.at)
		a.days[dayID{l.generation, last.date}] = dayState{l.position, l.used, l.at}
	}
}

// account returns an account, which it makes if it is unknown. m.mu is held.
func (m *memoryLedger) account(id *account) *memoryAccount {
	a := m.accounts[*id]
	if a == nil {
		a = &memoryAccount{days: make(map[dayID]dayState)}
		m.accounts[*id] = a
	}
	return a
}

func (m *memoryLedger) flush(_ context.Context, positions []position) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range positions {
		m.write(&positions[i])
	}
	return nil
}

// write writes one position. m.mu is held.
func (m *memoryLedger) write(p *position) {
	a, n := m.account(&p.account), p.generation()
	i := slices.IndexFunc(a.lives, func(l life) bool { return l.generation == n })
	if i < 0 {
		base := int64(0) // the store has begun it
		if n > store.FirstGeneration {
			base = min(total(a.lives), p.used) // the ledger has lost it
		}
		i = sort.Search(len(a.lives), func(i int) bool { return a.lives[i].generation > n })
		a.lives = slices.Insert(a.lives, i, life{generation: n, base: base, used: base})
	}
	l := &a.lives[i]
	p.outcome = l.judge(p)
	if p.outcome == written && p.position > l.position {
		l.position, l.used, l.at = p.position, p.used, p.at
	}
	day := dayID{n, p.date}
	if p.outcome == written && p.position > a.days[day].position {
		a.days[day] = dayState{p.position, p.used, p.at}
	}
	for i := range levelsIn(p.levels) {
		made := &notice{account: p.account, level: m.levels[i], used: p.used, included: p.included, hard: p.hard, at: p.at}
		if level, is := made.after(m.noticed[p.account]); is {
			made.level = level
			m.noticed[p.account] = append(m.noticed[p.account], made)
			m.outbox.add(made, m.now())
		}
	}
}

func (m *memoryLedger) usage(_ context.Context, s selection, yield func(use) error) error {
	m.mu.Lock()
	var found []use
	for id, a := range m.accounts {
		if s.selects(&id) {
			found = append(found, use{id, total(a.lives)})
		}
	}
	m.mu.Unlock()
	slices.SortFunc(found, func(a, b use) int { return compareAccounts(&a.account, &b.account) })
	for _, u := range found {
		if err := yield(u); err != nil {
			return err
		}
	}
	return nil
}

func (m *memoryLedger) days(_ context.Context, s selection) ([]dayUse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []dayUse
	for id, a := range m.accounts {
		if s.selects(&id) {
			all = append(all, a.byDay(&id)...)
		}
	}
	slices.SortFunc(all, func(a, b dayUse) int {
		return cmp.Or(compareAccounts(&a.account, &b.account), cmp.Compare(a.date, b.date))
	})
	return all, nil
}

// byDay returns the account's use by day: of each generation, what the last position of
// a day is above that of the day before.
func (a *memoryAccount) byDay(id *account) (all []dayUse) {
	sums := make(map[int32]int64)
	for _, l := range a.lives {
		var dates []dayID
		for d := range a.days {
			if d.generation == l.generation {
				dates = append(dates, d)
			}
		}
		slices.SortFunc(dates, func(x, y dayID) int { return cmp.Compare(a.days[x].position, a.days[y].position) })
		before := l.base
		for _, d := range dates {
			sums[d.date] += a.days[d].used - before
			before = a.days[d].used
		}
	}
	for date, used := range sums {
		all = append(all, dayUse{*id, date, used})
	}
	return all
}

func (m *memoryLedger) tenants(_ context.Context, after account, n int) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for id := range m.accounts {
		if id.limit == after.limit && id.start == after.start && id.end == after.end && id.key > after.key {
			all = append(all, id.key)
		}
	}
	for _, c := range m.changes {
		if c.limit == after.limit && c.at < after.end && c.tenant > after.key {
			all = append(all, c.tenant)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(n, len(all))], nil
}

func (m *memoryLedger) open(_ context.Context, at int64, after account, n int) ([]standing, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := slices.SortedFunc(maps.Keys(m.accounts), func(a, b account) int { return compareAccounts(&a, &b) })
	var found []standing
	for _, id := range ids {
		if id.end > at && compareAccounts(&id, &after) > 0 && len(found) < n {
			a := m.accounts[id]
			found = append(found, standing{account: id, total: total(a.lives), lives: slices.Clone(a.lives)})
		}
	}
	return found, nil
}

func (m *memoryLedger) apply(_ context.Context, c *change) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if before := m.byID[c.operation]; before != nil {
		return false, before.repeatedBy(c)
	}
	made := *c
	made.present = false
	made.at = m.now().UnixMicro()
	m.changes = append(m.changes, &made)
	m.byID[c.operation] = &made
	for _, changed := range m.hearers {
		changed(c.limit, c.tenant)
	}
	return true, nil
}

func (m *memoryLedger) facts(_ context.Context, limit string, tenants []string) (map[string]*facts, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[string]*facts, len(tenants))
	for _, tenant := range tenants {
		f := &facts{now: m.now().UnixMicro()}
		for _, c := range m.changes {
			if c.limit == limit && (c.tenant == tenant || c.kind == changePlan) {
				f.changes = append(f.changes, *c)
			}
		}
		for id, a := range m.accounts {
			if id.limit == limit && id.key == tenant {
				f.periods = append(f.periods, periodUse{id.start, id.end, total(a.lives)})
			}
		}
		for id, used := range m.carried {
			if id.limit == limit && id.key == tenant {
				f.periods = append(f.periods, periodUse{id.start, id.end, used})
			}
		}
		f.sort()
		all[tenant] = f
	}
	return all, nil
}

func (m *memoryLedger) listen(ctx context.Context, ready func(), changed func(limit, tenant string)) error {
	m.mu.Lock()
	n := m.next
	m.next++
	m.hearers[n] = changed
	m.mu.Unlock()
	ready()
	<-ctx.Done()
	m.mu.Lock()
	delete(m.hearers, n)
	m.mu.Unlock()
	return ctx.Err()
}

func (m *memoryLedger) prepare(context.Context, time.Time) error { return nil }

// present knows of no other processes: when this one ends, so does the ledger.
func (m *memoryLedger) present(context.Context, string, []string, time.Duration) (gone []string, clock time.Time, err error) {
	return nil, clock, nil
}

func (m *memoryLedger) declare(_ context.Context, all []declaration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range all {
		d.at = m.now().UTC()
		m.declared[d.name] = d
	}
	return nil
}

func (m *memoryLedger) declarations(context.Context) ([]declaration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.declared), func(a, b declaration) int { return cmp.Compare(a.name, b.name) }), nil
}

func (m *memoryLedger) leave(context.Context, ...string) error { return nil }

func (m *memoryLedger) detach(_ context.Context, before time.Time) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := beginOf(monthOf(before)).UnixMicro()
	for id, a := range m.accounts {
		if id.start < first {
			m.carried[id] = total(a.lives)
			delete(m.accounts, id)
		}
	}
	return nil, nil
}
