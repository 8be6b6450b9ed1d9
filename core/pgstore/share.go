package pgstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// A check with a share has four records more: the counting.Division of the limit, the counting.Part of its client, and if the client
// has users, theirs. Of all but the first the id ends with a hash of the names, each with its length: so no client can choose a name
// that reaches into another's.

// needShare notes the ids of what belongs to a check's share: of parts alone, or of all.
func (j *job) needShare(i int, all bool) {
	c := &j.checks[i]
	n, key := c.Share, [][]byte{c.Key, c.Share.Key}
	if all {
		j.need(i, divisionPart, idOf(divisionRecord, c.Rule, c.Key))
	}
	j.need(i, clientPart, shareID(clientRecord, c.Rule, key...))
	if n.User == nil {
		return
	}
	if all {
		j.need(i, usersPart, shareID(usersRecord, c.Rule, key...))
	}
	j.need(i, userPart, shareID(userRecord, c.Rule, c.Key, n.Key, n.User))
}

func shareID(k kind, rule *store.Rule, names ...[]byte) string {
	h := sha256.New()
	for _, name := range names {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(name))))
		h.Write(name)
	}
	return string(h.Sum(head(k, rule)))
}

// cloneShare returns a share that outlives the call.
func cloneShare(n *store.Share) *store.Share {
	if n == nil {
		return nil
	}
	clone := *n
	clone.Key, clone.User = bytes.Clone(n.Key), bytes.Clone(n.User)
	return &clone
}

// sharing returns what the records know of a check's share.
func (j *job) sharing(i int, records map[string]*record) *counting.Sharing {
	if !j.share || j.checks[i].Share == nil {
		return nil
	}
	h, parts := new(counting.Sharing), &j.parts[i]
	if r := records[parts[divisionPart]]; r != nil {
		h.Division = r.division
	}
	if r := records[parts[clientPart]]; r != nil {
		h.Client = r.part
	}
	if r := records[parts[usersPart]]; r != nil {
		h.Users = r.division
	}
	if r := records[parts[userPart]]; r != nil {
		h.User = r.part
	}
	return h
}

// noteShare notes in the records what has changed of a check's share.
func (j *job) noteShare(i int, h *counting.Sharing, records map[string]*record) {
	if h == nil {
		return
	}
	parts := &j.parts[i]
	if r := records[parts[divisionPart]]; r != nil && h.DivisionChanged {
		r.division, r.dirty = h.Division, true
	}
	if r := records[parts[clientPart]]; r != nil && h.ClientChanged {
		r.part, r.dirty = h.Client, true
	}
	if r := records[parts[usersPart]]; r != nil && h.UsersChanged {
		r.division, r.dirty = h.Users, true
	}
	if r := records[parts[userPart]]; r != nil && h.UserChanged {
		r.part, r.dirty = h.User, true
	}
}

func divisionFields(d *counting.Division) []*int64 {
	return []*int64{&d.Expires, &d.Round, &d.Level, &d.Active, &d.Before, &d.Capped, &d.Over, &d.Clients}
}

func partFields(p *counting.Part) []*int64 {
	return []*int64{&p.Expires, &p.At, &p.Debt, &p.Least, &p.Most, &p.Round}
}

// What follows the fields of a part.
const (
	isCapped = 1
	isLarge  = 2
)

func appendPart(b []byte, p *counting.Part) []byte {
	for _, field := range partFields(p) {
		b = binary.AppendVarint(b, *field)
	}
	flags := int64(0)
	if p.Capped {
		flags |= isCapped
	}
	if p.Large {
		flags |= isLarge
	}
	return binary.AppendVarint(b, flags)
}

func (d *decoder) part(p *counting.Part) {
	d.counts(partFields(p))
	flags := d.next()
	p.Capped, p.Large = flags&isCapped != 0, flags&isLarge != 0
}

// counts reads numbers that can't be negative.
func (d *decoder) counts(fields []*int64) {
	for _, field := range fields {
		if *field = d.next(); *field < 0 {
			d.failed = true
		}
	}
}
