package core

import (
	"crypto/sha256"
	"io"
	"time"

	"github.com/weblimit/weblimit/core/store"
	"github.com/weblimit/weblimit/keyfuncs"
)

// DefaultRepeats is how many repeats of an operation are free under a limit with
// [Limit.OncePer], unless [Limit.Repeats] says otherwise: as many as careful clients
// send.
const DefaultRepeats = store.DefaultRepeats

// OncePer charges an operation once, even if it is repeated within ttl:
//
//	core.PerHour(100).By(keyfuncs.User("user")).OncePer(keyfuncs.Header("Idempotency-Key"), 24*time.Hour)
//
// An operation is what requests of one client, method, path and operation key are,
// under one limit: a client that sends the same key to another path does something
// else. The first request of an operation that is charged leaves a mark, in one step
// with the charge. The next [DefaultRepeats] are allowed and take nothing, even when
// the limit is exhausted by then; their [Result] says Repeated. The one after them
// is charged again, as a new operation. A block of a [Limit.Penalty] denies repeats,
// too. A request that is denied leaves no mark and is no repeat, nor is one of cost
// 0; one whose charge is refunded takes its mark with it. Under [Limit.Estimate] a
// repeat costs what its handler tells by [Charge], if it does the work again. A
// request without the operation's key, and [Limiter.AllowKey], which has no request,
// are charged as usual. One whose operation's key is ambiguous is denied with
// [ReasonAmbiguousKey]: charged as usual, it could be an operation that the
// application knows and does again.
//
// # Security
//
// A client chooses its operation keys, and may send one key with different queries
// or bodies, which a limiter does not read. So it gets up to 1 + DefaultRepeats
// requests for the price of one. Where that is too much, give the body a fingerprint
// (draft-ietf-httpapi-idempotency-key-header-07, section 2.4): let a middleware
// in front of the limiter store a digest of what was sent, and join it to the key.
// The same key with another body is another operation then, and is charged:
//
//	keyfuncs.Join(keyfuncs.Header("Idempotency-Key"), keyfuncs.Custom("digest", digestOf))
//
// A digest that the client sends, as in Content-Digest, is as good as none until it
// was checked.
//
// On a Redis Cluster or Ring, a request whose limits lie in several slots leaves its
// mark before the last of them has allowed it. Should that one deny, mark and charge
// are taken back; a repeat that came in between was free.
//
// OncePer limits how often operations are charged, not how often they are done: it
// stores no responses. Have the application answer a repeat from what it has stored,
// refuse a key that comes with another body, and put a limit without OncePer beside
// this one where a repeat costs anything.
//
// # Details
//
// The ttl counts from the charge, is not extended by repeats, and is from 1s to 31
// days, in whole microseconds. [Limiter.Reset] forgets what was used and not the
// marks, which it does not know: they end with their ttl. While the store is out,
// what stands in for it keeps marks of its own: an operation that is repeated
// across the beginning or end of an outage is charged on either side, and what was
// granted locally under such a limit is not charged to the store afterwards. On a
// Cluster a repeat that another slot's limit denies counts as one.
//
// A limit of requests at the same time ([Concurrent]) can't have it.
func (l Limit) OncePer(operation keyfuncs.Func, ttl time.Duration) Limit {
	l.once, l.numbers.Once, l.hasOnce = operation, ttl, true
	return l
}

// Repeats sets how many repeats of an operation are free under [Limit.OncePer], from
// 1 to 1000. With n repeats a client that sends different requests as one operation
// has 1 + n for the price of one: raise it where the operation's key holds a digest
// of the body. Defaults to [DefaultRepeats].
func (l Limit) Repeats(n int64) Limit {
	l.numbers.Repeats, l.numbers.hasRepeats = n, true
	return l
}

// askOnce adds the operation's key to the check that was added last, if the
// request has one. It returns a reason to deny the request, or ReasonUndecided.
func (c *call) askOnce(l *limit, r keyfuncs.Request) Reason {
	start := len(c.keys)
	keys, presence := l.once.Append(c.keys, r)
	switch presence {
	case keyfuncs.Present:
		keys = appendTarget(keys, r)
		c.keys = keys
		c.checks[len(c.checks)-1].Once = keys[start:len(keys):len(keys)]
	case keyfuncs.Ambiguous:
		return ReasonAmbiguousKey
	case keyfuncs.Missing:
	}
	return ReasonUndecided
}

// maxPath is up to which length an operation has the path as it is. Paths can be as
// long as a server takes.
const maxPath = 128

// appendTarget appends what a request asks for: its method and path, as they were
// sent. Keys have no zero bytes, and methods neither, so that the whole tells them
// apart. Of two spellings of a path each is an operation of its own, and is charged.
func appendTarget(dst []byte, r keyfuncs.Request) []byte {
	dst = append(append(append(dst, 0), r.Method()...), 0)
	path := r.Path()
	if len(path) <= maxPath {
		return append(dst, path...)
	}
	hash := sha256.New()
	_, _ = io.WriteString(hash, path)
	return hash.Sum(append(dst, 0))
}
