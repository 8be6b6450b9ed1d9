package core

import (
	"hash/maphash"
	"time"

	"github.com/weblimit/weblimit/internal/line"
)

// waiter is a request in a fairLine.
type waiter struct {
	line.Place
	line   *fairLine
	rule   *Rule
	key    uint64
	cost   int64
	called chan struct{} // receives when the request is to ask, or has lost its place
	asking bool          // guarded by waitlist.mu, and so is what follows
	lost   bool          // its place went to another request
	wakes  uint64        // of the line when it was called
}

// wake tells the request to look.
func (w *waiter) wake() {
	select {
	case w.called <- struct{}{}:
	default:
	}
}

// inLine returns the first check of a call for which requests wait in a fairLine, or -1.
func (c *call) inLine() int {
	for i, l := range c.limits {
		if l.fair != nil && l.wait > 0 && !l.shadow && c.checks[i].Cost > 0 {
			return i
		}
	}
	return -1
}

// standing is what a line has to know of a call's i-th check.
func (w *waitlist) standing(c *call, i int) line.Request {
	check := &c.checks[i]
	r := line.Request{Class: max(int(c.classOf(c.limits[i])), 1) - 1, Weight: 1, Cost: check.Cost}
	if s := c.shareUnder(c.limits[i]); s != nil {
		r.Client, r.Weight = maphash.Bytes(w.seed, s.Key), s.Weight
		if s.User != nil {
			r.User = maphash.Bytes(w.seed, s.User) | 1 // 0 is for nobody
		}
	}
	return r
}

// occupied reports whether requests wait in the line of a call's i-th check.
func (w *waitlist) occupied(c *call, i int) bool {
	if w.taken.Load() == 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.keys[w.keyHash(&c.checks[i])]
	return q.line != nil && q.line.Len() > 0
}

// joinLine gives a request a place in the line of the call's i-th check. denial is what the
// store has said; without one the request asks at once if it is next. It reports false if there is no place.
func (w *waitlist) joinLine(p *place, c *call, i int, denial *LimitResult) bool {
	check := &c.checks[i]
	of := &waiter{rule: check.Rule, key: w.keyHash(check), cost: check.Cost, called: make(chan struct{}, 1)}
	of.Data = of
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.keys[of.key]
	bounds := line.Bounds{Full: w.taken.Load() >= w.capacity, PerClient: w.perKey}
	if w.perKey == 0 {
		bounds.Full = bounds.Full || q.taken >= w.keyCapacity()
	}
	if q.line == nil {
		q.line = &fairLine{waitlist: w, poll: minPoll}
	}
	of.line = q.line
	displaced, ok := q.line.Join(&of.Place, w.standing(c, i), bounds)
	if !ok {
		return false
	}
	if displaced != nil {
		other := displaced.Data.(*waiter)
		other.lost = true
		other.wake()
		w.taken.Add(-1)
		q.taken--
	}
	if !p.taken() {
		w.taken.Add(1)
	}
	q.taken++
	p.keys, p.waiter = append(p.keys, of.key), of
	w.keys[of.key] = q
	if denial != nil {
		q.line.denied(of, denial)
	} else {
		if q.line.First() == &of.Place {
			q.line.call()
		}
		q.line.goOn()
	}
	return true
}

// ended ends the place of a request that does not wait for room in its line any more.
func (w *waitlist) ended(p *place, d *Decision, i int) {
	if p.waiter == nil || !d.Allowed {
		return // it leaves
	}
	var r *LimitResult
	if results := d.Results(); i < len(results) && results[i].Charged {
		r = &results[i]
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p.waiter.line.served(p.waiter, r)
	p.waiter.line.goOn()
}

func (w *waitlist) denied(of *waiter, r *LimitResult) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of.line.denied(of, r)
}

func (w *waitlist) stepAside(of *waiter) {
	if of == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	of.line.stepAside(of)
	of.line.goOn()
}

// back has a request that stepped aside wait again.
func (w *waitlist) back(of *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of.line.Return(&of.Place)
	if of.line.First() == &of.Place {
		of.line.dueAt(time.Now())
	}
	of.line.goOn()
}

// mayAsk reports whether a request may ask the store: it was called, or its time is up and it is next.
func (w *waitlist) mayAsk(of *waiter) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !of.lost && !of.asking && of.line.First() == &of.Place {
		of.line.call()
	}
	if of.asking {
		select {
		case <-of.called:
		default:
		}
	}
	return of.asking
}
