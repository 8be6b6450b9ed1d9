package core

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math/bits"
	"time"

	"github.com/weblimit/weblimit/keyfuncs"
)

// The bounds of how long a repeated operation is known for one.
const (
	minOnce = time.Second
	maxOnce = 31 * 24 * time.Hour
)

// OncePer charges an operation once, however often it is repeated within ttl:
//
//	core.PerHour(100).By(keyfuncs.APIKey()).OncePer(keyfuncs.Header("Idempotency-Key"), 24*time.Hour)
//
// The first request with an operation's key that is charged leaves a mark, in one
// step with the charge. Those that follow, from the same client under the same
// limit, are allowed and take nothing, even when the limit is exhausted by then;
// their [Result] says Repeated. A block of a [Limit.Penalty] denies repeats, too.
// A request that is denied leaves no mark, nor does one of cost 0; one whose charge
// is refunded takes its mark with it. A request without the operation's key, and
// [Limiter.AllowKey], which has no request, are charged as usual. One whose
// operation's key is ambiguous is denied with [ReasonAmbiguousKey]: charged as usual,
// it could be an operation that the application knows and does again.
//
// A client chooses its operation keys, and one that repeats a key is not limited:
// have the application answer a repeated operation from what it has stored, and
// put a limit without OncePer in front where a repeat costs anything.
//
// The ttl counts from the charge, is not extended by repeats, and is from 1s to 31
// days, in whole microseconds. [Limiter.Reset] forgets what was used and not the
// marks, which it does not know: they end with their ttl. While the store is out,
// what stands in for it keeps marks of its own: an operation that is repeated
// across the beginning or end of an outage is charged on either side, and what was
// granted locally under such a limit is not charged to the store afterwards.
//
// A limit of requests at the same time ([Concurrent]) can't have it.
func (l Limit) OncePer(operation keyfuncs.Func, ttl time.Duration) Limit {
	l.once, l.onceTTL, l.hasOnce = operation, ttl, true
	return l
}

func (l *Limit) validateOnce() error {
	switch {
	case !l.hasOnce:
	case l.once.Err() != nil:
		return fmt.Errorf("OncePer: %s", unprefixed(l.once.Err()))
	case l.concurrent:
		return errors.New("OncePer belongs to limits that count requests, not to a limit of requests at the same time")
	case l.onceTTL < minOnce || l.onceTTL > maxOnce || l.onceTTL%time.Microsecond != 0:
		return fmt.Errorf("OncePer: the ttl must be from 1s to 31 days, in whole microseconds, got %v", l.onceTTL)
	}
	return nil
}

// Once returns how long an operation's key is remembered that was charged: 0 for
// a limit without [Limit.OncePer].
func (r *Rule) Once() time.Duration { return r.once }

// askOnce adds the operation's key to the check that was added last, if the
// request has one. It returns a reason to deny the request, or ReasonUndecided.
func (c *call) askOnce(l *limit, r keyfuncs.Request) Reason {
	start := len(c.keys)
	keys, presence := l.once.Append(c.keys, r)
	switch presence {
	case keyfuncs.Present:
		c.keys = keys
		c.checks[len(c.checks)-1].Once = keys[start:len(keys):len(keys)]
	case keyfuncs.Ambiguous:
		return ReasonAmbiguousKey
	case keyfuncs.Missing:
	}
	return ReasonUndecided
}

// A memory store keeps a mark as a bucket of its own, in the shard of the client's
// key: x is 1, and y when the operation was charged.

// markBurst makes a mark half used: it is evicted before buckets with nothing
// left, since to forget it costs the client a second charge, and nobody else
// anything.
const markBurst = 2

// markOf returns the hash of the mark of a check that has the given one.
func (m *Memory) markOf(hash uint64, c *Check) uint64 {
	return bits.RotateLeft64(hash, 32) + maphash.Bytes(m.seeds[1], c.Once)
}

// markPlace returns where the mark of the check's operation belongs.
func (v *visit) markPlace() place { return place{v.mark, v.check} }

// recall finds out whether the check's operation was charged before. The caller
// has locked the shard.
func (v *visit) recall(now int64) {
	i, found := v.shard.find(v.markPlace())
	v.repeated = found && v.shard.slots[i].expires > now
}

// remember leaves the mark of an operation that is charged now.
func (v *visit) remember(rule *Rule, now int64) {
	b := bucket{expires: now + rule.once.Microseconds(), x: 1, y: now, form: form{algorithm: onceMark, tick: 1, rate: 1}}
	i, found := v.shard.find(v.markPlace())
	v.shard.put(v.markPlace(), i, found, &b, markBurst, now)
}

// unmark removes the mark, if it is that of a charge at the given time.
func (v *visit) unmark(at int64) {
	if i, found := v.shard.find(v.markPlace()); found && v.shard.slots[i].third == at {
		v.shard.remove(i)
	}
}
