package quota

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// shardCount is the number of parts of a limit's table, each with a lock of its own.
const shardCount = 64

// table remembers the last states of accounts that requests were told of, and which of them
// the ledger has not been told. Each limit has its own shards.
type table struct {
	seed maphash.Seed
	most int64 // entries

	entries  atomic.Int64
	dirty    atomic.Int64 // entries that the ledger has not been told
	overflow atomic.Int64 // states that were not remembered, because the table was full
}

// shard is a part of a limit's table.
type shard struct {
	mu      sync.Mutex
	entries map[string]*entry // by key. Guarded by mu.
	dirty   []*entry          // those whose states the ledger has not been told. Guarded by mu.
}

// entry is what is remembered of a key under a limit.
type entry struct {
	key string

	// Guarded by the shard's mu:
	now     state
	twin    *twin     // of the present account
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
	start, end     int64 // of the period
	day            int64 // when the day began
	position       int64
	used           int64
	at             int64
	hard, included int64
	levels         uint64 // that were reached and not told
	dirty          bool   // the ledger has not been told
}

func (t *table) init(most int) { t.seed, t.most = maphash.MakeSeed(), int64(most) }

func (t *table) shard(k *kept, key []byte) *shard {
	return &k.shards[maphash.Bytes(t.seed, key)%shardCount]
}

// view is a state of an account, as a store has told it.
type view struct {
	store.Account
	at   int64 // when the store told it
	ends int64 // when the account's period ends
}

func viewOf(r *store.Result, a *store.Account) view { return view{*a, r.At, r.Ends()} }

// during returns when the store told the state, within the account's period. If the store's clock
// was set back over the beginning of a period, the account of that period goes on.
func (v *view) during(start, end int64) int64 { return min(max(v.at, start), end-1) }

// note remembers a state that the store has told. It allocates nothing for an account that is
// remembered.
func (t *table) note(w *twin, key []byte, v *view) {
	start, end, _ := w.rule.Period(v.ends - 1)
	at := v.during(start, end)
	day, _, _ := w.kept.days.Period(at)
	s := t.shard(w.kept, key)
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
	to := state{start: start, end: end, day: day, position: v.Position, used: v.Used, at: at, hard: w.hard, included: w.included, dirty: true}
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
func (t *table) mark(s *shard, e *entry) {
	if !e.queued {
		e.queued = true
		s.dirty = append(s.dirty, e)
		t.dirty.Add(1)
	}
}

// add adds an entry. It returns nil if there is no room. s.mu is held.
func (t *table) add(s *shard, key []byte) *entry {
	if t.entries.Add(1) > t.most {
		t.entries.Add(-1)
		if !s.evict() {
			t.overflow.Add(1)
			return nil
		}
	}
	if s.entries == nil {
		s.entries = make(map[string]*entry)
	}
	e := &entry{key: string(key)}
	s.entries[e.key] = e
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
		*n = state{start: to.start, end: to.end, day: to.day}
		return true
	}
	same := n.start == to.start && n.end == to.end
	if same && to.position < n.position || !same && to.start < n.start {
		return false
	}
	if n.dirty || e.flying > 0 { // the ledger may not have it yet
		e.older = append(e.older, *n)
		if same && store.Generation(n.position) != store.Generation(to.position) {
			e.behind = true
		}
	}
	if !same {
		e.reached = 0
	}
	*n = state{start: to.start, end: to.end, day: to.day}
	return true
}

// noteLate remembers a state that is told after a later one. s.mu is held.
func (t *table) noteLate(s *shard, e *entry, w *twin, late state) {
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
	if late.start == e.now.start && late.end == e.now.end && store.Generation(late.position) != store.Generation(e.now.position) {
		e.behind = true
	}
	for i, units := range w.levels {
		if late.used >= units && (late.start != e.now.start || late.end != e.now.end) {
			late.levels |= 1 << i
		}
	}
	e.older = append(e.older, late)
	t.mark(s, e)
}

// taken is a state that was taken from the table to be flushed.
type taken struct {
	kept    *kept
	entry   *entry
	state   state
	suspect bool // see entry
}

// round is one walk through the table, to flush what the ledger has not been told when it began.
// What is charged meanwhile is for the next one, so that no account waits for others that are
// charged all the time.
type round struct {
	shards []roundShard
	n      int // in shards
}

type roundShard struct {
	kept *kept
	*shard
	left int // entries to take; negative if nobody has looked yet
}

func (t *table) round(limits *sync.Map) *round {
	var r round
	limits.Range(func(_, value any) bool {
		k := value.(*kept)
		for i := range k.shards {
			r.shards = append(r.shards, roundShard{k, &k.shards[i], -1})
		}
		return true
	})
	return &r
}

// take takes about n states. It returns none in the end.
func (t *table) take(r *round, n int) (to []taken) {
	for ; r.n < len(r.shards); r.n++ {
		s := &r.shards[r.n]
		if to = t.takeShard(s, n, to); s.left > 0 {
			return to
		}
	}
	return to
}

func (t *table) takeShard(s *roundShard, n int, to []taken) []taken {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left < 0 {
		s.left = len(s.dirty)
	}
	s.left = min(s.left, len(s.dirty)) // some may have been taken by takeKey
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
func (t *table) takeEntry(k *kept, e *entry, to []taken) []taken {
	before := len(to)
	e.queued = false
	t.dirty.Add(-1)
	for _, o := range e.older {
		to = append(to, taken{kept: k, entry: e, state: o})
	}
	e.older = nil
	if e.now.dirty || e.suspect {
		to = append(to, taken{k, e, e.now, e.suspect})
		e.now.dirty, e.now.levels, e.suspect = false, 0, false
	}
	e.flying += len(to) - before
	return to
}

// takeKey takes the states of one key. Those that are being flushed are taken once more, since the
// ledger may not have them yet.
func (t *table) takeKey(k *kept, key []byte, to []taken) []taken {
	s := t.shard(k, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[string(key)]
	if e == nil || e.idle() {
		return to
	}
	if !e.queued {
		e.flying++
		return append(to, taken{kept: k, entry: e, state: e.now})
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

// done ends a flush of states.
func (t *table) done(all []taken) {
	for i := range all {
		s := t.shard(all[i].kept, []byte(all[i].entry.key))
		s.mu.Lock()
		all[i].entry.flying--
		s.mu.Unlock()
	}
}

// giveBack ends a flush of states that failed: they are to be flushed again.
func (t *table) giveBack(all []taken) {
	for i := range all {
		a := &all[i]
		s := t.shard(a.kept, []byte(a.entry.key))
		s.mu.Lock()
		e, n := a.entry, &a.entry.now
		if n.follows(&a.state) {
			n.levels |= a.state.levels
			n.dirty, e.suspect = true, e.suspect || a.suspect
		} else {
			e.older = append(e.older, a.state)
		}
		e.flying--
		t.mark(s, e)
		s.mu.Unlock()
	}
}

// follows reports whether s says everything that an earlier state does.
func (s *state) follows(earlier *state) bool {
	return s.start == earlier.start && s.end == earlier.end && s.day == earlier.day &&
		store.Generation(s.position) == store.Generation(earlier.position)
}

// sweep forgets the entries of one shard of each limit that the ledger knows and that were not
// charged since the last sweep.
func (t *table) sweep(limits *sync.Map, i int) {
	limits.Range(func(_, value any) bool {
		s := &value.(*kept).shards[i%shardCount]
		s.mu.Lock()
		defer s.mu.Unlock()
		for key, e := range s.entries {
			if e.idle() && !e.seen {
				delete(s.entries, key)
				t.entries.Add(-1)
			}
			e.seen = false
		}
		return true
	})
}

// catchUpEvery bounds how often an account begins another generation because an earlier one was
// written late: what is charged meanwhile makes the new one late as well.
const catchUpEvery = 10 * time.Second

// isBehind reports whether a state that was written is of an earlier generation than the present
// one of the same account, which has begun without it.
func (t *table) isBehind(a *taken, now time.Time) bool {
	s := t.shard(a.kept, []byte(a.entry.key))
	s.mu.Lock()
	defer s.mu.Unlock()
	e := a.entry
	if !e.behind || e.now.start != a.state.start || store.Generation(a.state.position) >= store.Generation(e.now.position) || now.Sub(e.caught) < catchUpEvery {
		return false
	}
	e.behind, e.caught = false, now
	return true
}

// twinOf returns the twin under which an entry was last charged.
func (t *table) twinOf(a *taken) *twin {
	s := t.shard(a.kept, []byte(a.entry.key))
	s.mu.Lock()
	defer s.mu.Unlock()
	return a.entry.twin
}
