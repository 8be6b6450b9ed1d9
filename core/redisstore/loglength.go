package redisstore

import (
	"sync/atomic"
	"time"

	"github.com/weblimit/weblimit/core/store"
)

// maxWork bounds the entries of logs that a flight has Redis read, and so how long it
// holds Redis, which runs the calls of a flight one after the other: an entry takes
// some 60 ns, and so do 4,000 of them 0.25 ms. A longer log is a flight of its own.
const maxWork = 4000

// logs are how long the longest logs are of late, by the id of the limit; limits
// whose ids fall together count as one. A log is as long as it has been used, which is
// mostly much less than it can be.
type logs [256]atomic.Uint64

// logsPeriod is how long the longest log counts, at least. After two periods nothing
// is known.
const logsPeriod = 10 * time.Second

// isLog reports whether a rule keeps an entry for each request that counts.
func isLog(r *store.Rule) bool {
	return r.Algorithm == store.SlidingLog || r.Algorithm == store.Concurrency
}

// longest returns how many entries a log of the rule has, at most, as far as is
// known.
func (l *logs) longest(r *store.Rule) int {
	now, known := logsNow(), logLengths(l[r.ID()%uint32(len(l))].Load())
	switch known.period {
	case now:
		return int(max(known.now, known.before))
	case now - 1:
		return int(known.now)
	}
	return int(r.Quota)
}

// read notes how many entries a log has.
func (l *logs) read(r *store.Rule, entries int64) {
	at, now := &l[r.ID()%uint32(len(l))], logsNow()
	for {
		packed := at.Load()
		known := logLengths(packed)
		if known.period != now {
			before := uint16(0)
			if known.period == now-1 {
				before = known.now
			}
			known = lengths{period: now, before: before}
		}
		known.now = max(known.now, uint16(min(entries, 1<<16-1)))
		if packed == known.pack() || at.CompareAndSwap(packed, known.pack()) {
			return
		}
	}
}

// lengths are those of the longest logs in this period and in the one before.
type lengths struct {
	period      uint32 // from 1
	now, before uint16
}

func logLengths(packed uint64) lengths {
	return lengths{uint32(packed >> 32), uint16(packed >> 16), uint16(packed)}
}

func (l lengths) pack() uint64 {
	return uint64(l.period)<<32 | uint64(l.now)<<16 | uint64(l.before)
}

// logsNow returns the number of the period.
func logsNow() uint32 { return uint32(monotonic()/int64(logsPeriod)) + 2 }
