package pgstore

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/weblimit/weblimit/core/store"
)

// kind is the first byte of a record's id: what the record is.
type kind byte

// The kinds are part of what is stored: their values never change.
const (
	bucketRecord  kind = 1
	penaltyRecord kind = 2
	markRecord    kind = 3
	swapRecord    kind = 4 // behind it the key of store.Server.Swap; the state is the value

	// Of limits that clients divide: see share.go.
	divisionRecord kind = 5
	clientRecord   kind = 6
	usersRecord    kind = 7
	userRecord     kind = 8
)

// hashed is added to the kind if a hash stands for the key, so that no client can choose a key that is the hash of another's.
const hashed = 0x80

// longestKey is the longest key that is stored as it is. An index of PostgreSQL takes no value
// above 2,704 bytes.
const longestKey = 512

// head returns the beginning of the ids of a rule's records of one kind.
func head(k kind, rule *store.Rule) []byte {
	return binary.BigEndian.AppendUint64([]byte{byte(k)}, rule.ID())
}

// idOf returns the id of a bucket or penalty: its head and the key, or the key's hash. The head has a fixed length, so
// no key can reach into another limit.
func idOf(k kind, rule *store.Rule, key []byte) string {
	if len(key) <= longestKey {
		return string(append(head(k, rule), key...))
	}
	sum := sha256.Sum256(key)
	return string(append(head(k|hashed, rule), sum[:]...))
}

// penaltyOf returns the id of the penalty of a bucket's limit and key.
func penaltyOf(bucket string) string {
	return string([]byte{bucket[0] - byte(bucketRecord) + byte(penaltyRecord)}) + bucket[1:]
}

// markID returns the id of an operation's mark: the hash of the key and the operation's key,
// kept apart by the length of the first.
func markID(rule *store.Rule, key, once []byte) string {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(key))))
	h.Write(key)
	h.Write(once)
	return string(h.Sum(head(markRecord, rule)))
}
