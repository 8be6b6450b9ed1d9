// Package line says who is next of requests that wait for the same: by priority, by the share of their client, and within
// a client in turn of its users. It knows no time and decides the same each time.
package line

import "slices"

// A lower class waits for ever behind higher ones that never end. So of lowerEvery requests that are called while some
// of a lower class wait, at least one is of a lower class: of that one which was passed over the longest.
const lowerEvery = 8

// Request is what a line has to know of a request.
type Request struct {
	Class  int    // its priority, from 0 for the highest
	Client uint64 // who it is of
	User   uint64 // which user of the client; 0 if the client is not divided
	Weight int64  // of the client, from 1. The latest one holds.
	Cost   int64  // units that are charged when it is served, 0 or more
}

// Place is a request's place in a line. The zero Place is in none.
type Place struct {
	Data any // for whoever made the place

	request      Request
	state        state
	lower        bool   // it was called in front of a higher class
	number       uint64 // by arrival
	client, user *flow  // user is client if that is not divided
	holder       *holder
	byClient     credit // while called
	byUser       credit

	before, after *Place // of the same flow that wait
}

type state uint8

const (
	outside state = iota
	waiting
	called
)

// Waits reports whether the place waits: it is in a line and was not called.
func (p *Place) Waits() bool { return p.state == waiting }

// Line is an order of waiting requests. The zero Line is empty. It is not safe for concurrent use.
type Line struct {
	classes []*class // by priority
	since   int      // calls since the last one in front of a higher class
	turn    uint64   // of the last class that was called in front of a higher one
	number  uint64   // of the last place
	places  int64
	holders crowd
}

// class is the part of a line that has one priority.
type class struct {
	turns
	waiting int64
	turn    uint64 // its last one in front of a higher class
}

// Len returns how many places there are, waiting and called.
func (l *Line) Len() int64 { return l.places }

// Next calls the request that is next, or returns nil if there is none. Its place is kept until Served, Return or Leave.
func (l *Line) Next() *Place {
	c, lower := l.pick()
	if c == nil {
		return nil
	}
	p := c.next()
	c.remove(p)
	if p.client.inner != nil {
		p.byUser = p.client.inner.call(p.user, p.request.Cost)
	}
	p.byClient = c.call(p.client, p.request.Cost)
	if p.state, p.lower = called, lower; lower {
		l.turn++
		c.turn, l.since = l.turn, 0
	} else if l.lowerWait(c) {
		l.since++
	}
	return p
}

// First returns the request that Next would call, or nil.
func (l *Line) First() *Place {
	c, _ := l.pick()
	if c == nil {
		return nil
	}
	return c.next()
}

// pick returns the class that is next, and whether a higher one waits.
func (l *Line) pick() (c *class, lower bool) {
	highest := slices.IndexFunc(l.classes, func(c *class) bool { return c.calls() })
	if highest < 0 {
		return nil, false
	}
	if l.since >= lowerEvery-1 {
		for i := highest + 1; i < len(l.classes); i++ {
			if below := l.classes[i]; below.calls() && (c == nil || below.turn < c.turn) {
				c = below
			}
		}
	}
	if c != nil {
		return c, true
	}
	return l.classes[highest], false
}

// lowerWait reports whether requests of classes below c wait.
func (l *Line) lowerWait(c *class) bool {
	for i := len(l.classes) - 1; l.classes[i] != c; i-- {
		if l.classes[i].calls() {
			return true
		}
	}
	return false
}

// calls reports whether a request of the class can be called.
func (c *class) calls() bool { return len(c.ready.all) > 0 }

// next returns the place of the class that is next.
func (c *class) next() *Place {
	f := c.ready.all[0]
	if f.inner != nil {
		f = f.inner.ready.all[0]
	}
	return f.first
}

// Return has a called request wait again where it was: nothing was free for it. It reports whether the request was called in front
// of a higher class, for which something may be free. That one is next, then.
func (l *Line) Return(p *Place) (lower bool) {
	c := l.classes[p.request.Class]
	if p.lower {
		l.since = max(l.since, lowerEvery-2)
	} else if l.since > 0 {
		l.since--
	}
	c.insert(p)
	if p.client.inner != nil {
		p.client.inner.back(p.user, p.byUser)
	}
	c.back(p.client, p.byClient)
	p.state = waiting
	return p.lower
}

// Served ends the place of a called request that has got what it waited for.
func (l *Line) Served(p *Place) {
	if p.client.inner != nil {
		p.client.inner.served(p.user, p.byUser, p.request.Cost)
	}
	l.classes[p.request.Class].served(p.client, p.byClient, p.request.Cost)
	l.release(p)
}

// Leave ends a place whose request does not want anything any more. It does nothing if that has ended already.
func (l *Line) Leave(p *Place) {
	if p.state == outside {
		return
	}
	c, byClient, byUser := l.classes[p.request.Class], &p.byClient, &p.byUser
	if p.state == waiting {
		byClient, byUser = nil, nil
		c.remove(p)
	}
	if p.client.inner != nil {
		p.client.inner.leave(p.user, byUser)
	}
	c.leave(p.client, byClient)
	l.release(p)
}

// release forgets a place.
func (l *Line) release(p *Place) {
	l.places--
	l.holders.release(p.holder, p.request.User)
	*p = Place{Data: p.Data}
}

// add adds a place at the end.
func (l *Line) add(p *Place, r Request) {
	for len(l.classes) <= r.Class {
		l.classes = append(l.classes, new(class))
	}
	c := l.classes[r.Class]
	l.number++
	l.places++
	p.request, p.state, p.number = r, waiting, l.number
	p.holder = l.holders.take(r.Client, r.Weight, r.User)
	p.client = c.find(r.Client, r.Weight, r.User != 0)
	p.user = p.client
	if p.client.inner != nil {
		p.user = p.client.inner.find(r.User, 1, false)
	}
	c.insert(p)
	if p.client.inner != nil {
		p.client.inner.join(p.user)
	}
	c.join(p.client)
}

// insert lists a place that begins to wait, or waits again, by arrival.
func (c *class) insert(p *Place) {
	c.waiting++
	f := p.user
	before := f.last
	if before != nil && before.number > p.number { // those in front of it were called before, too, and are few
		before = nil
		for at := f.first; at.number < p.number; at = at.after {
			before = at
		}
	}
	p.before = before
	if before == nil {
		p.after, f.first = f.first, p
	} else {
		p.after, before.after = before.after, p
	}
	if p.after == nil {
		f.last = p
	} else {
		p.after.before = p
	}
}

// remove takes a waiting place off its lists.
func (c *class) remove(p *Place) {
	c.waiting--
	f := p.user
	if p.before == nil {
		f.first = p.after
	} else {
		p.before.after = p.after
	}
	if p.after == nil {
		f.last = p.before
	} else {
		p.after.before = p.before
	}
	p.before, p.after = nil, nil
}
