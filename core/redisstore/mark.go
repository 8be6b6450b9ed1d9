package redisstore

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"

	"github.com/weblimit/weblimit/core/store"
)

// mark is what is left of an operation that was charged, of a check with Once. It
// is a Redis key of its own, for it ends at another time than the limits do, in
// the hash slot of the client's key. The script decides it before the check.
type mark struct {
	check int // of the request's checks
	of    *store.Check
}

const (
	// markAlgorithm is what the script knows marks by.
	markAlgorithm = 7

	// repeated is what the script says of a check whose operation has a mark.
	repeated = 2

	// markHash is how much of a hash is in the name: 128 bits, so that nobody finds
	// two operations of one name by trying.
	markHash = 16
)

// remember adds the mark of a check with Once. All marks come before all checks.
func (p *part) remember(index int, check *store.Check, charged int64) {
	p.marks = append(p.marks, mark{index, check})
	p.data[checksAt]++
	p.data[keysAt]++
	p.data = append(p.data, 1, markAlgorithm)
	for _, n := range [...]int64{1, check.Rule.Once.Microseconds(), check.Rule.Repeats, 0, 0} {
		p.data = appendNumber(p.data, n)
	}
	p.data = append(p.data, 6)
	p.data = binary.LittleEndian.AppendUint32(p.data, check.Rule.ID())
	p.data = append(p.data, markAlgorithm<<4, 9) // microseconds; the state has a width of 9
	if p.op == refund {
		p.data = appendNumber(p.data, charged)
	}
	p.equal = false // of several equal parts only the first is charged
}

// markOf returns the number of a check's mark, from 1, or 0.
func (p *part) markOf(index int) int {
	return 1 + slices.IndexFunc(p.marks, func(m mark) bool { return m.check == index })
}

// appendKey writes the mark's Redis key: the client's, and a hash of the limit
// and the operation's key, which a client chooses.
func (m *mark) appendKey(dst []byte, prefix string) []byte {
	var few [256]byte
	hash := sha256.Sum256(append(binary.LittleEndian.AppendUint32(few[:0], m.of.Rule.ID()), m.of.Once...))
	dst = append(appendKey(dst, prefix, m.of.Key), ':')
	return base64.RawURLEncoding.AppendEncode(dst, hash[:markHash])
}
