package redisstore

// A process that is starved: it had no processor when a deadline passed, because it was stopped
// or throttled, or has more to do than processors. Its timers fire before it has looked at its
// connections, so a deadline that passed meanwhile says nothing of the server, whose reply may
// lie in the socket. Each of the functions below looks once more, and then goes on for as long as the
// process was late, within bounds: a server that does not answer is still noticed. See dialer.go for
// the connections.

import (
	"context"
	"runtime"
	"time"

	"github.com/weblimit/weblimit/core/store/counting"
)

const (
	// lateAfter is how late a process is that counts as starved. An idle one is late by
	// some 0.1 ms.
	lateAfter = 2 * time.Millisecond

	// maxExtension bounds by how much a deadline is extended at a time.
	maxExtension = 25 * time.Millisecond

	// maxPutOffs bounds how often an owner's deadline is extended. An owner waits for two round
	// trips at most, its own and the one before. Each needs the processor to be sent, to be read,
	// up to maxLooks times again, and to be handed on.
	maxPutOffs = 2 * (maxLooks + 4)
)

// extended returns for how much longer to wait for what was due at a time, which is now: for as long
// as the process is late, or 0.
func extended(due time.Time) time.Duration {
	// All that were ready before go first, such as the goroutine that reads the answer.
	runtime.Gosched()
	if late := time.Since(due); late >= lateAfter {
		return min(late, maxExtension)
	}
	return 0
}

// waitLonger is for an owner whose context is over. It reports whether the job was done, or leads a
// batch, while the process made up for its delay.
func (j *job) waitLonger(ctx context.Context) bool {
	due, bounded := ctx.Deadline()
	for times := 0; bounded && times < maxPutOffs; times++ {
		more := extended(due)
		if more == 0 {
			break
		}
		due = time.Now().Add(more)
		t := time.NewTimer(more)
		select {
		case <-j.signal:
			t.Stop()
			return true
		case <-t.C:
		}
	}
	return false
}

// sweepLater puts off a sweep that is due, for as long as the process is late. It reports whether it did.
func (n *node) sweepLater() bool {
	n.mu.Lock()
	due, times := n.sweepAt, n.putOff
	n.mu.Unlock()
	if due == 0 {
		return false
	}
	more := time.Duration(0)
	if times < maxPutOffs {
		more = extended(origin.Add(time.Duration(due)))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if more == 0 {
		n.putOff = 0
		return false
	}
	if n.sweepAt == due { // else another sweep is planned already
		n.putOff++
		n.sweepAt = 0
		n.expect(monotonic() + int64(more))
	}
	return true
}

// timeFor returns how much time a round trip has that begins now, for the owner of a job: until its
// deadline, or, if that has passed because the process was late, half the usual time, so that it still says
// something of the server. It returns 0 if there is none. A request has that half once, or its
// round trips to a slow server, one after the other, would each have it. Only a limiter's
// deadline is known to have begun in the future.
func (n *node) timeFor(ctx context.Context, ends time.Time, j *job) time.Duration {
	left := time.Until(ends)
	if left > 0 {
		return left
	}
	if _, ok := ctx.(counting.Deadline); !ok || -left < lateAfter {
		return 0
	}
	now := monotonic()
	if j.lateEnds == 0 {
		j.lateEnds = now + int64(n.usualTimeout()/2)
	}
	return max(time.Duration(j.lateEnds-now), 0)
}

// wasStarved reports whether an answer that took nearly all of its time, or more, did so because
// of this process.
func (n *node) wasStarved(took, had time.Duration) bool {
	if took >= had+lookAgain+lateAfter && !n.ownTimeouts { // nobody waits for that long, unless for a processor
		return true
	}
	began := time.Now()
	runtime.Gosched()
	return time.Since(began) >= lateAfter
}
