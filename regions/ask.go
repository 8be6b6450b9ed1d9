package regions

import (
	"bytes"
	"context"
	"crypto/rand"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

const (
	// mostAttempts is how often a lease is tried with fewer units.
	mostAttempts = 3

	// retryPause is the pause before the first repetition of a question that was not answered; it doubles.
	retryPause = 50 * time.Millisecond

	// afterRefusal is how long home is not asked again for a key after units that could not be taken.
	afterRefusal = time.Second
)

// brought is what came of a lease.
type brought struct {
	result  store.Result // of home
	units   int64        // that home has charged
	granted bool         // they are in the share of the region
	share   int64        // is that now
	err     error        // home did not answer; or the region's store, if units is not 0
}

// bring asks home for units, and adds them to the share of the region. Units that can't be spent go back.
func (s *Store) bring(ctx context.Context, p *plan, name []byte, k *key, ends, units, cost int64) (b brought) {
	sent := s.now()
	var asked int64
	var remembers bool
	b.result, b.units, asked, remembers, b.err = s.ask(ctx, p, name, k, units, cost)
	if b.err != nil || b.units == 0 {
		return b
	}
	end := p.endOfPool(&b.result)
	switch {
	case end != 0 && end != ends:
		s.noteSkew(p, k, ends, sent, b.result.At, b.units)
	case b.result.Repeated && end != 0 && p.isOfBefore(end, b.result.At, s.now()-asked):
		p.counts.lost.Add(b.units)
	case !remembers:
	case p.forgot(&b.result, k.leased(), b.units):
		s.tell(ctx, p, name, ends, p.pool.Burst-b.result.Remaining-b.units)
	default:
		b.share, b.err = s.addToShare(ctx, p, name, ends, b.units)
		if b.granted = b.err == nil; !b.granted {
			p.counts.lost.Add(b.units)
		}
		return b
	}
	s.giveBack(ctx, p, name, b.units, b.result)
	return b
}

// isOfBefore reports whether a lease that was first asked for so many nanoseconds ago may have been charged in an earlier window
// than the one that ends at a time: the answer is a repetition, and at is its time.
func (p *plan) isOfBefore(ends, at, ago int64) bool {
	ago += ago/64 + int64(time.Millisecond) // clocks drift
	return (at-ends)*int64(time.Microsecond)+p.length(ends) < ago
}

// question is a question for units that home has not answered yet.
type question struct {
	once  []byte // names it, so that its units are charged once however often it is asked
	units int64
	asked int64 // when it was first asked, on the process's clock
}

// ask asks home for units, or fewer if it has not so many, but at least for the cost of a request. It returns 0 units
// if home has nothing left, when the question was first asked, and whether home remembers what it has leased. A question that
// is not answered is repeated: now, and instead of the key's next one.
func (s *Store) ask(ctx context.Context, p *plan, name []byte, k *key, units, cost int64) (r store.Result, granted, asked int64, remembers bool, err error) {
	q := k.question(units, cost, s.now())
	checks, answer := []store.Check{{Key: name, Rule: p.pool, Cost: q.units, Once: q.once}, s.memory.check()}, make([]store.Result, 2)
	pause := retryPause
	for attempts := 0; ; {
		p.counts.messages.Add(1)
		sent := s.now()
		err := s.home.Take(ctx, checks, answer)
		r := &answer[0]
		switch {
		case err != nil:
			select {
			case <-ctx.Done():
				return store.Result{}, 0, 0, false, err
			case <-time.After(pause):
				pause *= 2
				continue
			}
		case r.Charged || r.Repeated:
			s.noteTrip(s.now() - sent)
			k.answered()
			return *r, checks[0].Cost, q.asked, s.read(ctx, &answer[1]), nil
		}
		attempts++
		if r.Blocked || r.Remaining < cost || attempts == mostAttempts || checks[0].Cost <= cost {
			k.answered()
			return *r, 0, q.asked, s.read(ctx, &answer[1]), nil
		}
		checks[0].Cost = max(cost, min(r.Remaining/2, checks[0].Cost-1))
		k.asksFor(q.once, checks[0].Cost)
	}
}

// question returns the key's question that was not answered, if it would do, or a new one.
func (k *key) question(units, cost, now int64) question {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.open.units < cost || now-k.open.asked > int64(leaseMemory)/2 {
		k.open = question{[]byte(rand.Text()), units, now}
	}
	return k.open
}

// asksFor notes that a question is now one for fewer units. If it is repeated later, no more than these may be counted.
func (k *key) asksFor(once []byte, units int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if bytes.Equal(k.open.once, once) {
		k.open.units = units
	}
}

// answered notes that the question was answered.
func (k *key) answered() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open = question{}
}

// leased returns what the region has leased for the period.
func (k *key) leased() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.share
}

// noteTrip notes how long a question to home took.
func (s *Store) noteTrip(nanoseconds int64) {
	if before := s.trip.Load(); before != 0 {
		nanoseconds = (3*before + nanoseconds) / 4
	}
	s.trip.Store(nanoseconds)
}

// giveBack returns units to home that can't be spent.
func (s *Store) giveBack(ctx context.Context, p *plan, name []byte, units int64, result store.Result) {
	if err := s.home.Refund(ctx, []store.Check{{Key: name, Rule: p.pool, Cost: units}}, []store.Result{result}); err != nil {
		p.counts.lost.Add(units)
	}
}

// addToShare adds units to what the region has leased for a period, and returns its sum.
func (s *Store) addToShare(ctx context.Context, p *plan, name []byte, ends, units int64) (share int64, err error) {
	rule, err := p.share(ends)
	if err != nil {
		return 0, err
	}
	answer := make([]store.Result, 1)
	if err := s.local.Take(ctx, []store.Check{{Key: name, Rule: rule, Cost: units}}, answer); err != nil {
		return 0, err
	}
	return unlimited - answer[0].Remaining, nil
}
