// Package memledger keeps a book in the memory of this process. It is what quota.InMemory is made on, so that an
// application with a book can be tested without a server, and the model that package pgledger is compared with: tests of
// a book on faults and clocks run on it, under testing/synctest, at random and thousands of times.
package memledger

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/micros"
	"github.com/weblimit/weblimit/quota/internal/terms"
)

// Ledger is a ledger that lives as long as the process.
type Ledger struct {
	Now    func() time.Time // may be set before it is used
	levels []int            // percent, of the bits of Position.Levels

	mu       sync.Mutex
	accounts map[ledger.Account]*account         // Guarded by mu.
	noticed  map[ledger.Account][]*ledger.Notice // Guarded by mu.
	carried  map[ledger.Account]int64            // what accounts of detached months have used. Guarded by mu.
	declared map[string]ledger.Declaration       // by name. Guarded by mu.
	changes  []*terms.Change                     // in the order they were made. Guarded by mu.
	byID     map[string]*terms.Change            // by operation. Guarded by mu.
	hearers  map[int]func(limit, tenant string)
	next     int // of hearers. Guarded by mu.

	outbox  outbox  // Guarded by mu.
	exports exports // Guarded by mu.
}

// account is an account with its generations. The last has the highest number.
type account struct {
	lives []ledger.Life
	days  map[dayID]dayState
}

type dayID struct {
	generation int64
	date       int32
}

type dayState struct{ position, used, at int64 }

// New returns an empty ledger. levels are those of quota.Config.Levels.
func New(levels []int) *Ledger {
	return &Ledger{
		Now:      time.Now,
		levels:   levels,
		accounts: make(map[ledger.Account]*account),
		carried:  make(map[ledger.Account]int64),
		noticed:  make(map[ledger.Account][]*ledger.Notice),
		declared: make(map[string]ledger.Declaration),
		byID:     make(map[string]*terms.Change),
		hearers:  make(map[int]func(limit, tenant string)),
	}
}

// Begin implements [ledger.Ledger].
func (m *Ledger) Begin(_ context.Context, openings []ledger.Opening, positions []ledger.Position, answers []ledger.Begun) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range positions {
		m.write(&positions[i])
	}
	for i := range openings {
		a := m.account(&openings[i].Account)
		n := int64(counting.FirstGeneration + 1)
		for j := range a.lives {
			if last := openings[i].Closes; last != nil && last.Generation() == a.lives[j].Generation {
				a.close(&a.lives[j], last)
			}
			n = max(n, a.lives[j].Generation+1)
		}
		sum := min(max(ledger.Total(a.lives), 0), ledger.MaxBase)
		a.lives = append(a.lives, ledger.Life{Generation: n, Base: sum, Used: sum, Position: n << ledger.GenerationShift})
		answers[i] = ledger.Begun{Generation: n, Total: sum}
	}
	return nil
}

// close ends a generation with the larger use: the ledger's, or that of the store's last state, which then is the
// last of its day.
func (a *account) close(l *ledger.Life, last *ledger.Position) {
	l.Closed = true
	if last.Used > l.Used {
		l.Position, l.Used, l.At = max(l.Position, last.Position)+1, last.Used, max(l.At, last.At)
		a.days[dayID{l.Generation, last.Date}] = dayState{l.Position, l.Used, l.At}
	}
}

// account returns an account, which it makes if it is unknown. m.mu is held.
func (m *Ledger) account(id *ledger.Account) *account {
	a := m.accounts[*id]
	if a == nil {
		a = &account{days: make(map[dayID]dayState)}
		m.accounts[*id] = a
	}
	return a
}

// Flush implements [ledger.Ledger].
func (m *Ledger) Flush(_ context.Context, positions []ledger.Position) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range positions {
		m.write(&positions[i])
	}
	return nil
}

// write writes one position. m.mu is held.
func (m *Ledger) write(p *ledger.Position) {
	a, n := m.account(&p.Account), p.Generation()
	i := slices.IndexFunc(a.lives, func(l ledger.Life) bool { return l.Generation == n })
	if i < 0 {
		base := int64(0) // the store has begun it
		if n > counting.FirstGeneration {
			base = min(ledger.Total(a.lives), p.Used) // the ledger has lost it
		}
		i = sort.Search(len(a.lives), func(i int) bool { return a.lives[i].Generation > n })
		a.lives = slices.Insert(a.lives, i, ledger.Life{Generation: n, Base: base, Used: base})
	}
	l := &a.lives[i]
	p.Outcome = l.Judge(p)
	if p.Outcome == ledger.Written && p.Position > l.Position {
		l.Position, l.Used, l.At = p.Position, p.Used, p.At
	}
	day := dayID{n, p.Date}
	if p.Outcome == ledger.Written && p.Position > a.days[day].position {
		a.days[day] = dayState{p.Position, p.Used, p.At}
	}
	for i := range ledger.LevelsIn(p.Levels) {
		made := &ledger.Notice{Account: p.Account, Level: m.levels[i], Used: p.Used, Included: p.Included, Hard: p.Hard, At: p.At}
		if level, is := made.After(m.noticed[p.Account]); is {
			made.Level = level
			m.noticed[p.Account] = append(m.noticed[p.Account], made)
			m.outbox.add(made, m.Now())
		}
	}
}

// Usage implements [ledger.Ledger].
func (m *Ledger) Usage(_ context.Context, s ledger.Selection, yield func(ledger.Use) error) error {
	m.mu.Lock()
	var found []ledger.Use
	for id, a := range m.accounts {
		if s.Selects(&id) {
			found = append(found, ledger.Use{Account: id, Used: ledger.Total(a.lives)})
		}
	}
	m.mu.Unlock()
	slices.SortFunc(found, func(a, b ledger.Use) int { return ledger.Compare(&a.Account, &b.Account) })
	for _, u := range found {
		if err := yield(u); err != nil {
			return err
		}
	}
	return nil
}

// Days implements [ledger.Ledger].
func (m *Ledger) Days(_ context.Context, s ledger.Selection) ([]ledger.DayUse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []ledger.DayUse
	for id, a := range m.accounts {
		if s.Selects(&id) {
			all = append(all, a.byDay(&id)...)
		}
	}
	slices.SortFunc(all, func(a, b ledger.DayUse) int {
		return cmp.Or(ledger.Compare(&a.Account, &b.Account), cmp.Compare(a.Date, b.Date))
	})
	return all, nil
}

// byDay returns the account's use by day: of each generation, what the last position of
// a day is above that of the day before.
func (a *account) byDay(id *ledger.Account) (all []ledger.DayUse) {
	sums := make(map[int32]int64)
	for _, l := range a.lives {
		var dates []dayID
		for d := range a.days {
			if d.generation == l.Generation {
				dates = append(dates, d)
			}
		}
		slices.SortFunc(dates, func(x, y dayID) int { return cmp.Compare(a.days[x].position, a.days[y].position) })
		before := l.Base
		for _, d := range dates {
			sums[d.date] += a.days[d].used - before
			before = a.days[d].used
		}
	}
	for date, used := range sums {
		all = append(all, ledger.DayUse{Account: *id, Date: date, Used: used})
	}
	return all
}

// Tenants implements [ledger.Ledger].
func (m *Ledger) Tenants(_ context.Context, after ledger.Account, n int) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for id := range m.accounts {
		if id.Limit == after.Limit && id.Start == after.Start && id.End == after.End && id.Key > after.Key {
			all = append(all, id.Key)
		}
	}
	for _, c := range m.changes {
		if c.Limit == after.Limit && c.At < after.End && c.Tenant > after.Key {
			all = append(all, c.Tenant)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(n, len(all))], nil
}

// Open implements [ledger.Ledger].
func (m *Ledger) Open(_ context.Context, at int64, after ledger.Account, n int) ([]ledger.Standing, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := slices.SortedFunc(maps.Keys(m.accounts), func(a, b ledger.Account) int { return ledger.Compare(&a, &b) })
	var found []ledger.Standing
	for _, id := range ids {
		if id.End > at && ledger.Compare(&id, &after) > 0 && len(found) < n {
			a := m.accounts[id]
			found = append(found, ledger.Standing{Account: id, Total: ledger.Total(a.lives), Lives: slices.Clone(a.lives)})
		}
	}
	return found, nil
}

// Apply implements [ledger.Ledger].
func (m *Ledger) Apply(_ context.Context, c *terms.Change) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if before := m.byID[c.Operation]; before != nil {
		return false, before.RepeatedBy(c)
	}
	made := *c
	made.Present = false
	made.At = m.Now().UnixMicro()
	m.changes = append(m.changes, &made)
	m.byID[c.Operation] = &made
	for _, changed := range m.hearers {
		changed(c.Limit, c.Tenant)
	}
	return true, nil
}

// Facts implements [ledger.Ledger].
func (m *Ledger) Facts(_ context.Context, limit string, tenants []string) (map[string]*terms.Facts, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[string]*terms.Facts, len(tenants))
	for _, tenant := range tenants {
		f := &terms.Facts{Now: m.Now().UnixMicro()}
		for _, c := range m.changes {
			if c.Limit == limit && (c.Tenant == tenant || c.Kind == terms.ChangePlan) {
				f.Changes = append(f.Changes, *c)
			}
		}
		for id, a := range m.accounts {
			if id.Limit == limit && id.Key == tenant {
				f.Periods = append(f.Periods, terms.PeriodUse{Start: id.Start, End: id.End, Used: ledger.Total(a.lives)})
			}
		}
		for id, used := range m.carried {
			if id.Limit == limit && id.Key == tenant {
				f.Periods = append(f.Periods, terms.PeriodUse{Start: id.Start, End: id.End, Used: used})
			}
		}
		f.Sort()
		all[tenant] = f
	}
	return all, nil
}

// Listen implements [ledger.Ledger].
func (m *Ledger) Listen(ctx context.Context, ready func(), changed func(limit, tenant string)) error {
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

// Prepare implements [ledger.Ledger].
func (m *Ledger) Prepare(context.Context, time.Time) error { return nil }

// Present knows of no other processes: when this one ends, so does the ledger.
func (m *Ledger) Present(context.Context, string, []string, time.Duration) (gone []string, clock time.Time, err error) {
	return nil, clock, nil
}

// Declare implements [ledger.Ledger].
func (m *Ledger) Declare(_ context.Context, all []ledger.Declaration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range all {
		d.At = m.Now().UTC()
		m.declared[d.Name] = d
	}
	return nil
}

// Declarations implements [ledger.Ledger].
func (m *Ledger) Declarations(context.Context) ([]ledger.Declaration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.declared), func(a, b ledger.Declaration) int { return cmp.Compare(a.Name, b.Name) }), nil
}

// Leave implements [ledger.Ledger].
func (m *Ledger) Leave(context.Context, ...string) error { return nil }

// Detach implements [ledger.Ledger].
func (m *Ledger) Detach(_ context.Context, before time.Time) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := micros.BeginOf(micros.Month(before)).UnixMicro()
	for id, a := range m.accounts {
		if id.Start < first {
			m.carried[id] = ledger.Total(a.lives)
			delete(m.accounts, id)
		}
	}
	return nil, nil
}
