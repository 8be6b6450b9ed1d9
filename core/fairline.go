package core

import (
	"slices"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/internal/integer"
	"github.com/weblimit/weblimit/internal/line"
)

// fairLine is the line of one key under a limit with Fair. Requests in it ask the store when they are called: those that are next
// by share, as many as there seems to be room for, and one by one where nobody knows. waitlist.mu guards all of it.
type fairLine struct {
	line.Line
	waitlist *waitlist
	asking   int64         // requests that were called and have not told what came of it
	charging int64         // their units
	room     int64         // units that seem to be free beyond those
	wakes    uint64        // how often slots were given back
	poll     time.Duration // until the next request asks for slots of other processes
	due      time.Time     // when the next request asks, whatever seems to be free; zero for not at all
	resting  []rest        // who is not called, the next to come back first
	timer    *time.Timer   // for due and resting
}

// rest is a client that is over its share, or such a user of a client.
type rest struct {
	line.Resting
	until time.Time
}

// maxAsking bounds how many requests of a line ask the store at once.
const maxAsking = maxWakeups

// call has the request that is next ask the store.
func (f *fairLine) call() {
	if f.asking >= maxAsking {
		return
	}
	if p := f.Next(); p != nil {
		w := p.Data.(*waiter)
		w.asking, w.wakes = true, f.wakes
		f.asking++
		f.charging += w.cost
		f.room = max(f.room-w.cost, 0)
		w.wake()
	}
}

// goOn calls requests for which there seems to be room, and sees to it that the others are not forgotten.
func (f *fairLine) goOn() {
	now := time.Now()
	for len(f.resting) > 0 && !f.resting[0].until.After(now) {
		f.Wake(f.resting[0].Resting)
		f.resting = slices.Delete(f.resting, 0, 1)
		f.dueAt(now)
	}
	if !f.due.IsZero() && !f.due.After(now) && f.asking < maxAsking {
		f.due = time.Time{}
		f.call()
	}
	for p := f.First(); p != nil && f.room >= max(p.Data.(*waiter).cost, 1) && f.asking < maxAsking; p = f.First() {
		f.call()
	}
	if p := f.First(); p != nil && f.asking == 0 && f.due.IsZero() {
		f.dueAt(now.Add(f.pace(p.Data.(*waiter))))
	}
	f.arm(now)
}

// pace returns when a request that was not asked for may find room.
func (f *fairLine) pace(w *waiter) time.Duration {
	if w.rule.Algorithm == store.Concurrency {
		return f.nextPoll()
	}
	return time.Duration(integer.CeilMulDiv(min(w.cost, w.rule.Quota), int64(w.rule.Window), w.rule.Quota))
}

// nextPoll returns when to ask for slots of other processes: seldom of one request that has waited for long, and no more often than
// crowdPoll of many.
func (f *fairLine) nextPoll() time.Duration {
	wait := min(f.poll, max(crowdPoll, maxPoll/time.Duration(max(f.Len(), 1))))
	f.poll = min(2*f.poll, maxPoll)
	return wait
}

func (f *fairLine) dueAt(t time.Time) {
	if f.due.IsZero() || t.Before(f.due) {
		f.due = t
	}
}

// arm sets the timer.
func (f *fairLine) arm(now time.Time) {
	next := f.due
	if f.asking >= maxAsking || f.First() == nil {
		next = time.Time{}
	}
	if len(f.resting) > 0 && (next.IsZero() || f.resting[0].until.Before(next)) {
		next = f.resting[0].until
	}
	switch {
	case next.IsZero():
		f.stop()
	case f.timer == nil:
		f.timer = time.AfterFunc(next.Sub(now), f.tick)
	default:
		f.timer.Reset(next.Sub(now))
	}
}

func (f *fairLine) stop() {
	if f.timer != nil {
		f.timer.Stop()
	}
}

func (f *fairLine) tick() {
	f.waitlist.mu.Lock()
	defer f.waitlist.mu.Unlock()
	f.goOn()
}

// denied has a request wait that asked and found no room. Others are asked for before it only if it was denied for its own share, or
// for its class.
func (f *fairLine) denied(w *waiter, r *LimitResult) {
	if f.wakes == w.wakes {
		f.room = 0
	}
	f.answered(w)
	lower := !w.Waits() && f.Return(&w.Place)
	now := time.Now()
	switch r.Standing {
	case store.OverShare, store.OverMaximum, store.UserOver:
		if who, ok := f.Rest(&w.Place, r.Standing == store.UserOver); ok {
			f.rest(who, now.Add(max(r.RetryAfter, minPoll)))
		}
		lower = true
	case store.Undivided, store.WithinShare, store.OfMinimum:
	}
	switch {
	case lower:
		f.dueAt(now)
	case w.rule.Algorithm == store.Concurrency:
		f.dueAt(now.Add(f.nextPoll()))
	default:
		f.dueAt(now.Add(r.RetryAfter))
	}
	f.goOn()
}

// rest has a client or user not called until then.
func (f *fairLine) rest(who line.Resting, until time.Time) {
	if int64(len(f.resting)) > 2*f.Len()+maxAsking { // of those that have left
		f.resting = slices.DeleteFunc(f.resting, func(r rest) bool { return !f.Rests(r.Resting) })
	}
	i, _ := slices.BinarySearchFunc(f.resting, until, func(r rest, until time.Time) int { return r.until.Compare(until) })
	f.resting = slices.Insert(f.resting, i, rest{who, until})
}

// served ends the place of a request that was let through. r is what the store said, nil if it was not asked, such as
// in an outage in which all may go on.
func (f *fairLine) served(w *waiter, r *LimitResult) {
	f.answered(w)
	f.Served(&w.Place)
	f.poll = minPoll
	now := time.Now()
	if r == nil {
		f.dueAt(now)
	} else if f.room = max(r.Remaining-f.charging, 0); f.First() != nil {
		f.dueAt(now.Add(f.pace(f.First().Data.(*waiter))))
	}
}

// stepAside has others asked for before a request that can't go on for another reason. Its place is kept.
func (f *fairLine) stepAside(w *waiter) {
	if w.asking {
		f.answered(w)
		f.dueAt(time.Now())
	}
}

func (f *fairLine) answered(w *waiter) {
	if w.asking {
		w.asking = false
		f.asking--
		f.charging -= w.cost
	}
}

// gone ends the place of a request that does not want it any more.
func (f *fairLine) gone(w *waiter) {
	f.stepAside(w)
	f.Leave(&w.Place)
}

// freed calls requests for slots that were given back.
func (f *fairLine) freed(slots int64, rule *Rule) {
	f.wakes++
	f.room = min(f.room+slots, rule.Quota)
	f.goOn()
}

// left notes that the key has so many places left.
func (f *fairLine) left(places int64) {
	if places > 0 {
		f.goOn()
		return
	}
	f.stop()
	f.due, f.resting = time.Time{}, nil
}
