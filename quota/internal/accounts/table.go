// Package accounts is what a process remembers of the accounts that it has charged: the last state that the store told of each,
// and which states the ledger has not been told. It waits for nobody: a request pays a lock of one of the shards of
// its limit, and no allocation for an account that is remembered.
//
// A state is on one of three ways. Dirty: its entry is in shard.dirty, for the next flush. Flying: a flush has taken it and is
// at it; flying counts how many. Then either Done, the ledger has it, or GiveBack, it is dirty again. An entry is
// forgotten only if it is neither: [Table] never drops what the ledger does not know, but for what does not fit into it at all,
// which is counted in Overflow and found in the store by a reconciliation.
//
// Locks: shard.mu and Kept.mu are leaves: nothing that locks is called under them.
package accounts

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// ShardCount is the number of parts of a limit's table, each with a lock of its own.
const ShardCount = 64

// Table remembers the last states of accounts that requests were told of, and which of them
// the ledger has not been told. Each limit has its own shards.
type Table struct {
	seed  maphash.Seed
	most  int64 // entries
	rules *Rules

	Entries  atomic.Int64
	Dirty    atomic.Int64 // entries that the ledger has not been told
	Overflow atomic.Int64 // states that were not remembered, because the table was full
}

// shard is a part of a limit's table.
type shard struct {
	mu      sync.Mutex
	entries map[string]*entry // by key. Guarded by mu.
	dirty   []*entry          // those whose states the ledger has not been told. Guarded by mu.
}

// entry is what is remembered of a key under a limit.
type entry struct {
	Key string

	// Guarded by the shard's mu:
	now     state
	twin    *Twin     // of the present account
	older   []state   // of earlier days, generations or periods, which the ledger has not been told
	queued  bool      // in shard.dirty
	suspect bool      // a lower position of the same generation, or the same with other use, was told later than the present one
	behind  bool      // older has states of an earlier generation of the same account
	flying  int       // states of it that are being flushed
	seen    bool      // since the last sweep
	caught  time.Time // when the account was last told what was written late
	reached int       // of twin.levels, how many were noticed in the present account
}

// state is a state of an account.
type state struct {
	Start, End     int64 // of the period
	day            int64 // when the day began
	position       int64
	used           int64
	at             int64
	hard, included int64
	levels         uint64 // that were reached and not told
	dirty          bool   // the ledger has not been told
}

// Init sets the table up, for the limits of r, with a bound on its entries.
func (t *Table) Init(most int, r *Rules) {
	t.seed, t.most, t.rules = maphash.MakeSeed(), int64(most), r
}

func (t *Table) shard(k *Kept, key []byte) *shard {
	return &k.shards[maphash.Bytes(t.seed, key)%ShardCount]
}

// View is a state of an account, as a store has told it.
type View struct {
	store.Account
	at   int64 // when the store told it
	Ends int64 // when the account's period ends
}

// ViewOf returns what a store has told in a result.
func ViewOf(r *store.Result, a *store.Account) View { return View{*a, r.At, counting.Ends(r)} }

// during returns when the store told the state, within the account's period. If the store's clock
// was set back over the beginning of a period, the account of that period goes on.
func (v *View) during(start, end int64) int64 { return min(max(v.at, start), end-1) }

// Note remembers a state that the store has told. It allocates nothing for an account that is
// remembered.
func (t *Table) Note(w *Twin, key []byte, v *View) {
	start, end, _ := w.Rule.Period(v.Ends - 1)
	at := v.during(start, end)
	day, _, _ := w.Kept.days.Period(at)
	s := t.shard(w.Kept, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[string(key)]
	if e == nil {
		if e = t.add(s, key); e == nil {
			return
		}
	}
	e.seen = true
	n := &e.now
	to := state{Start: start, End: end, day: day, position: v.Position, used: v.Used, at: at, hard: w.hard, included: w.included, dirty: true}
	if !n.follows(&to) && !e.turn(&to) {
		t.noteLate(s, e, w, to)
		return
	}
	if v.Position <= n.position && n.at != 0 {
		if (v.Position < n.position || v.Used != n.used) && at > n.at && !e.suspect {
			e.suspect = true
			t.mark(s, e)
		}
		return
	}
	if e.twin != nil && w.included > e.twin.included { // levels above what was used can be reached again
		for e.reached = min(e.reached, len(w.levels)); e.reached > 0 && w.levels[e.reached-1] > n.used; {
			e.reached--
		}
	}
	n.position, n.used, n.at = v.Position, v.Used, at
	n.hard, n.included, e.twin = w.hard, w.included, w
	for e.reached < len(w.levels) && v.Used >= w.levels[e.reached] {
		n.levels |= 1 << e.reached
		e.reached++
	}
	t.mark(s, e)
	n.dirty = true
}

// mark queues an entry for the next flush. s.mu is held.
func (t *Table) mark(s *shard, e *entry) {
	if !e.queued {
		e.queued = true
		s.dirty = append(s.dirty, e)
		t.Dirty.Add(1)
	}
}

// add adds an entry. It returns nil if there is no room. s.mu is held.
func (t *Table) add(s *shard, key []byte) *entry {
	if t.Entries.Add(1) > t.most {
		t.Entries.Add(-1)
		if !s.evict() {
			t.Overflow.Add(1)
			return nil
		}
	}
	if s.entries == nil {
		s.entries = make(map[string]*entry)
	}
	e := &entry{Key: string(key)}
	s.entries[e.Key] = e
	return e
}

// evict drops some entries of the shard that the ledger knows, and reports whether there was one.
// It only looks at a few. s.mu is held.
func (s *shard) evict() bool {
	looked := 0
	for key, e := range s.entries {
		if e.idle() {
			delete(s.entries, key)
			return true
		}
		if looked++; looked == 8 {
			break
		}
	}
	return false
}

// idle reports whether the ledger knows all of the entry. Its shard is locked.
func (e *entry) idle() bool { return !e.queued && e.flying == 0 }

// turn makes room in an entry for a state of another day, generation or period. It returns
// false if the present one is later. The entry's shard is locked.
func (e *entry) turn(to *state) bool {
	n := &e.now
	if n.at == 0 {
		*n = state{Start: to.Start, End: to.End, day: to.day}
		return true
	}
	same := n.Start == to.Start && n.End == to.End
	if same && to.position < n.position || !same && to.Start < n.Start {
		return false
	}
	if n.dirty || e.flying > 0 { // the ledger may not have it yet
		e.older = append(e.older, *n)
		if same && counting.Generation(n.position) != counting.Generation(to.position) {
			e.behind = true
		}
	}
	if !same {
		e.reached = 0
	}
	*n = state{Start: to.Start, End: to.End, day: to.day}
	return true
}

// noteLate remembers a state that is told after a later one. s.mu is held.
func (t *Table) noteLate(s *shard, e *entry, w *Twin, late state) {
	for i := range e.older {
		o := &e.older[i]
		if o.follows(&late) {
			if late.position > o.position {
				late.levels |= o.levels
				*o = late
			}
			return
		}
	}
	if late.Start == e.now.Start && late.End == e.now.End && counting.Generation(late.position) != counting.Generation(e.now.position) {
		e.behind = true
	}
	for i, units := range w.levels {
		if late.used >= units && (late.Start != e.now.Start || late.End != e.now.End) {
			late.levels |= 1 << i
		}
	}
	e.older = append(e.older, late)
	t.mark(s, e)
}

// Taken is a state that was taken from the table to be flushed.
type Taken struct {
	Kept    *Kept
	Entry   *entry
	State   state
	Suspect bool // see entry
}

// Round is one walk through the table, to flush what the ledger has not been told when it began.
// What is charged meanwhile is for the next one, so that no account waits for others that are
// charged all the time.
type Round struct {
	shards []roundShard
	n      int // in shards
}

type roundShard struct {
	kept *Kept
	*shard
	left int // entries to take; negative if nobody has looked yet
}

// Round begins a walk.
func (t *Table) Round() *Round {
	var r Round
	t.rules.Each(func(k *Kept) {
		for i := range k.shards {
			r.shards = append(r.shards, roundShard{k, &k.shards[i], -1})
		}
	})
	return &r
}

// Take takes about n states. It returns none in the end.
func (t *Table) Take(r *Round, n int) (to []Taken) {
	for ; r.n < len(r.shards); r.n++ {
		s := &r.shards[r.n]
		if to = t.takeShard(s, n, to); s.left > 0 {
			return to
		}
	}
	return to
}

// takeShard takes up to n states, of the entries that were dirty when the round came to this shard: what gets dirty meanwhile
// is for the next round, so that a round ends however fast requests come.
func (t *Table) takeShard(s *roundShard, n int, to []Taken) []Taken {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left < 0 {
		s.left = len(s.dirty)
	}
	s.left = min(s.left, len(s.dirty)) // some may have been taken by TakeKey
	i := 0
	for ; i < s.left && len(to) < n; i++ {
		to = t.takeEntry(s.kept, s.dirty[i], to)
	}
	s.left -= i
	rest := copy(s.dirty, s.dirty[i:])
	clear(s.dirty[rest:])
	s.dirty = s.dirty[:rest]
	return to
}

// takeEntry takes an entry's states. Its shard is locked, and it is not in shard.dirty.
func (t *Table) takeEntry(k *Kept, e *entry, to []Taken) []Taken {
	before := len(to)
	e.queued = false
	t.Dirty.Add(-1)
	for _, o := range e.older {
		to = append(to, Taken{Kept: k, Entry: e, State: o})
	}
	e.older = nil
	if e.now.dirty || e.suspect {
		to = append(to, Taken{k, e, e.now, e.suspect})
		e.now.dirty, e.now.levels, e.suspect = false, 0, false
	}
	e.flying += len(to) - before
	return to
}

// TakeKey takes the states of one key. Those that are being flushed are taken once more, since the
// ledger may not have them yet.
func (t *Table) TakeKey(k *Kept, key []byte, to []Taken) []Taken {
	s := t.shard(k, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[string(key)]
	if e == nil || e.idle() {
		return to
	}
	if !e.queued {
		e.flying++
		return append(to, Taken{Kept: k, Entry: e, State: e.now})
	}
	for i := range s.dirty {
		if s.dirty[i] == e {
			last := len(s.dirty) - 1
			s.dirty[i], s.dirty[last] = s.dirty[last], nil
			s.dirty = s.dirty[:last]
			break
		}
	}
	return t.takeEntry(k, e, to)
}

// Done ends a flush of states.
func (t *Table) Done(all []Taken) {
	for i := range all {
		s := t.shard(all[i].Kept, []byte(all[i].Entry.Key))
		s.mu.Lock()
		all[i].Entry.flying--
		s.mu.Unlock()
	}
}

// GiveBack ends a flush of states that failed: they are to be flushed again.
func (t *Table) GiveBack(all []Taken) {
	for i := range all {
		a := &all[i]
		s := t.shard(a.Kept, []byte(a.Entry.Key))
		s.mu.Lock()
		e, n := a.Entry, &a.Entry.now
		if n.follows(&a.State) {
			n.levels |= a.State.levels
			n.dirty, e.suspect = true, e.suspect || a.Suspect
		} else {
			e.older = append(e.older, a.State)
		}
		e.flying--
		t.mark(s, e)
		s.mu.Unlock()
	}
}

// follows reports whether s says everything that an earlier state does.
func (s *state) follows(earlier *state) bool {
	return s.Start == earlier.Start && s.End == earlier.End && s.day == earlier.day &&
		counting.Generation(s.position) == counting.Generation(earlier.position)
}

// Sweep forgets the entries of one shard of each limit that the ledger knows and that were not
// charged since the last sweep.
func (t *Table) Sweep(i int) {
	t.rules.Each(func(k *Kept) {
		s := &k.shards[i%ShardCount]
		s.mu.Lock()
		defer s.mu.Unlock()
		for key, e := range s.entries {
			if e.idle() && !e.seen {
				delete(s.entries, key)
				t.Entries.Add(-1)
			}
			e.seen = false
		}
	})
}

// catchUpEvery bounds how often an account begins another generation because an earlier one was
// written late: what is charged meanwhile makes the new one late as well.
const catchUpEvery = 10 * time.Second

// IsBehind reports whether a state that was written is of an earlier generation than the present
// one of the same account, which has begun without it.
func (t *Table) IsBehind(a *Taken, now time.Time) bool {
	s := t.shard(a.Kept, []byte(a.Entry.Key))
	s.mu.Lock()
	defer s.mu.Unlock()
	e := a.Entry
	if !e.behind || e.now.Start != a.State.Start || counting.Generation(a.State.position) >= counting.Generation(e.now.position) || now.Sub(e.caught) < catchUpEvery {
		return false
	}
	e.behind, e.caught = false, now
	return true
}

// TwinOf returns the twin under which an entry was last charged.
func (t *Table) TwinOf(a *Taken) *Twin {
	s := t.shard(a.Kept, []byte(a.Entry.Key))
	s.mu.Lock()
	defer s.mu.Unlock()
	return a.Entry.twin
}
