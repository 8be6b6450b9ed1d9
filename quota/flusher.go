package quota

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/quota/internal/accounts"
	"github.com/weblimit/weblimit/quota/internal/ledger"
)

const (
	// flushBatch bounds the positions of one statement: what PostgreSQL writes in a fraction of Config.Timeout.
	flushBatch = 5000

	// presentEvery is how often a process says that it is there, and lostAfter how long it may
	// be silent until others look for what it has left behind: five times in vain are no process that is only busy.
	presentEvery = 5 * time.Second
	lostAfter    = 30 * time.Second

	// prepareEvery is how often partitions for the coming months are made.
	prepareEvery = time.Hour
)

// flusher writes what was used to the ledger. It is no line: a clock begins its batches, nobody waits for one, and what
// waits are sums in the table, to which later requests add.
type flusher struct {
	book *Book
	mu   sync.Mutex // one flush at a time

	suspects map[suspicionID]suspicion // that are not checked yet. Guarded by mu.
	late     []accounts.Taken          // that were written late, see catchUp. Guarded by mu.

	batch    batch
	clock    ledgerClock
	unknown  unknownLimits
	prepared atomic.Int64 // when there were partitions last, in seconds since the epoch
}

// run flushes until ctx is done.
func (f *flusher) run(ctx context.Context) {
	b := f.book
	flushing, present := time.NewTicker(b.config.FlushEvery), time.NewTicker(presentEvery)
	defer flushing.Stop()
	defer present.Stop()
	f.present(ctx)
	for n := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-present.C:
			f.present(ctx)
			f.tellUnknownLimits(ctx)
		case <-flushing.C:
			_ = f.flush(ctx) // reported, and tried again
			b.table.Sweep(n)
			n++
		}
	}
}

// present says that this process is there. If another one is gone, it looks for what that one has
// left behind.
func (f *flusher) present(ctx context.Context) {
	b := f.book
	// Not even the end of the book calls it back: PostgreSQL may do it all the same, after the book has left, and others
	// would then look for what a process has left behind that wrote everything.
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.config.Timeout)
	asked := time.Now()
	gone, clock, err := b.ledger.Present(within, b.process, b.rules.Names(), lostAfter)
	cancel()
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		b.health.failed(asked, err)
		return
	}
	b.health.answered()
	if back := f.clock.saw(clock, asked, time.Now()); back > 0 {
		b.health.clockSetBack(back)
	}
	b.countPending(ctx)
	asked = time.Now()
	if err := b.declareLimits(ctx); err != nil && ctx.Err() == nil {
		b.health.failed(asked, err)
	}
	if time.Since(time.Unix(f.prepared.Load(), 0)) > prepareEvery {
		asked = time.Now()
		if err := b.ledger.Prepare(ctx, asked); err == nil {
			f.prepared.Store(time.Now().Unix())
		} else if ctx.Err() == nil {
			b.health.failed(asked, err)
		}
	}
	lost := b.table.Overflow.Swap(0)
	if lost > 0 {
		b.health.waiting(lost)
	}
	if len(gone) == 0 && lost == 0 {
		return
	}
	if _, err := b.reconcile(ctx, true, nil); err != nil {
		b.table.Overflow.Add(lost) // and processes that are gone will be found again
		return
	}
	if len(gone) > 0 {
		_ = b.ledger.Leave(ctx, gone...) // or they will be found again
	}
}

// flush writes everything that was used until now. An opener may have taken states from the table, which writeAll then does
// not find, and puts them back if it can't write them: then there is more to write. Without waiting for openers, flush would
// say that all is written while a statement of one is on its way.
func (f *flusher) flush(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for opener := &f.book.opener; ; {
		before := opener.gaveBack.Load()
		if err := f.writeAll(ctx); err != nil {
			return err
		}
		if err := opener.waitTaken(ctx); err != nil {
			return err
		}
		if opener.gaveBack.Load() == before {
			break
		}
	}
	f.check(ctx)
	f.catchUp(ctx)
	return nil
}

// writeAll writes everything that was used until now. f.mu is held.
func (f *flusher) writeAll(ctx context.Context) error {
	b := f.book
	if b.table.Dirty.Load() == 0 {
		return nil
	}
	for round := b.table.Round(); ; {
		n := f.batch.size(flushBatch)
		if b.health.isOut() {
			n = 1 // to find out
		}
		states := b.table.Take(round, n)
		if len(states) == 0 {
			return nil
		}
		if err := f.write(ctx, states); err != nil {
			return err
		}
	}
}

// write writes states that were taken from the table. If the process dies before the ledger has answered, the store still has
// them, and another process finds this one gone and looks for them: see present.
func (f *flusher) write(ctx context.Context, states []accounts.Taken) error {
	b := f.book
	positions := accounts.PositionsOf(states)
	within, cancel := context.WithTimeout(ctx, b.config.Timeout)
	asked := time.Now()
	err := b.ledger.Flush(within, positions)
	cancel()
	f.batch.after(len(positions), flushBatch, err)
	if err != nil {
		b.table.GiveBack(states)
		if ctx.Err() == nil { // or the book is being closed, and writes them then
			b.health.failed(asked, err)
		}
		return err
	}
	b.table.Done(states)
	b.health.worked()
	b.opener.answered()
	f.follow(states, positions)
	return nil
}

// follow looks after positions that the ledger has answered with more than that it has them.
func (f *flusher) follow(states []accounts.Taken, positions []ledger.Position) {
	b := f.book
	for i := range positions {
		p, s := &positions[i], &states[i]
		switch {
		case p.Outcome == ledger.Closed: // the store may go on with it: it was not told, or was set back again
			f.suspect(s, p, math.MaxInt64, 0)
		case p.Outcome == ledger.Suspect:
			f.suspect(s, p, p.Known, p.KnownUsed)
		case p.Outcome == ledger.Written && s.Suspect:
			f.suspect(s, p, p.Position, p.Used)
		case p.Outcome == ledger.Written && b.table.IsBehind(s, time.Now()) && b.table.TwinOf(s) != nil:
			f.late = append(f.late, *s)
		}
	}
}

// suspect remembers a suspicion until it was checked: the ledger knows a position of the account.
func (f *flusher) suspect(s *accounts.Taken, p *ledger.Position, known, used int64) {
	if f.suspects == nil {
		f.suspects = make(map[suspicionID]suspicion)
	}
	id := suspicionID{p.Account, p.Generation()}
	before, there := f.suspects[id]
	if there && before.known >= known || !there && len(f.suspects) >= maxOpening {
		return // of those beyond, the next charge, or Reconcile, finds out
	}
	f.suspects[id] = suspicion{s.Kept, s.Entry.Key, known, used}
}

// catchUpTries bounds how often catchUp tries to have an account go on in another generation,
// while others charge it.
const catchUpTries = 3

// catchUp begins other generations of accounts whose earlier generations were written late: the
// store began the present ones without them. Where it fails, the store can grant again what was written
// late. f.mu is held.
func (f *flusher) catchUp(ctx context.Context) {
	late := f.late
	f.late = nil
	if len(late) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, f.book.config.Timeout)
	defer cancel()
	for range catchUpTries {
		waiting := make([]*restoring, len(late))
		for first := 0; first < len(late); first += peekBatch {
			last := min(first+peekBatch, len(late))
			if f.goOn(ctx, late[first:last], waiting[first:last]) != nil {
				return
			}
		}
		var left []accounts.Taken
		for i, r := range waiting {
			if r != nil && r.wait(ctx) == nil && !r.told {
				left = append(left, late[i]) // it was charged meanwhile
			}
		}
		late = left
	}
}

// goOn asks for other generations of some accounts.
func (f *flusher) goOn(ctx context.Context, late []accounts.Taken, waiting []*restoring) error {
	b := f.book
	checks := make([]store.Check, len(late))
	twins := make([]*accounts.Twin, len(late))
	for i := range late {
		twins[i] = b.table.TwinOf(&late[i])
		checks[i] = store.Check{Key: []byte(late[i].Entry.Key), Rule: twins[i].Rule}
	}
	views, err := b.peek(ctx, checks)
	if err != nil {
		return err
	}
	for i := range late {
		if views[i].Ends == late[i].State.End && views[i].Position > 0 && !views[i].Stale {
			waiting[i], _ = b.opener.goOn(twins[i], late[i].Entry.Key, late[i].State.Start, &views[i])
		}
	}
	return nil
}

// suspicion is that a store has lost changes of a generation, and has used their numbers
// again. That happens if a replica takes over which had not received them.
type suspicion struct {
	kept  *accounts.Kept
	key   string
	known int64 // a position that the ledger knows
	used  int64 // units used there
}

type suspicionID struct {
	ledger.Account
	generation int64
}

// check asks the store. A position below that of the ledger, which was read before, or the same with
// other use proves the suspicion. Then the generation is closed, and the account goes on in another one, with
// what the ledger knows. What can't be found out now is left for the next time. f.mu is held.
func (f *flusher) check(ctx context.Context) {
	if len(f.suspects) == 0 {
		return
	}
	b := f.book
	ctx, cancel := context.WithTimeout(ctx, b.config.Timeout)
	defer cancel()
	ids := slices.SortedFunc(maps.Keys(f.suspects), func(x, y suspicionID) int {
		return cmp.Or(ledger.Compare(&x.Account, &y.Account), cmp.Compare(x.generation, y.generation))
	})
	waiting := make(map[suspicionID]*restoring)
	for part := range slices.Chunk(ids, peekBatch) {
		f.checkPart(ctx, part, waiting)
	}
	var forks int64
	for id, r := range waiting {
		if r.wait(ctx) == nil {
			delete(f.suspects, id) // if the store has gone on by another way, too
			forks++
		}
	}
	if forks > 0 {
		b.health.forked(forks)
	}
}

// checkPart asks the store for some accounts, and asks for another generation of those that it
// has set back.
func (f *flusher) checkPart(ctx context.Context, ids []suspicionID, waiting map[suspicionID]*restoring) {
	b := f.book
	twins, checks := make([]*accounts.Twin, len(ids)), make([]store.Check, len(ids))
	for i, id := range ids {
		s := f.suspects[id]
		rule := s.kept.Declared()
		if twins[i] = b.rules.Make(&rule); twins[i] == nil {
			return
		}
		checks[i] = store.Check{Key: []byte(s.key), Rule: twins[i].Rule}
	}
	views, err := b.peek(ctx, checks)
	if err != nil {
		return
	}
	for i, id := range ids {
		s, v := f.suspects[id], &views[i]
		if v.Ends != id.End || v.Stale || counting.Generation(v.Position) != id.generation || v.Position > s.known || v.Position == s.known && v.Used == s.used {
			delete(f.suspects, id)
			continue
		}
		if o, err := b.opener.fork(twins[i], s.key, id.Start, v); err == nil {
			waiting[id] = o
		}
	}
}
