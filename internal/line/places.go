package line

// Bounds say how many places a line may have.
type Bounds struct {
	Full      bool  // there is none left, unless another request loses its own
	PerClient int64 // places of one client; 0 for no other bound
}

// Join gives a request a place at the end of the line, in place of another if the line is full:
//
//   - of the client with the most places beyond its first for its weight, if the newcomer's client then still has fewer for its own. So
//     every client gets one before any has two;
//   - else of the user with the most places of the same client, by the same rule;
//   - else of the lowest class, for a higher one, if the newcomer's client has less than its share of all places and
//     the lowest class has more than one in lowerEvery.
//
// The request that loses its place is returned. ok is false if the newcomer gets none.
func (l *Line) Join(p *Place, r Request, b Bounds) (displaced *Place, ok bool) {
	r.Weight = max(r.Weight, 1)
	mine := l.holders.known[r.Client]
	switch {
	case b.PerClient > 0 && mine != nil && mine.places >= b.PerClient:
		displaced = l.ofUser(mine, r.User)
	case b.Full:
		if displaced = l.ofClient(mine, r.Weight); displaced == nil {
			displaced = l.ofUser(mine, r.User)
		}
		if displaced == nil {
			displaced = l.ofClass(mine, &r)
		}
	default:
		l.add(p, r)
		return nil, true
	}
	if displaced == nil {
		return nil, false
	}
	l.Leave(displaced)
	l.add(p, r)
	return displaced, true
}

// ofClient returns a place of the client that has the most, for another that has fewer.
func (l *Line) ofClient(mine *holder, weight int64) *Place {
	if len(l.holders.most.all) == 0 {
		return nil
	}
	most := l.holders.most.all[0]
	if mine.count()*most.weight >= (most.places-1)*weight {
		return nil
	}
	for i := len(l.classes) - 1; i >= 0; i-- { // the lowest class has its last places
		if p := l.classes[i].lastOf(most); p != nil {
			return p
		}
	}
	return nil
}

// ofUser returns a place of the client's user that has the most, for another user that has fewer.
func (l *Line) ofUser(mine *holder, user uint64) *Place {
	if mine == nil || mine.users == nil {
		return nil
	}
	most := mine.users.most.all[0]
	if mine.users.known[user].count()+1 >= most.places {
		return nil
	}
	for i := len(l.classes) - 1; i >= 0; i-- {
		if f := l.classes[i].known[mine.id]; f != nil && f.inner != nil {
			if u := f.inner.known[most.id]; u != nil && u.last != nil {
				return u.last
			}
		}
	}
	return nil
}

// ofClass returns a place of the lowest class, for a request of a higher one.
func (l *Line) ofClass(mine *holder, r *Request) *Place {
	weight := l.holders.weight
	if mine == nil {
		weight += r.Weight
	}
	if (mine.count()+1)*weight > l.places*r.Weight {
		return nil
	}
	for i := len(l.classes) - 1; i > r.Class; i-- {
		if c := l.classes[i]; c.waiting*lowerEvery > l.places && c.calls() {
			f := c.ready.all[len(c.ready.all)-1] // none of its neighbours is behind it
			if f.inner != nil {
				f = f.inner.ready.all[len(f.inner.ready.all)-1]
			}
			return f.last
		}
	}
	return nil
}

// lastOf returns the last place of a client that waits, of its user with the most places, or nil.
func (c *class) lastOf(h *holder) *Place {
	f := c.known[h.id]
	if f == nil || f.waiting == 0 {
		return nil
	}
	if f.inner == nil {
		return f.last
	}
	if h.users != nil {
		if u := f.inner.known[h.users.most.all[0].id]; u != nil && u.last != nil {
			return u.last
		}
	}
	if last := len(f.inner.ready.all) - 1; last >= 0 {
		return f.inner.ready.all[last].last
	}
	return nil
}

// crowd knows who has how many places.
type crowd struct {
	known  map[uint64]*holder
	most   heap[*holder] // who has the most beyond its first place, for its weight, first
	weight int64         // of all
}

// holder is a client or user with places.
type holder struct {
	id     uint64
	weight int64
	places int64
	at     int    // in crowd.most
	users  *crowd // of a client; nil if it is not divided
}

func (h *holder) before(other *holder) bool {
	return (h.places-1)*other.weight > (other.places-1)*h.weight
}

func (h *holder) moved(to int) { h.at = to }

func (h *holder) count() int64 {
	if h == nil {
		return 0
	}
	return h.places
}

// take notes one more place of a client, and of its user unless that is 0.
func (c *crowd) take(id uint64, weight int64, user uint64) *holder {
	h := c.known[id]
	if h == nil {
		if c.known == nil {
			c.known = map[uint64]*holder{}
		}
		h = &holder{id: id}
		c.known[id] = h
		c.most.push(h)
	}
	c.weight += weight - h.weight
	h.weight = weight
	h.places++
	c.most.fix(h.at)
	if user != 0 {
		if h.users == nil {
			h.users = new(crowd)
		}
		h.users.take(user, 1, 0)
	}
	return h
}

// release notes one place less.
func (c *crowd) release(h *holder, user uint64) {
	if user != 0 {
		h.users.release(h.users.known[user], 0)
	}
	if h.places--; h.places > 0 {
		c.most.fix(h.at)
		return
	}
	c.most.remove(h.at)
	c.weight -= h.weight
	delete(c.known, h.id)
}
