package line

import "slices"

// turns says which of several flows is next. A flow is a client of a line, or a user of a client.
//
// It is start-time fair queueing (Goyal, Vin and Cheng, 1996). Each request begins at a virtual time: where the one of its flow
// before it has ended, but not before the virtual time at which the flow came. It ends its cost by its flow's weight later. Whoever
// begins first is next. The virtual time itself goes on with the units that are served, by the weight of all flows that are there, as in
// WF2Q+ (Bennett and Zhang, 1996): so it also goes on if new flows come again and again, and they get behind those that were served before.
type turns struct {
	now    tag
	part   uint64           // of the next step of now, in units by weight
	weight int64            // of the flows that wait or were called
	ready  heap[*flow]      // flows with waiting places, the next first
	absent heap[*flow]      // flows without places that have ended later than now, the next to be forgotten first
	known  map[uint64]*flow // all, by number
	seq    uint64           // of the last flow that got a new place in the order
}

// tag is a virtual time. It wraps around, and no two that are compared are far from each other.
type tag uint64

func (a tag) before(b tag) bool { return int64(a-b) < 0 }

const (
	unit      = 1 << 20 // the virtual time that a unit takes of a flow of weight 1
	maxCost   = 1 << 30 // a request that costs more takes no more: tags would be too far from each other
	maxAbsent = 1024    // flows without places that are remembered
)

// flow is one client or user.
type flow struct {
	id      uint64
	weight  int64
	next    tag    // where its next request begins
	seq     uint64 // decides between flows that begin at the same time
	credits []credit
	waiting int64 // places
	called  int64 // places
	counted int64 // its part of turns.weight

	resting bool         // it is not called, whatever waits
	in      *heap[*flow] // ready, absent, or nil
	at      int          // its place there

	inner       *turns // its users; nil for one that is not divided
	first, last *Place // its waiting places in the order of arrival, if it is not divided
}

// credit is what a request was charged that was called and has returned: whichever of its flow is called next begins there.
type credit struct {
	start  tag
	charge uint64
	seq    uint64
}

func (f *flow) start() (tag, uint64) {
	if len(f.credits) > 0 {
		return f.credits[0].start, f.credits[0].seq
	}
	return f.next, f.seq
}

func (f *flow) before(other *flow) bool {
	a, i := f.start()
	b, j := other.start()
	return a.before(b) || a == b && i < j
}

func (f *flow) moved(to int) { f.at = to }

// find returns a flow, which is new if it has no places and has nothing to be remembered for.
func (t *turns) find(id uint64, weight int64, divided bool) *flow {
	f := t.known[id]
	if f == nil {
		f = &flow{id: id, next: t.now}
		if t.known == nil {
			t.known = map[uint64]*flow{}
		}
		t.known[id] = f
	}
	if divided && f.waiting+f.called == 0 {
		f.inner = new(turns)
	}
	f.weight = weight
	return f
}

// join adds a waiting place to a flow.
func (t *turns) join(f *flow) {
	if f.waiting == 0 {
		f.next = later(f.next, t.now)
		t.seq++
		f.seq = t.seq
	}
	f.waiting++
	t.settle(f)
}

// call takes a waiting place off a flow, and returns what it is charged for.
func (t *turns) call(f *flow, cost int64) credit {
	charge := uint64(min(cost, maxCost)) * unit / uint64(f.weight)
	c := credit{start: f.next, charge: charge, seq: f.seq}
	if len(f.credits) > 0 {
		c.start, c.seq = f.credits[0].start, f.credits[0].seq
		f.next += tag(charge - f.credits[0].charge)
		f.credits = slices.Delete(f.credits, 0, 1)
	} else {
		f.next += tag(charge)
		t.seq++
		f.seq = t.seq
	}
	f.waiting--
	f.called++
	t.settle(f)
	return c
}

// back has a called place wait again where it was.
func (t *turns) back(f *flow, c credit) {
	f.called--
	f.waiting++
	i, _ := slices.BinarySearchFunc(f.credits, c, func(a, b credit) int {
		if a.start.before(b.start) || a.start == b.start && a.seq < b.seq {
			return -1
		}
		return 1
	})
	f.credits = slices.Insert(f.credits, i, c)
	t.settle(f)
}

// served notes that a called place has got its units.
func (t *turns) served(f *flow, c credit, cost int64) {
	t.now = later(t.now, c.start)
	t.part += uint64(min(cost, maxCost)) * unit
	t.now += tag(t.part / uint64(t.weight))
	t.part %= uint64(t.weight)
	f.called--
	t.settle(f)
	for len(t.absent.all) > 0 && !t.now.before(t.absent.all[0].next) {
		t.forget(t.absent.all[0])
	}
}

// leave takes a place off a flow that waits, or that was called for what is given back. No flow gets in front of the
// others by that.
func (t *turns) leave(f *flow, called *credit) {
	if called != nil {
		f.called--
		t.giveBack(f, called.charge)
	} else {
		f.waiting--
	}
	for int64(len(f.credits)) > f.waiting {
		last := len(f.credits) - 1
		t.giveBack(f, f.credits[last].charge)
		f.credits = f.credits[:last]
	}
	t.settle(f)
}

func (t *turns) giveBack(f *flow, charge uint64) {
	if t.now.before(f.next) {
		f.next = later(f.next-tag(charge), t.now)
	}
}

// settle puts a flow where it belongs after it has changed.
func (t *turns) settle(f *flow) {
	var to *heap[*flow]
	switch {
	case f.waiting > 0 && !f.resting && (f.inner == nil || len(f.inner.ready.all) > 0):
		to = &t.ready
	case f.waiting+f.called > 0:
	case t.now.before(f.next):
		to = &t.absent
	}
	if f.in != to {
		if f.in != nil {
			f.in.remove(f.at)
		}
		if f.in = to; to != nil {
			to.push(f)
		}
	} else if to != nil {
		to.fix(f.at)
	}
	present := f.waiting+f.called > 0
	t.weight -= f.counted
	if f.counted = 0; present {
		f.counted = f.weight
	}
	t.weight += f.counted
	switch {
	case !present && to == nil:
		delete(t.known, f.id)
	case to == &t.absent:
		f.inner = nil // whoever divided it begins anew
		if len(t.absent.all) > maxAbsent {
			t.forget(t.absent.all[0]) // who wins least by it
		}
	}
}

// rest has a flow not called until wake.
func (t *turns) rest(f *flow) {
	f.resting = true
	t.settle(f)
}

func (t *turns) wake(f *flow) {
	f.resting = false
	t.settle(f)
}

// forget forgets a flow without places.
func (t *turns) forget(f *flow) {
	t.absent.remove(f.at)
	f.in = nil
	delete(t.known, f.id)
}

func later(a, b tag) tag {
	if a.before(b) {
		return b
	}
	return a
}
