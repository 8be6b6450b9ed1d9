package memstore

import (
	"hash/maphash"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// A Division and a Part take two buckets each, in the shard of the limit's bucket. The second one of a part is there only if
// the client has a minimum or a maximum.

// ofShare are the places of what belongs to a check's share. What follows each is that of its second bucket.
type ofShare struct {
	division, client, users, user place
}

// shareSpacing keeps the records of one check apart.
const shareSpacing = 0xd6e8feb86659fd93

// second is the place of the second bucket of a record.
func (p place) second() place {
	p.hash = p.hash*shareSpacing + 1
	return p
}

func (m *Store) locateShare(at *location, n *store.Share) (of ofShare) {
	named := func(name []byte, in uint64) place {
		return place{(in ^ maphash.Bytes(m.seeds[0], name)) * shareSpacing, at.check ^ uint32(maphash.Bytes(m.seeds[1], name))}
	}
	of.division = place{at.hash*shareSpacing + 2, at.check}
	of.client = named(n.Key, at.hash)
	if n.User != nil {
		of.users = place{of.client.hash*shareSpacing + 2, of.client.check}
		of.user = named(n.User, of.users.hash)
	}
	return of
}

// readShare reads the records of a check's share. Those that are not there read as zero.
func (m *Store) readShare(at *location, n *store.Share, h *counting.Sharing) {
	*h = counting.Sharing{}
	of := m.locateShare(at, n)
	at.shard.readDivision(of.division, &h.Division)
	at.shard.readPart(of.client, &h.Client)
	if n.User != nil {
		at.shard.readDivision(of.users, &h.Users)
		at.shard.readPart(of.user, &h.User)
	}
}

// saveShare stores what has changed of them.
func (m *Store) saveShare(at *location, n *store.Share, h *counting.Sharing, now int64) {
	of := m.locateShare(at, n)
	if h.DivisionChanged {
		at.shard.saveDivision(of.division, &h.Division, now)
	}
	if h.ClientChanged {
		at.shard.savePart(of.client, &h.Client, now)
	}
	if h.UsersChanged {
		at.shard.saveDivision(of.users, &h.Users, now)
	}
	if h.UserChanged {
		at.shard.savePart(of.user, &h.User, now)
	}
}

// clientBits is the length of Division.Clients, which is stored beside the round.
const clientBits = 17

func (s *shard) readDivision(p place, d *counting.Division) {
	i, found := s.find(p)
	if !found {
		return
	}
	slot := &s.slots[i]
	d.Expires, d.Level, d.Active = slot.expires, slot.x, slot.third
	d.Round, d.Clients = slot.unit>>clientBits, slot.unit&(1<<clientBits-1)
	if i, found = s.find(p.second()); found {
		slot = &s.slots[i]
		d.Before, d.Capped, d.Over = slot.x, slot.third, slot.unit
	}
}

func (s *shard) saveDivision(p place, d *counting.Division, now int64) {
	s.saveShareSlot(p, d.Expires, d.Level, d.Active, d.Round<<clientBits|d.Clients, now)
	s.saveShareSlot(p.second(), d.Expires, d.Before, d.Capped, d.Over, now)
}

func (s *shard) readPart(p place, part *counting.Part) {
	i, found := s.find(p)
	if !found {
		return
	}
	slot := &s.slots[i]
	part.Expires, part.Debt, part.At = slot.expires, slot.x, slot.third
	part.Round, part.Capped, part.Large = slot.unit>>2, slot.unit&1 != 0, slot.unit&2 != 0
	if i, found = s.find(p.second()); found {
		part.Least, part.Most = s.slots[i].x, s.slots[i].third
	}
}

// savePart stores a part; zero removes it.
func (s *shard) savePart(p place, part *counting.Part, now int64) {
	if part.Expires == 0 {
		s.forget(p)
		s.forget(p.second())
		return
	}
	unit := part.Round << 2
	if part.Capped {
		unit |= 1
	}
	if part.Large {
		unit |= 2
	}
	s.saveShareSlot(p, part.Expires, part.Debt, part.At, unit, now)
	if part.Least != 0 || part.Most != 0 {
		s.saveShareSlot(p.second(), part.Expires, part.Least, part.Most, 0, now)
	} else {
		s.forget(p.second())
	}
}

// saveShareSlot stores three numbers. Like a mark they count as half used, so that they are evicted before buckets with nothing
// left: their loss gives a client its share once more, and no units beyond the limit.
func (s *shard) saveShareSlot(p place, expires, x, third, unit, now int64) {
	b := counting.Bucket{Expires: expires, X: x, Y: third, Form: counting.Form{Algorithm: counting.ShareRecord, Tick: 1, Rate: 1, Unit: unit}}
	i, found := s.find(p)
	s.put(p, i, found, &b, markBurst, now)
}
