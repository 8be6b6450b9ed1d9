package core

import (
	"crypto/sha256"
	"io"
	"strconv"
	"time"

	"github.com/weblimit/weblimit/keyfuncs"
)

// OncePer charges an operation once, even if it is repeated within ttl:
//
//	core.PerHour(100).By(keyfuncs.User("user")).OncePer(keyfuncs.Header("Idempotency-Key"), 24*time.Hour)
//
// Requests belong to one operation if they have the same key of the limit, the same
// method, path and cost, and the same operation key. The first charged request of an
// operation leaves a mark, in one step with the charge. The next 3 requests, or as many
// as [Limit.Repeats] says, are allowed and charge nothing, even if the limit is
// exhausted by then; their [Result] is Repeated. The one after them is charged as a new
// operation.
//
// A request that is denied, or costs 0, leaves no mark and is no repeat. A refund
// removes the mark. Under [Limit.Estimate] a repeat is charged what its handler reports
// with [Spend], if it does the work again. A block of [Limit.Penalty] denies repeats,
// too. Requests without the operation key are charged as usual, and so are those of
// [Limiter.AllowKey]. A request with an ambiguous operation key is denied with
// [ReasonAmbiguousKey]: it could be an operation that the application knows and does
// again.
//
// The ttl is from 1s to 31 days, in whole microseconds. It counts from the charge, and
// repeats don't extend it. A [Concurrent] limit can't have OncePer.
//
// # Security
//
// A client chooses its operation keys. It may send one key with different queries or
// bodies, which a limiter does not read, and so get 4 requests for the
// price of one. Where that is too much, include a fingerprint of the body in the
// operation key (draft-ietf-httpapi-idempotency-key-header-07, section 2.4): a
// middleware in front of the limiter computes a digest of the body. The same key with
// another body is then another operation, and is charged:
//
//	keyfuncs.Join(keyfuncs.Header("Idempotency-Key"), keyfuncs.Custom("digest", digestOf))
//
// A digest from the client, as in Content-Digest, is worth nothing until it is verified.
//
// OncePer limits how often an operation is charged, and not how often it is done: it
// stores no responses. Have the application answer a repeat with the stored response,
// and refuse an operation key that comes with another body. Where a repeat costs
// anything, put a limit without OncePer beside this one.
//
// # Details
//
// [Limiter.Reset] forgets what was used and not the marks, which end with their ttl.
//
// During an outage of the store, its stand-in keeps marks of its own. An operation that
// is repeated across the beginning or end of an outage is charged on both sides. What
// was granted locally under such a limit is not charged to the store afterwards.
//
// On a Redis Cluster or Ring, a request whose limits lie in several slots leaves its
// mark before the last slot has allowed it. If that slot denies, mark and charge are
// taken back; a repeat that came in between was free. A repeat that the limit of another
// slot denies counts as one.
func (l Limit) OncePer(operation keyfuncs.Func, ttl time.Duration) Limit {
	l.settings.set(setOnce)
	l.once, l.numbers.Once, l.hasOnce = operation, ttl, true
	return l
}

// Repeats sets how many repeats of an operation are free under [Limit.OncePer], from 1
// to 1000. A client that sends different requests as one operation gets 1 + n of them
// for the price of one, so raise n only if the operation key holds a digest of the
// body. Defaults to 3, as many as well-behaved clients send.
func (l Limit) Repeats(n int64) Limit {
	l.settings.set(setRepeats)
	l.numbers.Repeats, l.numbers.hasRepeats = n, true
	return l
}

// maxPath is the longest path that is kept as it is in an operation. Longer ones are
// hashed: a path can be as long as the server accepts.
const maxPath = 128

// appendTarget appends the method and path of a request, as they were sent. Neither
// keys nor methods hold zero bytes, so the zero bytes keep the parts apart. Two
// spellings of a path are two operations, and both are charged. So are two requests with
// different costs, by CostBy or as a caller says: else a client would do what is dear as a
// repeat of what is cheap. more is by how much the cost differs from that of the limit.
// No method has a blank.
func appendTarget(dst []byte, r keyfuncs.Request, more int64) []byte {
	dst = append(append(dst, 0), r.Method()...)
	if more != 0 {
		dst = strconv.AppendInt(append(dst, ' '), more, 10)
	}
	dst = append(dst, 0)
	path := r.Path()
	if len(path) <= maxPath {
		return append(dst, path...)
	}
	hash := sha256.New()
	_, _ = io.WriteString(hash, path)
	return hash.Sum(append(dst, 0))
}
