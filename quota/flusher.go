package quota

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

const (
	// flushBatch bounds the positions of one statement.
	flushBatch = 5000

	// presentEvery is how often a process says that it is there, and lostAfter how long it may
	// be silent until others look for what it has left behind.
	presentEvery = 5 * time.Second
	lostAfter    = 30 * time.Second

	// prepareEvery is how often partitions for the coming months are made.
	prepareEvery = time.Hour
)

// flusher writes what was used to the ledger.
type flusher struct {
	book *Book
	mu   sync.Mutex // one flush at a time

	prepared atomic.Int64 // when there were partitions last, in seconds since the epoch
}

// run flushes until ctx is done.
func (f *flusher) run(ctx context.Context) {
	b := f.book
	ticker := time.NewTicker(b.config.FlushEvery)
	defer ticker.Stop()
	var present time.Time
	for n := 0; ; n++ {
		if time.Since(present) >= presentEvery {
			f.present(ctx)
			present = time.Now()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		_ = f.flush(ctx) // reported, and tried again
		b.table.sweep(&b.rules.limits, n)
	}
}

// present says that this process is there. If another one is gone, it looks for what that one has
// left behind.
func (f *flusher) present(ctx context.Context) {
	b := f.book
	within, cancel := context.WithTimeout(ctx, b.config.Timeout)
	gone, err := b.ledger.present(within, b.process, b.rules.names(), lostAfter)
	cancel()
	if err != nil {
		if ctx.Err() == nil {
			b.health.failed(err)
		}
		return
	}
	b.health.answered()
	if p, ok := b.ledger.(*pgLedger); ok && time.Since(time.Unix(f.prepared.Load(), 0)) > prepareEvery {
		if err := p.prepare(ctx, time.Now()); err == nil {
			f.prepared.Store(time.Now().Unix())
		} else if ctx.Err() == nil {
			b.health.failed(err)
		}
	}
	lost := b.table.overflow.Swap(0)
	if lost > 0 {
		b.health.waiting(lost)
	}
	if len(gone) == 0 && lost == 0 {
		return
	}
	if _, err := b.reconcile(ctx, true, nil); err != nil {
		b.table.overflow.Add(lost) // and processes that are gone will be found again
		return
	}
	if len(gone) > 0 {
		_ = b.ledger.leave(ctx, gone...) // or they will be found again
	}
}

// flush writes everything that was used until now.
func (f *flusher) flush(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.book
	if b.table.dirty.Load() == 0 {
		return nil
	}
	for round := b.table.round(&b.rules.limits); ; {
		n := flushBatch
		if b.health.isOut() {
			n = 1 // to find out
		}
		states := b.table.take(round, n)
		if len(states) == 0 {
			return nil
		}
		if err := f.write(ctx, states); err != nil {
			return err
		}
	}
}

// write writes states that were taken from the table.
func (f *flusher) write(ctx context.Context, states []taken) error {
	b := f.book
	positions := positionsOf(states)
	within, cancel := context.WithTimeout(ctx, b.config.Timeout)
	err := b.ledger.flush(within, positions)
	cancel()
	if err != nil {
		b.table.giveBack(states)
		b.health.failed(err)
		return err
	}
	b.table.done(states)
	b.health.answered()
	f.follow(ctx, states, positions)
	return nil
}

// positionsOf returns states as the ledger wants them.
func positionsOf(states []taken) []position {
	if len(states) == 0 {
		return nil
	}
	positions := make([]position, len(states))
	for i := range states {
		s := &states[i].state
		positions[i] = position{
			account: account{states[i].kept.name, textOf([]byte(states[i].entry.key)), s.start, s.end},
			date:    dateIn(s.day, states[i].kept), position: s.position, used: s.used, at: s.at,
			hard: s.hard, included: s.included, levels: s.levels,
		}
	}
	return positions
}

// positionIn returns what a result says of an account, which reaches no level by it.
func positionIn(k *kept, a account, r *store.Result) position {
	day, _, _ := k.days.Period(r.At)
	return position{account: a, date: dateIn(day, k), position: r.Position, used: r.Used, at: r.At}
}

// dateIn returns the day of a limit's time zone that begins at a time. A day may begin later than
// at midnight, where clocks change.
func dateIn(day int64, k *kept) int32 {
	t := time.UnixMicro(day).In(k.days.Calendar.Location)
	return int32(time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC).Unix() / (24 * 3600))
}

// follow looks after positions that the ledger has answered with more than that it has them.
func (f *flusher) follow(ctx context.Context, states []taken, positions []position) {
	b := f.book
	var suspects []suspicion
	for i := range positions {
		p, s := &positions[i], &states[i]
		switch {
		case p.outcome == closed: // the store may go on with it: it was not told, or was set back again
			suspects = append(suspects, suspicion{kept: s.kept, key: s.entry.key, account: p.account, generation: p.generation(), known: math.MaxInt64})
		case p.outcome == suspect:
			suspects = append(suspects, suspicion{kept: s.kept, key: s.entry.key, account: p.account, generation: p.generation(), known: p.known})
		case p.outcome == written && s.suspect:
			suspects = append(suspects, suspicion{kept: s.kept, key: s.entry.key, account: p.account, generation: p.generation(), known: p.position})
		case p.outcome == written && b.table.isBehind(s, time.Now()):
			f.catchUp(ctx, s)
		}
	}
	if len(suspects) > 0 {
		f.check(ctx, suspects)
	}
}

// catchUpTries bounds how often catchUp tries to have an account go on in another generation,
// while others charge it.
const catchUpTries = 3

// catchUp begins another generation of an account whose earlier generation was written late: the
// store began the present one without it. If it fails, the store can grant again what was written late.
func (f *flusher) catchUp(ctx context.Context, s *taken) {
	b := f.book
	ctx, cancel := context.WithTimeout(ctx, b.config.Timeout)
	defer cancel()
	t := b.table.twinOf(s)
	if t == nil {
		return
	}
	checks, results := []store.Check{{Key: []byte(s.entry.key), Rule: t.rule}}, make([]store.Result, 1)
	for range catchUpTries {
		if b.config.Store.Peek(ctx, checks, results) != nil || results[0].Ends() != s.state.end || results[0].Position == 0 {
			return
		}
		r, err := b.opener.goOn(t, s.entry.key, s.state.start, &results[0])
		if err != nil || r.wait(ctx) != nil || r.told {
			return
		}
	}
}

// suspicion is that a store has lost changes of a generation, and has used their numbers
// again. That happens if a replica takes over which had not received them.
type suspicion struct {
	kept *kept
	key  string
	account
	generation int64
	known      int64 // a position that the ledger knows
}

// check asks the store. A position below that of the ledger, which was read before, proves the
// suspicion. Then the generation is closed, and the account goes on in another one, with
// what the ledger knows.
func (f *flusher) check(ctx context.Context, suspects []suspicion) {
	b := f.book
	ctx, cancel := context.WithTimeout(ctx, b.config.Timeout)
	defer cancel()
	var forks int64
	for i := range suspects {
		s := &suspects[i]
		rule := s.kept.declared()
		t := b.rules.make(&rule)
		if t == nil {
			continue
		}
		checks, results := []store.Check{{Key: []byte(s.key), Rule: t.rule}}, make([]store.Result, 1)
		if b.config.Store.Peek(ctx, checks, results) != nil {
			return // the next flush will find out
		}
		if results[0].Ends() != s.end || store.Generation(results[0].Position) != s.generation || results[0].Position >= s.known {
			continue
		}
		r, err := b.opener.fork(t, s.key, s.start, s.end, s.generation)
		if err == nil && r.wait(ctx) == nil {
			forks++
		}
	}
	if forks > 0 {
		b.health.forked(forks)
	}
}
