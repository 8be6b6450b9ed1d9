package script

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/core/store/counting"
)

// A check with Share has two or four Redis keys more, in the hash slot of its own: of the division and the client, and of
// the client's users and the user. They come behind the group's other keys, and what is said of them behind its checks: see lua/share.lua.

// hasShares is added to the operation of a group with such checks.
const hasShares = 1 << 5

// shareNumbers is how many numbers more the answer to such a check has.
const shareNumbers = 2

// AddShare adds the share of a check that was added. charged is the result of the charge that is refunded; it is not read
// otherwise.
func (g *Group) AddShare(check *store.Check, charged *store.Result) {
	share, rule := check.Share, check.Rule
	ints, keys := &rule.Integers, byte(2)
	if share.User != nil {
		keys = 4
	}
	g.shared = appendID(g.shared, rule.ID())
	key := len(g.marks) + slices.IndexFunc(g.tags, func(tag []byte) bool { return bytes.Equal(tag, check.Key) })
	g.shared = append(g.shared, byte(key+1), keys)
	cost, at, standing := min(check.Cost, store.AllParts), int64(0), store.Undivided
	parts := counting.PartsOf(rule, check.Cost)
	switch g.Op {
	case Charge:
		parts = counting.PartsOwed(rule, check.Cost)
	case Refund:
		at, standing = charged.At, charged.Standing
	}
	keep := func(standing store.Standing) int64 { return counting.KeptFrom(rule, standing) * ints.Unit }
	for _, n := range [...]int64{
		rule.Window.Microseconds() / ints.Ticks, ints.Ticks, rule.Quota * ints.Parts, parts, cost, share.Weight, share.Minimum, share.Maximum,
		keep(store.WithinShare), keep(store.OverShare), counting.AlarmAt(rule) * ints.Unit, ints.Parts, at, int64(standing),
	} {
		g.shared = appendNumber(g.shared, n)
	}
	g.dividers = append(g.dividers, check)
	g.answer += 7 * shareNumbers
}

// sharesOf returns how many numbers the answer to a check tells of its share, up to a Reset: others read none.
func sharesOf(check *store.Check) int {
	if check.Share == nil {
		return 0
	}
	return shareNumbers
}

// Shared sets what an answer to a check tells of its share.
func (a Answer) Shared(check *store.Check, reading *counting.Reading) {
	if sharesOf(check) > 0 {
		n := Numbers(check.Rule.Algorithm)
		reading.SetShare(a.Number(n), a.Number(n+1))
	}
}

// endShares writes what is said of shares.
func (g *Group) endShares() {
	if len(g.dividers) == 0 {
		return
	}
	if g.isPlainShare() {
		g.data[0] |= isPlain
	}
	g.data[0] |= hasShares
	g.data = append(g.data, g.shared...)
	g.data = binary.LittleEndian.AppendUint16(g.data, uint16(len(g.shared)))
}

// isPlainShare reports whether lua/share.lua may decide the group at once: a take of one enforced check with a cost, and
// with a share but no minimum, maximum and users.
func (g *Group) isPlainShare() bool {
	check := g.dividers[0]
	return g.Op == Take && g.data[0] == byte(Take) && len(g.Checks) == 1 && len(g.marks) == 0 && g.Notice == 0 && !check.Shadow &&
		check.Cost > 0 && check.Cost <= check.Rule.Burst && check.Rule.Burst == check.Rule.Whole &&
		check.Share.User == nil && check.Share.Minimum == 0 && check.Share.Maximum == 0
}

// sealShares adds the Redis keys of shares.
func (g *Group) sealShares(prefix string) {
	for _, check := range g.dividers {
		for kind := range shareKinds(check.Share) {
			g.data = appendShareKey(g.data, prefix, check, kind)
			g.ends = append(g.ends, len(g.data))
		}
	}
}

// shareKind is what a key of a share holds.
type shareKind byte

const (
	divisionKey shareKind = iota
	clientKey
	usersKey
	userKey
)

// shareKinds returns how many keys a share has.
func shareKinds(share *store.Share) shareKind {
	if share.User != nil {
		return userKey + 1
	}
	return clientKey + 1
}

// appendShareKey writes a key of a share: that of the limit, and behind a letter that no mark has there a hash of the limit and
// of the client and user, which make up their own names.
func appendShareKey(dst []byte, prefix string, check *store.Check, kind shareKind) []byte {
	var few [256]byte
	text := append(appendID(few[:0], check.Rule.ID()), byte(kind))
	if kind != divisionKey {
		text = append(binary.LittleEndian.AppendUint64(text, uint64(len(check.Share.Key))), check.Share.Key...)
	}
	if kind == userKey {
		text = append(text, check.Share.User...)
	}
	hash := sha256.Sum256(text)
	dst = append(AppendKey(dst, prefix, check.Key), ':', 's')
	return base64.RawURLEncoding.AppendEncode(dst, hash[:markHash])
}
