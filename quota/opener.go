package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
	"github.com/weblimit/weblimit/quota/internal/accounts"
	"github.com/weblimit/weblimit/quota/internal/ledger"
	"github.com/weblimit/weblimit/quota/internal/micros"
)

const (
	// maxOpening bounds the accounts that wait for the ledger: some 30 MB. The requests of further ones get
	// an error at once.
	maxOpening = 100_000

	// openBatch bounds the accounts that the ledger is asked for at a time. The statement locks their rows, so all of
	// them wait for the slowest.
	openBatch = 500

	// maxOpeners bounds how many such questions are on their way. Each takes a connection of the pool, which is the application's.
	maxOpeners = 4

	// probeEvery is how often a ledger that is away is asked whether it is back.
	probeEvery = time.Second
)

// opener tells the store what the ledger knows of accounts that the store does not know.
// Requests for one account at the same time share one answer.
type opener struct {
	book *Book
	line[openID, *restoring]
	batch batch
	away  bool      // the ledger has failed. Guarded by mu.
	probe time.Time // when it may be asked again. Guarded by mu.

	taken    map[chan struct{}]bool // closed when states that were taken from the table are written, or back in it. Guarded by mu.
	gaveBack atomic.Int64           // how often states were put back into the table
}

// openID names an account in a store.
type openID struct {
	kept *accounts.Kept
	key  string
	ends int64
}

// restoring is one account on its way from the ledger to the store. Its fields but the last two do
// not change; those are set before done is closed.
type restoring struct {
	id     openID
	twin   *accounts.Twin
	start  int64
	expect int64         // generation that the store has
	closes int64         // generation that is not to be written any more
	seen   accounts.View // state of the generation expect, which the store must still have unless that is closed; its history in any case
	done   chan struct{}
	err    error
	told   bool // the store has gone on in another generation
}

func (r *restoring) about() openID { return r.id }
func (r *restoring) end()          { close(r.done) }

// wait waits until the store was told.
func (r *restoring) wait(ctx context.Context) error {
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var (
	errAway     = errors.New("the ledger is away")
	errSlow     = errors.New("the ledger has not answered yet")
	errOverload = errors.New("too many accounts wait for the ledger")
)

// request asks for an account that the store does not know. What it has of a stale one is written to the ledger.
func (o *opener) request(t *accounts.Twin, key []byte, seen *accounts.View) (*restoring, error) {
	start, end, _ := t.Rule.Period(seen.Ends - 1)
	if end != seen.Ends {
		return nil, fmt.Errorf("the store's period ends at %v, and this process's at %v: do they have the same time zones?", micros.Time(seen.Ends), micros.Time(end))
	}
	return o.enqueue(&restoring{
		id: openID{t.Kept, string(key), seen.Ends}, twin: t, start: start,
		expect: counting.Generation(seen.Position), seen: *seen, done: make(chan struct{}),
	})
}

// fork asks for another generation of an account, and that the present one is closed, of which seen
// is the state. It goes on, too, if somebody charges the account meanwhile.
func (o *opener) fork(t *accounts.Twin, key string, start int64, seen *accounts.View) (*restoring, error) {
	n := counting.Generation(seen.Position)
	return o.enqueue(&restoring{
		id: openID{t.Kept, key, seen.Ends}, twin: t, start: start, expect: n, closes: n, seen: *seen, done: make(chan struct{}),
	})
}

// goOn asks for another generation of an account, since the ledger has another sum than the store, of
// which seen is the state. If somebody charges the account meanwhile, it stays in the present one.
func (o *opener) goOn(t *accounts.Twin, key string, start int64, seen *accounts.View) (*restoring, error) {
	return o.enqueue(&restoring{
		id: openID{t.Kept, key, seen.Ends}, twin: t, start: start,
		expect: counting.Generation(seen.Position), seen: *seen, done: make(chan struct{}),
	})
}

func (o *opener) enqueue(r *restoring) (*restoring, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p, now, slow := o.pending[r.id], time.Now(), o.isSlow(o.book.patience.open)
	switch {
	case slow && o.isOut():
		return nil, errAway
	case slow:
		if p == nil && len(o.queue) < maxOpening {
			o.add(r) // nobody waits for it
		}
		return nil, errSlow
	case p != nil: // if it does not do what r is for, that is asked for again
		return p, nil
	case o.away && now.Before(o.probe):
		return nil, errAway
	case len(o.queue) >= maxOpening:
		return nil, errOverload
	}
	o.probe = now.Add(probeEvery)
	o.add(r)
	o.start(maxOpeners, o.next, o.ask)
	return r, nil
}

// isOut reports whether the ledger has failed when somebody asked last. o.mu is held.
func (o *opener) isOut() bool { return o.away || o.book.health.isOut() }

// failed returns the error of a request whose account the ledger has not told. It says whether that is an
// outage, or only takes longer than the request can wait.
func (o *opener) failed(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if late := errors.Is(err, errSlow) || errors.Is(err, errOverload) || errors.Is(err, context.DeadlineExceeded); late && !o.isOut() {
		return &store.Error{Class: ClassLedgerLate, Err: err, Late: true}
	}
	return &store.Error{Class: ClassLedger, Err: err}
}

// answered notes that the ledger has answered somebody else.
func (o *opener) answered() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.away = false
}

// next takes as many accounts from the queue as the ledger does in time. o.mu is held.
func (o *opener) next() []*restoring {
	batch := o.queue[:min(len(o.queue), o.batch.size(openBatch))]
	o.queue = o.queue[len(batch):]
	return batch
}

// ask opens a batch of accounts.
func (o *opener) ask(batch []*restoring) {
	asked, away, err := o.open(batch)
	if err != nil {
		for _, r := range batch {
			r.err = err
		}
	}
	if asked {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.away, o.probe = away, time.Now().Add(probeEvery)
	}
}

// open asks the ledger for a batch of accounts, and tells the store. asked says that an error is
// the ledger's, or that there was none, and away that it is out.
//
// What this process was told of these accounts and has not written is written in the same transaction, before their generations
// begin: a generation begins with the sum of those before it, so units that came later would be granted again. If the process
// dies, or the store does not answer, between the ledger and the store, the generation stays empty and counts nothing:
// the next request begins another one.
func (o *opener) open(batch []*restoring) (asked, away bool, err error) {
	b := o.book
	ctx, cancel := context.WithTimeout(context.Background(), b.config.Timeout)
	defer cancel()
	openings := make([]ledger.Opening, len(batch))
	release := o.take()
	defer release()
	var states []accounts.Taken
	for i, r := range batch {
		openings[i] = ledger.Opening{Account: accountOf(r)}
		if r.closes > 0 {
			last := accounts.PositionIn(r.twin.Kept, openings[i].Account, &r.seen)
			openings[i].Closes = &last
		}
		states = b.table.TakeKey(r.twin.Kept, []byte(r.id.key), states)
	}
	positions := accounts.PositionsOf(states)
	for _, r := range batch {
		if r.seen.Position > 0 && r.closes == 0 { // it may have been charged by a process that is gone
			positions = append(positions, accounts.PositionIn(r.twin.Kept, accountOf(r), &r.seen))
		}
	}
	answers, from := make([]ledger.Begun, len(batch)), time.Now()
	err = b.ledger.Begin(ctx, openings, positions, answers)
	o.batch.after(len(batch), openBatch, err)
	if err != nil {
		b.table.GiveBack(states)
		o.gaveBack.Add(1)
		return true, b.health.failed(from, err), err
	}
	b.table.Done(states)
	release()
	b.health.worked()
	return true, false, o.tell(ctx, batch, answers)
}

// take notes that states are taken from the table, until release is called for the first time.
func (o *opener) take() (release func()) {
	done := make(chan struct{})
	o.mu.Lock()
	if o.taken == nil {
		o.taken = make(map[chan struct{}]bool)
	}
	o.taken[done] = true
	o.mu.Unlock()
	return sync.OnceFunc(func() {
		o.mu.Lock()
		delete(o.taken, done)
		o.mu.Unlock()
		close(done)
	})
}

// waitTaken waits until all states that are taken from the table now are written, or back in it.
func (o *opener) waitTaken(ctx context.Context) error {
	o.mu.Lock()
	all := slices.Collect(maps.Keys(o.taken))
	o.mu.Unlock()
	for _, done := range all {
		select {
		case <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func accountOf(r *restoring) ledger.Account {
	return ledger.Account{Limit: r.twin.Kept.Name, Key: ledger.TextOf([]byte(r.id.key)), Start: r.start, End: r.id.ends}
}

// tell tells the store what the ledger has answered.
func (o *opener) tell(ctx context.Context, batch []*restoring, answers []ledger.Begun) error {
	for first := 0; first < len(batch); first += peekBatch {
		last := min(first+peekBatch, len(batch))
		err := o.restore(ctx, batch[first:last], answers[first:last])
		var failed *store.Error
		if err == nil || errors.As(err, &failed) {
			if err != nil {
				return err
			}
			continue
		}
		// The call is not valid, because of one account. It is no harm to the others.
		for i := first; i < last; i++ {
			batch[i].err = o.restore(ctx, batch[i:i+1], answers[i:i+1])
		}
	}
	return nil
}

// restore tells the store what the ledger has answered, in one call.
func (o *opener) restore(ctx context.Context, batch []*restoring, answers []ledger.Begun) error {
	b := o.book
	checks := make([]store.Check, len(batch))
	from := make([]counting.Restoration, len(batch))
	results, told := make([]store.Result, len(batch)), make([]store.Account, len(batch))
	for i, r := range batch {
		checks[i] = store.Check{Key: []byte(r.id.key), Rule: r.twin.Rule, Account: &told[i]}
		from[i] = counting.Restoration{
			Used: answers[i].Total, Generation: answers[i].Generation, Expect: r.expect, Ends: r.id.ends, History: r.seen.History,
		}
		if r.closes == 0 {
			from[i].Position = r.seen.Position
		}
	}
	if err := b.restorer.Restore(ctx, checks, from, results); err != nil {
		return err
	}
	var forks int64
	for i, r := range batch {
		b.health.sawHistory(told[i].History)
		if r.told = results[i].Charged; r.told && r.seen.Stale && answers[i].Total > r.seen.Used {
			forks++
		}
		// The store may have used more than the ledger knows: it was charged before there was a
		// book, or in a generation that is closed, after that was seen.
		if r.told && told[i].Used > from[i].Used {
			v := accounts.ViewOf(&results[i], &told[i])
			b.table.Note(r.twin, checks[i].Key, &v)
		}
	}
	if forks > 0 {
		b.health.forked(forks)
	}
	return nil
}
