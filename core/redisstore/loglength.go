package redisstore

// How long the logs of sliding logs and concurrency limits are. A check of one costs
// Redis by its length, so batches are bounded by it.

import (
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// maxLogEntries bounds the log entries that a batch has Redis read, and so how long
// the batch keeps Redis busy, which runs its calls one after the other. An entry takes
// some 60 ns, so 4,000 of them take 0.25 ms. A longer log is a batch of its own.
const maxLogEntries = 4000

// logLengthPeriod is how long the longest log counts, at least. After two periods
// without a reading, nothing is known.
const logLengthPeriod = 10 * time.Second

// logLengths holds the lengths of the longest recent logs, by the id of the limit, each
// a packed recentLength. Limits whose ids collide share an entry. A log is as long as
// it has been used, which is mostly much less than it can be. Each check of a log reads
// and notes a length, so an entry is one atomic word and no lock.
type logLengths [256]atomic.Uint64

// longest returns how many entries a log of the rule has at most, as far as is known.
func (l *logLengths) longest(r *store.Rule) int {
	now, known := logPeriod(), unpackLength(l.entry(r).Load())
	switch known.period {
	case now:
		return int(max(known.now, known.before))
	case now - 1:
		return int(known.now)
	}
	return int(r.Quota)
}

// note notes how many entries a log has.
func (l *logLengths) note(r *store.Rule, entries int64) {
	at, now := l.entry(r), logPeriod()
	for {
		packed := at.Load()
		known := unpackLength(packed)
		if known.period != now {
			before := uint16(0)
			if known.period == now-1 {
				before = known.now
			}
			known = recentLength{period: now, before: before}
		}
		known.now = max(known.now, uint16(min(entries, 1<<16-1)))
		if packed == known.pack() || at.CompareAndSwap(packed, known.pack()) {
			return
		}
	}
}

func (l *logLengths) entry(r *store.Rule) *atomic.Uint64 { return &l[r.ID()%uint64(len(l))] }

// recentLength is the length of the longest log in a period and in the one before.
type recentLength struct {
	period      uint32 // from 1, so that 0 is none
	now, before uint16
}

func unpackLength(packed uint64) recentLength {
	return recentLength{uint32(packed >> 32), uint16(packed >> 16), uint16(packed)}
}

func (l recentLength) pack() uint64 {
	return uint64(l.period)<<32 | uint64(l.now)<<16 | uint64(l.before)
}

// logPeriod returns the number of the current period. It begins at 2, so that the one
// before it is not 0.
func logPeriod() uint32 { return uint32(monotonic()/int64(logLengthPeriod)) + 2 }
