package memstore

import (
	"hash/maphash"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// A Division and a Part take two buckets each. The second one of a part is there only if the client has a minimum or a maximum.
// The limit's division is in the shard of its bucket, and each part in one of its own, with the division of its users: all the
// clients of a limit would not have room in one.

// atShare are the locations of a check's share beside that of the limit's bucket, in call.at.
const (
	atClient = iota
	atUser   // the client's once more if it has no users
	atShares
)

// shareSpacing keeps the records of one check apart.
const shareSpacing = 0xd6e8feb86659fd93

// second is the place of the second bucket of a record.
func (p place) second() place {
	p.hash = p.hash*shareSpacing + 1
	return p
}

// division returns the place of the division of a limit, or of a client.
func (p place) division() place { return place{p.hash*shareSpacing + 2, p.check} }

// locateShare appends the locations of a check's share.
func (m *Store) locateShare(all []location, at *location, n *store.Share) []location {
	client := m.locatePart(at, n.Key)
	user := client
	if n.User != nil {
		user = m.locatePart(&client, n.User)
	}
	return append(all, client, user)
}

// locatePart locates the part of a client of a limit, or of a user of a client.
func (m *Store) locatePart(in *location, name []byte) (at location) {
	at.hash = (in.hash ^ maphash.Bytes(m.seeds[0], name)) * shareSpacing
	at.check = in.check ^ uint32(maphash.Bytes(m.seeds[1], name))
	m.setShard(&at)
	return at
}

// readShare reads the records of a check's share. Those that are not there read as zero.
func readShare(at *location, share []location, n *store.Share, h *counting.Sharing) {
	*h = counting.Sharing{}
	client, user := &share[atClient], &share[atUser]
	at.shard.readDivision(at.division(), &h.Division)
	client.shard.readPart(client.place, &h.Client)
	if n.User != nil {
		client.shard.readDivision(client.division(), &h.Users)
		user.shard.readPart(user.place, &h.User)
	}
}

// saveShare stores what has changed of them.
func saveShare(at *location, share []location, h *counting.Sharing, now int64) {
	client, user := &share[atClient], &share[atUser]
	if h.DivisionChanged {
		at.shard.saveDivision(at.division(), &h.Division, now)
	}
	if h.ClientChanged {
		client.shard.savePart(client.place, &h.Client, now)
	}
	if h.UsersChanged {
		client.shard.saveDivision(client.division(), &h.Users, now)
	}
	if h.UserChanged {
		user.shard.savePart(user.place, &h.User, now)
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
	s.saveShareSlot(p, d.Expires, d.Level, d.Active, d.Round<<clientBits|d.Clients, divisionBurst, now)
	s.saveShareSlot(p.second(), d.Expires, d.Before, d.Capped, d.Over, divisionBurst, now)
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
	s.saveShareSlot(p, part.Expires, part.Debt, part.At, unit, partBurst, now)
	if part.Least != 0 || part.Most != 0 {
		s.saveShareSlot(p.second(), part.Expires, part.Least, part.Most, 0, partBurst, now)
	} else {
		s.forget(p.second())
	}
}

// A division counts as half used, as a mark does, and a part as used by a quarter. So they are evicted before buckets with nothing
// left and before blocks, whoever makes up keys and clients: their loss gives a client its share once more, and no units
// beyond the limit. A division goes after the parts that need it.
const (
	divisionBurst = 2 * markUsed
	partBurst     = 4 * markUsed
)

// saveShareSlot stores three numbers.
func (s *shard) saveShareSlot(p place, expires, x, third, unit, burst, now int64) {
	b := counting.Bucket{Expires: expires, X: x, Y: third, Form: counting.Form{Algorithm: counting.ShareRecord, Tick: 1, Rate: 1, Unit: unit}}
	i, found := s.find(p)
	s.put(p, i, found, &b, burst, now)
}
